//! After a death, a closer look at the others: machines that share a rack, a switch or a bad release die together.
//!
//! For a few periods each node pings some more members than its one probe would reach. Nothing is concluded from such a ping
//! that stays unanswered but that observers should be asked. In a cluster in which nobody dies this sends nothing.

use super::{Node, Phase};
use crate::identity::Identity;
use crate::io::State;
use crate::message::Message;
use crate::timers::Timer;

/// For so many periods after a death was heard of.
const ALERT_PERIODS: u32 = 3;
/// So many pings in a period, besides the probe.
const SCOUTS_PER_PERIOD: u32 = 3;

impl Node {
    /// Somebody died.
    pub(super) fn be_alert(&mut self) {
        if self.config.opinions.is_none() {
            return;
        }
        let is_alert = self.now < self.alert_until;
        self.alert_until = self.now + self.periods(ALERT_PERIODS);
        if !is_alert {
            // Not all at the same moment.
            let first = self.random.within(self.config.period / SCOUTS_PER_PERIOD);
            self.timers.set(self.now + first, Timer::Scout);
        }
    }

    /// Pings one more.
    pub(super) fn scout(&mut self) {
        if self.now >= self.alert_until || self.phase != Phase::Member {
            return;
        }
        self.timers.set(self.now + self.config.period / SCOUTS_PER_PERIOD, Timer::Scout);
        // Who doubts itself has nothing to find out about others.
        if self.health.score() > 0 {
            return;
        }
        if let Some((target, addr, _)) = self.next_target() {
            let number = self.next_number();
            self.scouts.insert(number, target);
            self.timers.set(self.now + self.config.probe_timeout, Timer::ScoutTimeout { number });
            self.send(target, addr, Message::Ping { number });
        }
    }

    pub(super) fn scout_acked(&mut self, from: Identity, number: u32) {
        if self.scouts.get(&number) == Some(&from) {
            self.scouts.remove(&number);
        }
    }

    pub(super) fn scout_timed_out(&mut self, number: u32) {
        let Some(target) = self.scouts.remove(&number) else { return };
        let now = self.now;
        let Some(entry) = self.table.get(target.id).filter(|entry| entry.epoch == target.epoch) else {
            return;
        };
        if entry.state == State::Alive {
            self.table.change(target.id, |entry| {
                entry.state = State::ProbeFailed;
                entry.since = now;
            });
        } else if entry.state != State::ProbeFailed {
            return;
        }
        self.want_opinions(target);
    }
}
