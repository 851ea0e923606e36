//! How a job that was told to stop comes to its end, whatever its handler does.
//!
//! ```text
//!   Open ──► AbortAt ──► DoomAt ──► Ordered
//!   told to     its task     the process
//!   stop        is ended     is ended (exclusive jobs only)
//! ```

use std::time::Duration;

use model::Instant;

use crate::clock_rule::Stopping;

/// How fast jobs must be ended, as of now.
#[derive(Clone, Copy, Debug)]
pub(super) struct KillClock {
    pub(super) stopping: Stopping,
    /// The end of the hold for exclusive jobs; `None` without one.
    pub(super) hold_until: Option<Instant>,
}

impl KillClock {
    /// When to end the task of a job that is told to stop now.
    pub(super) fn abort_at(self, now: Instant, is_exclusive: bool) -> Instant {
        let patient = now + self.stopping.kill_wait;
        if !is_exclusive {
            return patient;
        }
        // Renewals that come later change nothing. Without a lease there is no time to give.
        patient.min(self.hold_until.map_or(now, |until| self.stopping.kill_at(until)))
    }

    /// How long after that the process must be ended, if it must.
    pub(super) fn doom_wait(self, is_exclusive: bool) -> Option<Duration> {
        is_exclusive.then_some(self.stopping.safety / 2)
    }
}

/// How far the end of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing is set.
    Open,
    /// Its task is to be ended then.
    AbortAt(Instant),
    /// The process is to be ended then.
    DoomAt(Instant),
    /// Everything was ordered.
    Ordered,
}

impl Ending {
    /// Sets it, unless it was set before.
    pub(super) fn set(&mut self, abort_at: Instant) {
        if *self == Ending::Open {
            *self = Ending::AbortAt(abort_at);
        }
    }

    /// The task must be ended at this time, if not earlier.
    pub(super) fn hasten(&mut self, abort_at: Instant) {
        match self {
            Ending::Open => *self = Ending::AbortAt(abort_at),
            Ending::AbortAt(at) => *at = abort_at.min(*at),
            Ending::DoomAt(_) | Ending::Ordered => {}
        }
    }

    /// Whether the task must be ended now; true once.
    pub(super) fn aborts(&mut self, now: Instant, doom_wait: Option<Duration>) -> bool {
        let Ending::AbortAt(at) = *self else { return false };
        if at <= now {
            *self = doom_wait.map_or(Ending::Ordered, |wait| Ending::DoomAt(at + wait));
        }
        at <= now
    }

    /// Whether the process must be ended now; true once.
    pub(super) fn dooms(&mut self, now: Instant) -> bool {
        let is_due = matches!(*self, Ending::DoomAt(at) if at <= now);
        if is_due {
            *self = Ending::Ordered;
        }
        is_due
    }

    pub(super) fn next_deadline(self) -> Option<Instant> {
        match self {
            Ending::AbortAt(at) | Ending::DoomAt(at) => Some(at),
            Ending::Open | Ending::Ordered => None,
        }
    }
}
