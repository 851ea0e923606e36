//! Binds that our own records say nothing about: the rows are asked, in chunks, one chunk at a time per worker.

use std::collections::BTreeSet;

use model::{Backoff, Hold, Instant};

use super::CHECK_MAX;

/// The questions of one worker.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Not asked yet.
    waiting: BTreeSet<Hold>,
    turn: Turn,
    backoff: Backoff,
}

/// Whether the next chunk may be asked.
#[derive(Debug, Default)]
enum Turn {
    #[default]
    Free,
    /// These were asked, in this order.
    UnderWay(Vec<Hold>),
    /// The store failed.
    PausedUntil(Instant),
}

impl Checks {
    /// One more to ask about.
    pub(super) fn add(&mut self, hold: Hold) {
        self.waiting.insert(hold);
    }

    /// No need to ask any more.
    pub(super) fn remove(&mut self, hold: Hold) {
        self.waiting.remove(&hold);
    }

    /// The next chunk, if it may be asked now.
    pub(super) fn next_chunk(&mut self) -> Option<Vec<Hold>> {
        if self.waiting.is_empty() || !matches!(self.turn, Turn::Free) {
            return None;
        }
        let chunk: Vec<Hold> = std::iter::from_fn(|| self.waiting.pop_first()).take(CHECK_MAX).collect();
        self.turn = Turn::UnderWay(chunk.clone());
        Some(chunk)
    }

    /// The chunk was answered, with so many answers: what was asked. `None` if it is no answer to what was asked.
    pub(super) fn answered(&mut self, answers: usize) -> Option<Vec<Hold>> {
        match std::mem::take(&mut self.turn) {
            Turn::UnderWay(asked) if asked.len() == answers => {
                self.backoff.reset();
                Some(asked)
            }
            other => {
                self.turn = other;
                None
            }
        }
    }

    /// The store failed: asked again after a pause, until the instant that is returned. `still` says whether an answer
    /// still matters.
    pub(super) fn failed(&mut self, now: Instant, still: impl Fn(&Hold) -> bool) -> Option<Instant> {
        let Turn::UnderWay(asked) = &mut self.turn else { return None };
        self.waiting.extend(asked.drain(..).filter(still));
        let until = now + self.backoff.next_delay();
        self.turn = Turn::PausedUntil(until);
        Some(until)
    }

    /// The timer for `at` fired.
    pub(super) fn resume(&mut self, at: Instant) {
        if matches!(self.turn, Turn::PausedUntil(until) if until == at) {
            self.turn = Turn::Free;
        }
    }

    /// True when nothing is asked or to be asked.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && matches!(self.turn, Turn::Free)
    }
}
