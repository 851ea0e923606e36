//! Suspects: how long they have to contradict.
//!
//! Without second opinions this is Lifeguard's rule: between `min` and `max`, shorter with each independent accuser, and
//! then a verdict. With opinions the verdict is the observers'; a suspicion that nobody contradicts is only what remains
//! when there are none to ask, and has the longest time.

use std::time::Duration;

use model::Instant;

use super::Node;
use super::evidence::{Source, reason_of};
use crate::identity::{Identity, Incarnation, NodeId};
use crate::io::{Event, Reason, State};
use crate::message::{Status, Update};
use crate::mutation::Mutation;
use crate::queue::Rank;
use crate::timers::Timer;

/// A suspicion that runs.
#[derive(Debug)]
pub(super) struct Suspected {
    pub(super) node: Identity,
    pub(super) incarnation: Incarnation,
    pub(super) began: Instant,
    ends: Instant,
    /// Who said so, independently; the first is the one who began it.
    accusers: Vec<NodeId>,
    /// An observer finds it good, or it answered us: silence is then no verdict.
    pub(super) answers: bool,
    /// Its time was over, and observers were asked once more.
    asked_once_more: bool,
}

impl Suspected {
    pub(super) fn accuser(&self) -> NodeId {
        self.accusers[0]
    }
}

impl Node {
    /// Suspects a member that is present, in an incarnation not lower than the known one. True if it was news.
    pub(super) fn suspect(&mut self, update: Update, source: Source) -> bool {
        let (id, now, incarnation) = (update.node.id, self.now, update.incarnation);
        let same = self
            .suspicions
            .get(&id)
            .is_some_and(|suspected| suspected.node == update.node && suspected.incarnation == incarnation);
        if same && self.table.get(id).is_some_and(|entry| entry.state == State::Suspected) {
            return self.confirm(update);
        }
        self.table.change(id, |entry| {
            entry.incarnation = incarnation;
            entry.state = State::Suspected;
            entry.since = now;
        });
        let ends = now + self.suspicion_time(1);
        let suspected = Suspected {
            node: update.node,
            incarnation,
            began: now,
            ends,
            accusers: vec![update.by],
            answers: false,
            asked_once_more: false,
        };
        self.suspicions.insert(id, suspected);
        self.timers.set(ends, Timer::Suspicion { node: update.node, incarnation });
        self.event(Event::Suspected(update.node, incarnation, reason_of(source, update.by)));
        self.pass_on(update, source, Rank::Suspicion);
        true
    }

    /// Another accuser of the same incarnation.
    fn confirm(&mut self, update: Update) -> bool {
        let most = self.confirmations() + 1;
        let Some(suspected) = self.suspicions.get_mut(&update.node.id) else { return false };
        if suspected.accusers.len() >= most || suspected.accusers.contains(&update.by) {
            return false;
        }
        suspected.accusers.push(update.by);
        let (accusers, began) = (suspected.accusers.len(), suspected.began);
        // Its time may be over by this; a deadline in the past would look as if we had slept.
        let ends = (began + self.suspicion_time(accusers)).max(self.now);
        if let Some(suspected) = self.suspicions.get_mut(&update.node.id) {
            suspected.ends = ends;
        }
        self.timers.set(ends, Timer::Suspicion { node: update.node, incarnation: update.incarnation });
        self.spread(update, Rank::Suspicion);
        true
    }

    pub(super) fn suspicion_ran_out(&mut self, node: Identity, incarnation: Incarnation) {
        let Some(suspected) = self.suspicions.get(&node.id) else { return };
        if suspected.node != node || suspected.incarnation != incarnation || suspected.ends > self.now {
            return;
        }
        let answers = suspected.answers;
        if self.must_not_condemn() {
            self.postpone_suspicion(node.id);
            return;
        }
        if self.config.opinions.is_some() && !self.heard_since(suspected.began, node.id) {
            let ends = self.now + self.suspicion_time(1);
            self.restart_suspicion(node.id, ends);
            return;
        }
        if self.ask_once_more(node) {
            return;
        }
        self.suspicions.remove(&node.id);
        let Some(entry) = self.table.get(node.id) else { return };
        let broken = self.is_broken(Mutation::SuspicionTimerIgnoresRefutation);
        if entry.identity() != node
            || (entry.state != State::Suspected && !(broken && entry.state.is_present()))
        {
            return;
        }
        if answers {
            let now = self.now;
            self.table.change(node.id, |entry| {
                entry.state = State::Alive;
                entry.since = now;
            });
            self.event(Event::Refuted(node, incarnation));
            return;
        }
        self.conclude(node, Status::Dead, Reason::NotRefuted);
    }

