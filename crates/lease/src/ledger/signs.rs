//! The signs that a handler with a heartbeat timeout gives that it gets on.
//!
//! They are passed on to the server, but not more often than it needs them; and a handler that gives none for too long
//! counts as wedged, a little before the server takes its job back.

use std::time::Duration;

use model::Instant;

/// Signs sent per timeout, at most.
const SIGNS_PER_TIMEOUT: u32 = 5;
/// The part of its timeout after which a silent handler counts as wedged, in percent: its last sign took a while to
/// reach the server, and what we report of it will take a while too.
const SILENCE_PERCENT: u32 = 90;

#[derive(Debug)]
pub(super) struct Signs {
    timeout: Duration,
    last_at: Instant,
    pending: Pending,
    /// When the next one may be sent.
    next_send_at: Instant,
    is_wedged: bool,
    is_ever_given: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Pending {
    /// The server knows of the last sign.
    Nothing,
    /// A sign waits until it may be sent.
    Later,
    /// A sign is about to be sent.
    Queued,
}

impl Signs {
    /// The start of the handler counts as a sign, which the server knows of.
    pub(super) fn new(timeout: Duration, now: Instant) -> Self {
        Signs {
            timeout,
            last_at: now,
            pending: Pending::Nothing,
            next_send_at: now,
            is_wedged: false,
            is_ever_given: false,
        }
    }

    /// The handler gave a sign.
    pub(super) fn give(&mut self, now: Instant) {
        self.last_at = now;
        self.is_ever_given = true;
        if self.pending == Pending::Nothing {
            self.pending = Pending::Later;
        }
    }

    /// Nobody knows whether the last one arrived.
    pub(super) fn give_again(&mut self) {
        if self.is_ever_given && self.pending == Pending::Nothing {
            self.pending = Pending::Later;
            self.next_send_at = self.last_at;
        }
    }

    /// Whether to send one now; true once.
    pub(super) fn queue_if_due(&mut self, now: Instant) -> bool {
        let is_due = self.pending == Pending::Later && self.next_send_at <= now;
        if is_due {
            self.pending = Pending::Queued;
        }
        is_due
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.pending = Pending::Nothing;
        self.next_send_at = now + self.timeout / SIGNS_PER_TIMEOUT;
    }

    /// Whether the handler has been silent for too long; true once.
    pub(super) fn wedge_if_silent(&mut self, now: Instant) -> bool {
        let is_news = self.wedge_at().is_some_and(|at| at <= now);
        self.is_wedged |= is_news;
        is_news
    }

    pub(super) fn silence_max(&self) -> Duration {
        self.timeout * SILENCE_PERCENT / 100
    }

    /// When to send one.
    pub(super) fn send_at(&self) -> Option<Instant> {
        (self.pending == Pending::Later).then_some(self.next_send_at)
    }

    /// When the handler has been silent for too long.
    pub(super) fn wedge_at(&self) -> Option<Instant> {
        (!self.is_wedged).then(|| self.last_at + self.silence_max())
    }
}
