//! What the registry waits for, worker by worker. A timer is never cancelled: its worker knows which instant it waits for,
//! and a timer of another instant is recognised as stale and ignored.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::{Instant, WorkerKey};

/// Why a worker waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// When to look whether a lease is over: at the expiry it was set for. Renewals leave it alone, so they make no
    /// garbage; it is set anew when it fires.
    Lease,
    /// When to ask again for a retirement that the store could not do.
    Retire,
    /// When to ask again about rows that the store could not read.
    Check,
    /// When to ask again to move holds to a new key.
    Succeed,
    /// When to drop the refused marks that are old enough.
    Unmark,
}

/// One timer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    /// When; also the identity that tells a timer from a stale one.
    pub(super) at: Instant,
    /// What for.
    pub(super) timer: Timer,
    /// Whose.
    pub(super) key: WorkerKey,
}

/// All timers, earliest first.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Due>>,
}

impl Timers {
    /// Fires at `at`.
    pub(super) fn arm(&mut self, at: Instant, timer: Timer, key: WorkerKey) {
        self.heap.push(Reverse(Due { at, timer, key }));
    }

    /// The next timer that is due, taken out.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }
}
