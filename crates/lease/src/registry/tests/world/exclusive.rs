//! Exclusive jobs in the world: that no two workers ever run one, and that the registry knows when they stopped.

use model::{Hold, Instant, WorkerKey};

use super::node::{Fading, Node};
use super::{Packet, World};
use crate::message::Leave;
use crate::registry::Input;

impl World {
    /// What was left of a dead key has stopped, and the server hears so.
    pub(super) fn farewell(&mut self) {
        let all: Vec<usize> = (0..self.fading.len()).collect();
        let Some(index) = self.rng.pick(&all).copied() else { return };
        let Fading { key, nonce, hold_until, .. } = self.fading.swap_remove(index);
        let (ticket, crashed) = (self.ticket(), self.rng.percent(50));
        let leave =
            Leave { all_stopped: true, crashed, stopped_for: self.now.since(hold_until), ..Leave::default() };
        self.tell(Input::Leave { ticket, key, nonce, leave });
    }

    /// Of volatile jobs only the workers know after a restart; what was on its way to them is gone with its stream.
    pub(super) fn forget_volatile(&mut self) {
        let is_gone = |it: &Packet| matches!(it, Packet::Assign { hold, .. } if hold.job.is_volatile());
        self.packets.retain(|packet| !is_gone(packet));
        let running: Vec<Hold> = self.started().into_iter().flat_map(|(_, _, holds)| holds).collect();
        self.store.forget(|hold| hold.job.is_volatile() && !running.contains(&hold));
    }

    /// The laws that hold at any moment.
    pub(super) fn check(&mut self) {
        self.laws.check(&self.registry);
        // Law: the row of an exclusive job does not move while its worker may run it.
        for (key, until, holds) in self.started() {
            for hold in holds.into_iter().filter(|_| until > self.now) {
                assert_eq!(self.store.holder(hold), Some(&key), "{hold:?} moves while it runs");
            }
        }
    }

    /// The exclusive jobs that were started and not let go of: under which key, until when at the latest, which.
    fn started(&self) -> Vec<(WorkerKey, Instant, Vec<Hold>)> {
        let of_node =
            |node: &Node| Some((node.peer.key.clone(), node.exclusive_until?, node.started().collect()));
        let of_dead = |it: &Fading| (it.key.clone(), it.hold_until, it.running.clone());
        self.nodes.iter().filter_map(of_node).chain(self.fading.iter().map(of_dead)).collect()
    }

    /// Law: whoever is gone runs nothing exclusive any more.
    pub(super) fn check_gone(&self, key: &WorkerKey) {
        for (_, until, holds) in self.started().into_iter().filter(|(whose, ..)| whose == key) {
            assert!(holds.is_empty() || until <= self.now, "{key:?} is gone and may run until {until:?}");
        }
    }

    /// Law: the registry is right about when an ended worker had stopped its exclusive jobs.
    pub(super) fn check_retirement(&self, key: &WorkerKey, stopped_by: Instant) {
        assert!(stopped_by <= self.now, "{key:?} will have stopped");
        for (_, until, holds) in self.started().into_iter().filter(|(whose, ..)| whose == key) {
            assert!(holds.is_empty() || until <= stopped_by, "{key:?} may run until {until:?}");
        }
    }
}
