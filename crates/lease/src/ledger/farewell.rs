//! Keys that are over while something of theirs still ran here, or had run.
//!
//! The registry cannot know when that has ended. As soon as it has, we say so, and since when. Where the registry declared the
//! key over, an exclusive job goes on elsewhere only then, or when the lease of its key is over. Where the key lapsed by our own
//! clock that word moves nothing, since ordinary jobs go on under the next key; but it tells whether the exclusive ones had
//! ended in time, which nobody else can know if we were frozen, or if our clock runs slow.

use std::collections::{BTreeSet, VecDeque};

use model::{Hold, Instant, WorkerKey};

/// Most keys that are waited for; beyond that the oldest is left to its lease.
const KEYS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Farewells {
    owed: VecDeque<Owed>,
    /// When the last exclusive job of the present key that has ended did so.
    exclusive_ended_at: Option<Instant>,
}

/// What is to be said of a key, when nothing of it runs any more.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) key: WorkerKey,
    running: BTreeSet<Hold>,
    /// Since when nothing exclusive of it has run, as far as it has ended.
    pub(super) stopped_at: Instant,
    /// Otherwise its ordinary jobs go on.
    pub(super) all_stopped: bool,
}

impl Farewells {
    /// The registry declared this key over. Good-bye is to be said under it when these have ended, but for those that ran under
    /// an earlier one.
    pub(super) fn owe(&mut self, now: Instant, key: WorkerKey, running: BTreeSet<Hold>) {
        let stopped_at = self.exclusive_ended_at.take().unwrap_or(now);
        self.push(Owed { key, running: self.but_earlier(running), stopped_at, all_stopped: true });
    }

    /// This key lapsed, and these exclusive jobs may still run under it. Nothing is to be said if it never had any.
    pub(super) fn owe_word(&mut self, key: WorkerKey, running: BTreeSet<Hold>) {
        let running = self.but_earlier(running);
        let ended_at = self.exclusive_ended_at.take();
        if !running.is_empty() || ended_at.is_some() {
            let stopped_at = ended_at.unwrap_or(Instant::ZERO);
            self.push(Owed { key, running, stopped_at, all_stopped: false });
        }
    }

    /// A handler has ended, at this time if it was an exclusive one.
    pub(super) fn ended(&mut self, hold: Hold, exclusive_at: Option<Instant>) {
        let mut is_of_the_past = false;
        for owed in self.owed.iter_mut() {
            if owed.running.remove(&hold) {
                is_of_the_past = true;
                owed.stopped_at = owed.stopped_at.max(exclusive_at.unwrap_or(Instant::ZERO));
            }
        }
        if !is_of_the_past {
            self.exclusive_ended_at = self.exclusive_ended_at.max(exclusive_at);
        }
    }

    /// A key of which nothing runs any more that matters.
    pub(super) fn take_ready(&mut self) -> Option<Owed> {
        let place = self.owed.iter().position(|owed| owed.running.is_empty())?;
        self.owed.remove(place)
    }

    fn but_earlier(&self, mut running: BTreeSet<Hold>) -> BTreeSet<Hold> {
        running.retain(|hold| !self.owed.iter().any(|earlier| earlier.running.contains(hold)));
        running
    }

    fn push(&mut self, owed: Owed) {
        if self.owed.len() == KEYS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back(owed);
    }
}
