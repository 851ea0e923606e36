//! Going, sending away, and forgetting.

use super::evidence::Source;
use super::{Node, Phase};
use crate::config::GOODBYES;
use crate::identity::{Identity, Incarnation};
use crate::io::{Event, Reason, State};
use crate::message::{Message, Status, Update};
use crate::queue::Rank;
use crate::timers::Timer;

/// To how many at least we say good-bye each time.
const GOODBYE_FANOUT_MIN: usize = 10;
/// How often we look for somebody to forget, in periods.
pub(super) const SWEEP_PERIODS: u32 = 60;

impl Node {
    pub(super) fn leave(&mut self) {
        if self.phase != Phase::Member {
            return;
        }
        self.phase = Phase::Leaving(GOODBYES);
        self.probe = None;
        self.spread(self.about_me(), Rank::Verdict);
        self.say_goodbye(GOODBYES);
    }

    /// Tells a few that we go; after the last time, falls silent.
    pub(super) fn say_goodbye(&mut self, left: u32) {
        let fanout = self.config.gossip.fanout.max(GOODBYE_FANOUT_MIN);
        let goodbye = self.about_me();
        for (node, addr) in self.some_members(fanout, |_| true) {
            self.send_with(Some(goodbye.clone()), node, addr, Message::Gossip);
        }
        if left <= 1 || self.is_alone() {
            self.event(Event::HaveLeft);
            self.fall_silent();
            return;
        }
        self.phase = Phase::Leaving(left - 1);
        self.gossip_soon();
    }

    /// We take no part any more, for good.
    pub(super) fn fall_silent(&mut self) {
        self.phase = Phase::Silent;
        self.timers.clear();
        self.probe = None;
        self.rounds.clear();
        self.measurements.clear();
        self.reviews.clear();
        self.relays.clear();
        self.checks.clear();
        self.suspicions.clear();
        self.exchanges.clear();
    }

    /// That start of a node is over, says who may say so.
    pub(super) fn expel(&mut self, node: Identity) {
        if node.id == self.me.id {
            if node.epoch >= self.me.epoch {
                self.be_expelled(Some(node.epoch));
            }
            return;
        }
        let incarnation = self.table.get(node.id).map_or(Incarnation(0), |entry| entry.incarnation);
        let info = self.table.get(node.id).map(|entry| entry.info.clone());
        let update = Update { node, incarnation, status: Status::Left, by: self.me.id, info };
        self.learn(update, Source::Ourselves(Reason::Told(self.me.id)));
    }

    /// Forgets who is long gone. A coarse timer: nobody waits for it.
    pub(super) fn sweep(&mut self) {
        self.timers.set(self.now + self.periods(SWEEP_PERIODS), Timer::Sweep);
        let (now, config) = (self.now, self.config.clone());
        let gone = self.table.in_state(State::Dead) + self.table.in_state(State::Left);
        if gone > 0 {
            let forgotten = self.table.forget(|entry| match entry.state {
                // Whoever is still in the probing order is dropped from there first.
                State::Dead => !entry.listed && now.since(entry.since) >= config.forget_dead_after,
                State::Left => !entry.listed && now.since(entry.since) >= config.forget_left_after,
                State::Alive | State::ProbeFailed | State::Suspected => false,
            });
            for node in forgotten {
                self.flaps.forget(node.id);
                self.event(Event::Forgotten(node));
            }
        }
        self.flaps.sweep(now, &config);
    }
}
