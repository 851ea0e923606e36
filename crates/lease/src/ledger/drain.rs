//! The way out: finish, stop, abort, leave.
//!
//! ```text
//!   Serving ──► Draining ──► Leaving ──► Gone ──► Over
//!               all ended,   left, or    told to
//!               or grace     time is up  the driver
//!               over
//! ```

use std::time::Duration;

use model::Instant;

/// How long an ended task may take to disappear once it was aborted; one that blocks its thread never does.
const ABORT_WAIT: Duration = Duration::from_secs(1);
/// How long the last reports and the leave may take. With the default grace of 25 s this fits the usual 30 s.
const LEAVE_WAIT: Duration = Duration::from_secs(4);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    Draining {
        /// When to tell handlers to stop; gone once they were told.
        stop_at: Option<Instant>,
        /// When to end their tasks; gone once that was ordered.
        abort_at: Option<Instant>,
        /// When to leave whatever still runs.
        end_at: Instant,
    },
    Leaving {
        end_at: Instant,
        is_sent: bool,
    },
    /// The server knows, or time is up; the driver is still to be told.
    Gone,
    Over,
}

impl Phase {
    pub(super) fn drain(&mut self, now: Instant, grace: Duration, kill_wait: Duration) {
        if *self == Phase::Serving {
            *self = Phase::Draining {
                stop_at: Some(now + grace.saturating_sub(kill_wait)),
                abort_at: Some(now + grace),
                end_at: now + grace + ABORT_WAIT,
            };
        }
    }

    /// Whether handlers must be told to stop now; true once.
    pub(super) fn stops_handlers(&mut self, now: Instant) -> bool {
        match self {
            Phase::Draining { stop_at, .. } => take_if_due(stop_at, now),
            _ => false,
        }
    }

    /// Whether tasks must be ended now; true once.
    pub(super) fn aborts_handlers(&mut self, now: Instant) -> bool {
        match self {
            Phase::Draining { abort_at, .. } => take_if_due(abort_at, now),
            _ => false,
        }
    }

    pub(super) fn advance(&mut self, now: Instant, all_ended: bool) {
        if let Phase::Draining { end_at, .. } = self
            && (all_ended || *end_at <= now)
        {
            // A server that is away just now may be back before the grace is over, and take the last reports.
            *self = Phase::Leaving { end_at: (now + LEAVE_WAIT).max(*end_at), is_sent: false };
        }
    }

    /// Whether it is over now; true once.
    pub(super) fn ends(&self, now: Instant, nobody_to_tell: bool) -> bool {
        match self {
            Phase::Leaving { end_at, .. } => *end_at <= now || nobody_to_tell,
            Phase::Gone => true,
            Phase::Serving | Phase::Draining { .. } | Phase::Over => false,
        }
    }

    pub(super) fn leave_sent(&mut self) {
        if let Phase::Leaving { is_sent, .. } = self {
            *is_sent = true;
        }
    }

    pub(super) fn left(&mut self) {
        if matches!(self, Phase::Leaving { .. }) {
            *self = Phase::Gone;
        }
    }

    pub(super) fn stream_lost(&mut self) {
        if let Phase::Leaving { is_sent, .. } = self {
            *is_sent = false;
        }
    }

    /// The server was told that we go: it has no use for further heartbeats.
    pub(super) fn has_taken_leave(&self) -> bool {
        matches!(self, Phase::Leaving { is_sent: true, .. })
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self, Phase::Leaving { .. })
    }

    pub(super) fn may_leave(&self) -> bool {
        matches!(self, Phase::Leaving { is_sent: false, .. })
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Phase::Draining { stop_at, abort_at, end_at } => stop_at.or(*abort_at).or(Some(*end_at)),
            Phase::Leaving { end_at, .. } => Some(*end_at),
            Phase::Serving | Phase::Gone | Phase::Over => None,
        }
    }
}

fn take_if_due(at: &mut Option<Instant>, now: Instant) -> bool {
    at.take_if(|at| *at <= now).is_some()
}
