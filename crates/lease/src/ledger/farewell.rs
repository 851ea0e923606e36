//! Keys that the registry declared over while something of theirs still ran here.
//!
//! The registry cannot know when that has ended. As soon as it has, we say so: an exclusive job goes on elsewhere only then,
//! or when the lease of its key is over.

use std::collections::{BTreeSet, VecDeque};

use model::{Hold, WorkerKey};

/// Most keys that are waited for; beyond that the oldest is left to its lease.
const KEYS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Farewells {
    owed: VecDeque<(WorkerKey, BTreeSet<Hold>)>,
}

impl Farewells {
    /// Good-bye is to be said under this key when these have ended, but for those that ran under an earlier one.
    pub(super) fn owe(&mut self, key: WorkerKey, mut running: BTreeSet<Hold>) {
        for (_, earlier) in &self.owed {
            running.retain(|hold| !earlier.contains(hold));
        }
        if self.owed.len() == KEYS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back((key, running));
    }

    /// A handler has ended.
    pub(super) fn ended(&mut self, hold: Hold) {
        for (_, running) in &mut self.owed {
            running.remove(&hold);
        }
    }

    /// A key of which nothing runs any more.
    pub(super) fn take_ready(&mut self) -> Option<WorkerKey> {
        let place = self.owed.iter().position(|(_, running)| running.is_empty())?;
        self.owed.remove(place).map(|(key, _)| key)
    }
}
