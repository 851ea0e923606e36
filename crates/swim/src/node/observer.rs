//! Observing: when asked for our opinion of a node we measure it ourselves, with a row of pings and one stream, and answer
//! all who asked. Nothing that was measured before the question counts.

use std::net::SocketAddr;
use std::time::Duration;

use model::Instant;

use super::{Exchange, Node};
use crate::config::Opinions;
use crate::identity::{Identity, Incarnation, NodeId};
use crate::message::{Message, Request, Status, Update, View};
use crate::timers::Timer;

/// Most measurements under way; beyond, we say that we are unable.
const MEASUREMENTS_MAX: usize = 64;
/// Most who can ask about one node at once; further ones are not answered, and ask somebody else.
const ASKERS_MAX: usize = 64;

/// Who asked, where the answer goes, and which round it is for.
pub(super) type Asker = (Identity, SocketAddr, u32);

/// A measurement. Its pings have the numbers `first..first + sent`.
#[derive(Debug)]
pub(super) struct Measurement {
    target: Identity,
    pub(super) addr: SocketAddr,
    incarnation: Incarnation,
    began: Instant,
    pub(super) first: u32,
    pub(super) sent: u32,
    pub(super) acked: u64,
    /// Through whom it is tried because of our own bad links, and who had an answer, once for each.
    pub(super) helpers: Vec<(Identity, SocketAddr)>,
    pub(super) through: Vec<NodeId>,
    pub(super) view: Option<View>,
    /// Once there is an opinion: how long it is remembered.
    kept_until: Instant,
    askers: Vec<Asker>,
}

impl Measurement {
    /// False once so many pings have timed out that the rest cannot make it good: the verdict need not wait for them.
    fn can_still_be_good(&self, opinions: &Opinions, probe_timeout: Duration) -> bool {
        let every = opinions.ping_every.as_nanos().max(1);
        // The pings are evenly spaced, and the next one is about to be sent: so many of them have timed out.
        let young = (probe_timeout.as_nanos().div_ceil(every)) as u32;
        let old = (self.sent + 1).saturating_sub(young);
        let answered = (self.acked & ((1_u64 << old.min(63)) - 1)).count_ones();
        let failed = old.saturating_sub(answered);
        opinions.pings.saturating_sub(failed) >= opinions.good_at
    }
}

impl Node {
    pub(super) fn asked(
        &mut self,
        asker: Asker,
        target: Identity,
        addr: SocketAddr,
        incarnation: Incarnation,
    ) {
        if target.id == self.me.id || self.config.opinions.is_none() {
            self.answer(asker, target, View::Unable);
            return;
        }
        if let Some(news) = self.contradicts_question(target, incarnation) {
            self.send_with(Some(news), asker.0, asker.1, Message::Gossip);
            return;
        }
        if let Some(measurement) = self.measurements.get_mut(&target.id) {
            // Whoever has our answer and asks under another number wants to know how it is now.
            let again = measurement.view.is_some()
                && measurement.askers.iter().any(|(who, _, round)| *who == asker.0 && *round != asker.2);
            if measurement.target == target && measurement.incarnation == incarnation && !again {
                if let Some(view) = measurement.view {
                    self.answer(asker, target, view);
                } else if measurement.askers.len() < ASKERS_MAX {
                    measurement.askers.retain(|(who, ..)| *who != asker.0);
                    measurement.askers.push(asker);
                }
                return;
            }
            // Another incarnation, or another time: what was measured so far says nothing about it.
            let first = measurement.first;
            self.measurements.remove(&target.id);
            self.forget_detours(first);
        }
        if self.measurements.values().filter(|measurement| measurement.view.is_none()).count()
            >= MEASUREMENTS_MAX
        {
            self.answer(asker, target, View::Unable);
            return;
        }
        self.begin_measurement(vec![asker], target, addr, incarnation);
    }

    /// The node spoke since, so the question is out of date.
    fn contradicts_question(&self, target: Identity, incarnation: Incarnation) -> Option<Update> {
        let entry = self.table.get(target.id)?;
        let newer =
            entry.epoch == target.epoch && entry.incarnation > incarnation && entry.state.is_present();
        newer.then(|| Update {
            node: target,
            incarnation: entry.incarnation,
            status: Status::Alive,
            by: target.id,
            info: Some(entry.info.clone()),
        })
    }

