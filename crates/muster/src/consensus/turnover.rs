//! When workers come faster than a set can settle.
//!
//! Every newcomer makes a new set, and until it has spoken nobody behind it is permitted. A small part of a fleet that starts
//! and dies in a loop could so keep all others waiting for ever. Therefore only so many may be added in a row while
//! somebody is held back, and nobody once that has lasted for too long, which is for the caller to say: one slow loop among many
//! workers never adds so many. Further ones queue, in no set and without a part in anything, until all that are present were
//! permitted or died, which they do within a lease; then the queue is admitted, one version each. Removals never queue.

use std::collections::BTreeMap;

use super::state::{Consensus, Member};
use crate::mutation::Mutation;
use crate::set::Identity;

/// Who has to queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Turnover {
    /// Additions since all were permitted.
    pub(super) additions: u32,
    /// Somebody has been held back for too long.
    is_closed: bool,
    pub(super) queue: BTreeMap<Member, Identity>,
}

impl Consensus {
    /// How many newcomers are queued.
    pub fn queued(&self) -> usize {
        self.turnover.queue.len()
    }

    /// Whether this one is queued.
    pub fn is_queued(&self, member: Member) -> bool {
        self.turnover.queue.contains_key(&member)
    }

    /// Somebody has been held back for too long: newcomers queue until all that are present were permitted or died.
    pub fn close_queue(&mut self) {
        self.turnover.is_closed = !self.is_waiting() && !self.held_back.is_empty();
    }

    /// Whether a newcomer has to queue.
    pub(super) fn must_queue(&self) -> bool {
        let share = self.present.len() as u32 / self.terms.batch_after_share.max(1);
        let additions_max = self.terms.batch_after_min.max(share);
        // Who comes during the wait may run tasks, and must count.
        !self.is_waiting()
            && (self.turnover.is_closed || self.turnover.additions >= additions_max)
            && !self.broken_by(Mutation::NoBatching)
    }

    /// Admits the queue once nobody is held back.
    pub(super) fn admit_queue(&mut self) {
        if !self.held_back.is_empty() {
            return;
        }
        self.turnover.is_closed = false;
        let queue = std::mem::take(&mut self.turnover.queue);
        self.turnover.additions = queue.len() as u32;
        for (member, identity) in queue {
            self.admit(member, identity);
        }
    }
}
