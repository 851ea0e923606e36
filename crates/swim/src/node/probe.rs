//! One probe each period: ping, then helpers and a stream, then judgement when the period is over.

use std::net::SocketAddr;

use super::{Exchange, Node, Phase};
use crate::identity::{Identity, Incarnation, NodeId};
use crate::io::{Reason, State};
use crate::message::{Message, Request, Status};
use crate::mutation::Mutation;
use crate::table::Entry;
use crate::timers::Timer;

/// How many members whose turn it is are passed over in one period because observers are being asked about them.
const PASSED_OVER_MAX: usize = 8;

/// The probe of this period.
#[derive(Debug)]
pub(super) struct Probe {
    target: Identity,
    addr: SocketAddr,
    incarnation: Incarnation,
    number: u32,
    answered: bool,
    /// A helper had an answer, and we had none over a stream.
    relayed: bool,
    answered_over_stream: bool,
    helpers: Vec<NodeId>,
    nacks: u32,
}

impl Node {
    /// A period is over, and the next begins.
    pub(super) fn tick(&mut self) {
        self.timers.set(self.now + self.health.stretch(self.config.period), Timer::Tick);
        if self.phase != Phase::Member {
            return;
        }
        if let Some(probe) = self.probe.take() {
            self.note_probe(probe.relayed);
            if !probe.answered {
                self.probe_failed(probe);
            }
        }
        if let Some((target, addr, incarnation)) = self.next_target() {
            let number = self.next_number();
            self.probe = Some(Probe {
                target,
                addr,
                incarnation,
                number,
                answered: false,
                relayed: false,
                answered_over_stream: false,
                helpers: Vec::new(),
                nacks: 0,
            });
            let timeout = self.health.stretch(self.config.probe_timeout);
            self.timers.set(self.now + timeout, Timer::ProbeTimeout { number });
            self.send(target, addr, Message::Ping { number });
        }
    }

    pub(super) fn next_target(&mut self) -> Option<(Identity, SocketAddr, Incarnation)> {
        let mut passed_over = 0;
        for _ in 0..self.order.len() {
            let id = self.order.next(&mut self.random)?;
            match self.table.get(id) {
                Some(entry) if entry.state.is_present() => {
                    let found = (entry.identity(), entry.info.addr, entry.incarnation);
                    if !self.rounds.contains_key(&id) {
                        return Some(found);
                    }
                    passed_over += 1;
                    if passed_over == PASSED_OVER_MAX {
                        return None;
                    }
                }
                _ => {
                    self.order.drop_drawn();
                    self.table.change(id, |entry| entry.listed = false);
                }
            }
        }
        None
    }

    /// No direct answer in time.
    pub(super) fn probe_timed_out(&mut self, number: u32) {
        let Some(probe) = self.probe.as_ref().filter(|probe| probe.number == number && !probe.answered)
        else {
            return;
        };
        let (target, addr) = (probe.target, probe.addr);
        let now = self.now;
        if self
            .table
            .get(target.id)
            .is_some_and(|entry| entry.state == State::Alive && entry.epoch == target.epoch)
        {
            self.table.change(target.id, |entry| {
                entry.state = State::ProbeFailed;
                entry.since = now;
            });
        }
        self.ask_helpers(number, target, addr);
        if self.has_bad_links() {
            let left = self.config.period.saturating_sub(self.config.probe_timeout);
            self.timers.set(self.now + left / 2, Timer::MoreHelpers { number });
        }
        if self.config.stream_ping {
            let ping = Request::Ping { from: self.me, to: target };
            self.request(addr, ping, Exchange::Probe { number });
        }
    }

    /// Those who were asked may be behind bad links of ours too: a few more.
    pub(super) fn ask_more_helpers(&mut self, number: u32) {
        let open = self.probe.as_ref().filter(|probe| probe.number == number && !probe.answered);
        if let Some((target, addr)) = open.map(|probe| (probe.target, probe.addr)) {
            self.ask_helpers(number, target, addr);
        }
    }