    pub(super) fn begin_measurement(
        &mut self,
        askers: Vec<Asker>,
        target: Identity,
        addr: SocketAddr,
        incarnation: Incarnation,
    ) {
        let Some(opinions) = self.config.opinions else { return };
        let first = self.numbers.wrapping_add(1);
        // All numbers of this measurement belong to it from the beginning.
        self.numbers = self.numbers.wrapping_add(opinions.pings);
        let measurement = Measurement {
            target,
            addr,
            incarnation,
            began: self.now,
            first,
            sent: 0,
            acked: 0,
            helpers: Vec::new(),
            through: Vec::new(),
            view: None,
            kept_until: self.now,
            askers,
        };
        self.measurements.insert(target.id, measurement);
        self.request(
            addr,
            Request::Ping { from: self.me, to: target },
            Exchange::Measure { node: target.id, first },
        );
        self.measure(target, first);
    }

    /// Sends the next ping; after the last one judges; after that forgets.
    pub(super) fn measure(&mut self, node: Identity, first: u32) {
        let Some(opinions) = self.config.opinions else { return };
        let Some(measurement) = self.measurements.get_mut(&node.id).filter(|m| m.first == first) else {
            return;
        };
        if measurement.view.is_some() {
            if measurement.kept_until <= self.now {
                self.measurements.remove(&node.id);
            }
            return;
        }
        if measurement.sent < opinions.pings
            && measurement.can_still_be_good(&opinions, self.config.probe_timeout)
        {
            let number = first.wrapping_add(measurement.sent);
            measurement.sent += 1;
            let (target, addr) = (measurement.target, measurement.addr);
            let wait = if measurement.sent < opinions.pings {
                opinions.ping_every
            } else {
                self.config.probe_timeout
            };
            self.timers.set(self.now + wait, Timer::Measure { node, first });
            self.send(target, addr, Message::Ping { number });
            self.measure_through_helpers(node);
            return;
        }
        // Whoever hears nobody cannot tell who is silent.
        let began = measurement.began;
        let hears = self.heard_since(began, node.id);
        self.judge(node.id, if hears { View::Bad } else { View::Unable });
    }

    pub(super) fn measurement_acked(&mut self, from: Identity, number: u32) {
        let Some(opinions) = self.config.opinions else { return };
        let Some(measurement) = self.measurements.get_mut(&from.id) else { return };
        let nth = number.wrapping_sub(measurement.first);
        if measurement.target != from || nth >= measurement.sent || measurement.view.is_some() {
            return;
        }
        measurement.acked |= 1 << nth.min(63);
        if measurement.acked.count_ones() >= opinions.good_at {
            self.judge(from.id, View::Good);
        }
    }

    /// A stream that was quick shows that the node is there, also where datagrams are not let through. One that needed
    /// many tries shows as little as a single ping of many.
    pub(super) fn measured_over_stream(&mut self, node: NodeId, first: u32, who: Identity) {
        let Some(measurement) = self.measurements.get(&node).filter(|m| m.first == first) else { return };
        if measurement.target != who {
            let addr = measurement.addr;
            self.somebody_else_is_there(who, addr);
        } else if measurement.view.is_none() && self.now.since(measurement.began) <= self.config.probe_timeout
        {
            self.judge(node, View::Good);
        }
    }

    pub(super) fn judge(&mut self, node: NodeId, view: View) {
        let Some(measurement) = self.measurements.get_mut(&node) else { return };
        // Kept for a while, for those whose answer gets lost.
        let kept_until = self.now + self.config.period * 2;
        measurement.view = Some(view);
        measurement.kept_until = kept_until;
        let (target, first) = (measurement.target, measurement.first);
        let askers = measurement.askers.clone();
        self.timers.set(kept_until, Timer::Measure { node: target, first });
        self.forget_detours(first);
        for asker in askers {
            self.answer(asker, target, view);
        }
        self.review_measured(target, view);
    }

    fn answer(&mut self, (who, addr, round): Asker, target: Identity, view: View) {
        self.send(who, addr, Message::Opinion { round, target, view });
    }

    /// Begins all measurements again that run.
    pub(super) fn restart_measurements(&mut self) {
        let measurements = std::mem::take(&mut self.measurements);
        for (_, measurement) in measurements {
            self.forget_detours(measurement.first);
            if measurement.view.is_none() {
                let Measurement { askers, target, addr, incarnation, .. } = measurement;
                self.begin_measurement(askers, target, addr, incarnation);
            }
        }
    }
}
