//! When to beat, and which beats are not answered yet.
//!
//! One beat per interval. A beat that is not answered when the next one is due counts as missed, and the next one goes
//! out; if its answer still comes, it counts from its own send stamp.

use std::collections::VecDeque;
use std::time::Duration;

use model::Instant;

/// Beats per lease. Three may be missed: the fourth still arrives before the lease of the last answered one ends.
const BEATS_PER_LEASE: u32 = 5;
/// Unanswered beats that are remembered; an answer to an older one proves nothing worth having.
const UNANSWERED_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Beats {
    last_number: u64,
    unanswered: VecDeque<(u64, Instant)>,
    next_at: Option<Instant>,
    /// Its time has come; it goes out as soon as the stream can take a frame.
    is_due: bool,
}

impl Beats {
    pub(super) fn interval(lease: Duration) -> Duration {
        lease / BEATS_PER_LEASE
    }

    /// The next beat goes out at this time or earlier.
    pub(super) fn send_by(&mut self, at: Instant) {
        self.next_at = [self.next_at, Some(at)].into_iter().flatten().min();
    }

    /// A beat goes out now; `shortest` is the shortest lease in it. Its number.
    pub(super) fn sent(&mut self, now: Instant, shortest: Duration) -> u64 {
        self.last_number += 1;
        if self.unanswered.len() == UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((self.last_number, now));
        self.next_at = Some(now + Self::interval(shortest));
        self.is_due = false;
        self.last_number
    }

    /// Nothing to renew: no beat until something is assigned.
    pub(super) fn rest(&mut self) {
        self.next_at = None;
        self.is_due = false;
    }

    pub(super) fn handle_deadline(&mut self, now: Instant) {
        self.is_due = self.is_due(now);
        self.next_at.take_if(|at| *at <= now);
    }

    /// The send stamp of the beat that was answered; older ones count as answered with it.
    pub(super) fn answered(&mut self, number: u64) -> Option<Instant> {
        let place = self.unanswered.iter().position(|(sent, _)| *sent == number)?;
        let (_, sent_at) = self.unanswered[place];
        self.unanswered.drain(..=place);
        Some(sent_at)
    }

    pub(super) fn forget_sent(&mut self) {
        self.unanswered.clear();
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_due || self.next_at.is_some_and(|at| at <= now)
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.next_at
    }
}