    /// Nobody contradicted what we said. Perhaps nobody heard it: our own link may have been down then. True if observers are
    /// asked first.
    fn ask_once_more(&mut self, node: Identity) -> bool {
        let Some(rule) = self.config.opinions.filter(|_| self.members_present() > 2) else { return false };
        let (me, ends) = (self.me.id, self.now + self.round_time(&rule) + self.config.period);
        let Some(suspected) = self.suspicions.get_mut(&node.id) else { return false };
        if suspected.answers || suspected.asked_once_more || suspected.accuser() != me {
            return false;
        }
        suspected.asked_once_more = true;
        suspected.ends = ends;
        let timer = Timer::Suspicion { node: suspected.node, incarnation: suspected.incarnation };
        self.timers.set(ends, timer);
        if !self.rounds.contains_key(&node.id) {
            self.begin_round(node, false);
        }
        true
    }

    /// Our own verdict or suspicion about a node's present incarnation.
    pub(super) fn conclude(&mut self, node: Identity, status: Status, reason: Reason) {
        let Some(entry) = self.table.get(node.id) else { return };
        if entry.epoch != node.epoch {
            return;
        }
        let update = Update {
            node,
            incarnation: entry.incarnation,
            status,
            by: self.me.id,
            info: Some(entry.info.clone()),
        };
        self.learn(update, Source::Ourselves(reason));
    }

    /// All suspicions get their full time again.
    pub(super) fn restart_suspicions(&mut self) {
        let ends = self.now + self.suspicion_time(1);
        let suspects: Vec<NodeId> = self.suspicions.keys().copied().collect();
        for id in suspects {
            self.restart_suspicion(id, ends);
        }
    }

    fn restart_suspicion(&mut self, id: NodeId, ends: Instant) {
        if let Some(suspected) = self.suspicions.get_mut(&id) {
            suspected.began = self.now;
            suspected.ends = ends;
            suspected.accusers.truncate(1);
            let timer = Timer::Suspicion { node: suspected.node, incarnation: suspected.incarnation };
            self.timers.set(ends, timer);
        }
    }

    /// Its time is over, and nobody is heard: looked at again in a period.
    fn postpone_suspicion(&mut self, id: NodeId) {
        let ends = self.now + self.config.period;
        if let Some(suspected) = self.suspicions.get_mut(&id) {
            suspected.ends = ends;
            let timer = Timer::Suspicion { node: suspected.node, incarnation: suspected.incarnation };
            self.timers.set(ends, timer);
        }
    }

    /// How long a suspicion lasts with so many accusers.
    fn suspicion_time(&self, accusers: usize) -> Duration {
        let members = self.members_present();
        let rule = self.config.suspicion;
        let min = rule.alpha * (members as f64).log10().max(1.0) * self.config.period.as_secs_f64();
        let max = rule.beta * min;
        let most = self.confirmations();
        let seconds = if self.config.opinions.is_some() {
            // With nobody else to ask, what we see ourselves is all there is to wait for.
            if members <= 2 { min } else { max }
        } else if most == 0 {
            min
        } else {
            let confirmed = (accusers - 1).min(most);
            max - (max - min) * ((confirmed + 1) as f64).ln() / ((most + 1) as f64).ln()
        };
        Duration::from_secs_f64(seconds.max(min))
    }

    /// How many confirmations there can be, at most the configured number.
    fn confirmations(&self) -> usize {
        (self.config.suspicion.confirmations as usize).min(self.members_present().saturating_sub(2))
    }
}