    fn ask_helpers(&mut self, number: u32, target: Identity, addr: SocketAddr) {
        let Some(probe) = &self.probe else { return };
        let asked = probe.helpers.clone();
        let may_help = |entry: &Entry| {
            entry.state == State::Alive && entry.id != target.id && !asked.contains(&entry.id)
        };
        let helpers = self.some_members(self.config.helpers, may_help);
        for (helper, there) in &helpers {
            self.send(*helper, *there, Message::PingFor { number, target, addr });
        }
        if let Some(probe) = &mut self.probe {
            probe.helpers.extend(helpers.iter().map(|(helper, _)| helper.id));
        }
    }

    /// An answer by datagram: from the target itself, or passed on by a helper.
    pub(super) fn probe_acked(&mut self, from: Identity, number: u32) {
        let counts = self.probe.as_ref().is_some_and(|probe| {
            probe.number == number && (probe.target == from || probe.helpers.contains(&from.id))
        });
        if counts {
            if let Some(probe) = &mut self.probe {
                probe.relayed = probe.target != from && !probe.answered_over_stream;
            }
            self.probe_answered();
        }
    }

    pub(super) fn probe_answered_over_stream(&mut self, number: u32, who: Identity) {
        let Some(probe) = self.probe.as_ref().filter(|probe| probe.number == number) else { return };
        if probe.target == who {
            if let Some(probe) = &mut self.probe {
                probe.relayed = false;
                probe.answered_over_stream = true;
            }
            self.probe_answered();
        } else {
            let addr = probe.addr;
            self.somebody_else_is_there(who, addr);
        }
    }

    pub(super) fn probe_nacked(&mut self, from: Identity, number: u32) {
        if let Some(probe) = &mut self.probe
            && probe.number == number
            && probe.helpers.contains(&from.id)
        {
            probe.nacks += 1;
        }
    }

    fn probe_answered(&mut self) {
        let Some(probe) = self.probe.as_mut().filter(|probe| !probe.answered) else { return };
        probe.answered = true;
        let target = probe.target;
        self.health.better();
        self.answers(target);
        self.ease_brakes();
    }

    /// A node answers us: our own evidence against it is void.
    pub(super) fn answers(&mut self, node: Identity) {
        let now = self.now;
        let Some(entry) = self.table.get(node.id).filter(|entry| entry.epoch == node.epoch) else { return };
        match entry.state {
            State::ProbeFailed => {
                self.table.change(node.id, |entry| {
                    entry.state = State::Alive;
                    entry.since = now;
                });
                self.release_brakes();
            }
            State::Suspected => {
                if self.config.opinions.is_some()
                    && let Some(suspected) = self.suspicions.get_mut(&node.id)
                {
                    suspected.answers = true;
                }
            }
            State::Alive | State::Dead | State::Left => {}
        }
    }

    fn probe_failed(&mut self, probe: Probe) {
        // Helpers who could not even say that they have no answer are a sign that it is our link.
        let asked = probe.helpers.len() as u32;
        self.health.worse_by(if asked > 0 { asked.saturating_sub(probe.nacks) } else { 1 });
        let Some(entry) = self.table.get(probe.target.id) else { return };
        if entry.epoch != probe.target.epoch || !entry.state.is_present() {
            return;
        }
        if entry.incarnation != probe.incarnation {
            // It contradicted meanwhile: somebody hears it.
            self.answers(probe.target);
            return;
        }
        if self.is_broken(Mutation::OpinionsIgnored) {
            self.conclude(probe.target, Status::Dead, Reason::NoAnswer);
        } else if self.config.opinions.is_some() {
            self.want_opinions(probe.target);
        } else {
            self.conclude(probe.target, Status::Suspect, Reason::NoAnswer);
        }
    }

    /// Drops the probe that runs, without judgement: what it found so far is void, and what others say of its target is not.
    pub(super) fn void_probe(&mut self) {
        if let Some(probe) = self.probe.take()
            && self.table.get(probe.target.id).is_some_and(|entry| entry.state == State::ProbeFailed)
        {
            self.answers(probe.target);
        }
    }
}
