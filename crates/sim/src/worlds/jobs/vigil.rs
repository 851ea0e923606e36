//! What the clock rule stands on: of a worker and its guardian, one is awake. A machine that is frozen as a whole is a
//! limit that no software can lift, so faults strike only where this stays so.

use super::setup::Guard;
use super::world::World;

impl World<'_> {
    /// Whether a worker runs, and as fast as it should.
    pub(super) fn is_awake(&self, index: usize) -> bool {
        let process = &self.workers[index].process;
        process.is_up() && !process.is_stopped() && !self.chaos.is_slow(index, self.outside.now)
    }

    /// Whether a worker has a guardian that is awake.
    pub(super) fn has_live_guardian(&self, index: usize) -> bool {
        self.guardian_of(index).is_some_and(|(_, guardian)| !guardian.process.is_stopped())
    }

    /// Whether a worker may be stopped or starved: its guardian must be awake, unless nothing is left to be stopped.
    pub(super) fn may_disable(&self, index: usize) -> bool {
        match self.outside.setup.workers[index].guard {
            Guard::Nobody => true,
            // With the guardian, the families are gone, too.
            Guard::Namespace => self.guardian_of(index).is_none() || self.has_live_guardian(index),
            Guard::Killer => self.has_live_guardian(index),
        }
    }

    /// Whether a guardian may be killed alone: what runs inside the worker's process only the worker can end then.
    pub(super) fn may_lose_guardian(&self, index: usize) -> bool {
        let is_alone_enough = self.outside.setup.workers[index].guard == Guard::Namespace;
        self.guardian_of(index).is_some() && (is_alone_enough || self.is_awake(index))
    }
}
