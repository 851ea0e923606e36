//! Answers remembered by request id.

use std::collections::{BTreeMap, BTreeSet};

use model::{RequestId, WallTime};

use crate::port::Enqueued;

/// What was answered to whom, and when.
#[derive(Default)]
pub(super) struct Requests {
    answers: BTreeMap<RequestId, Vec<Enqueued>>,
    by_age: BTreeSet<(WallTime, RequestId)>,
}

impl Requests {
    pub(super) fn remember(&mut self, at: WallTime, id: RequestId, answer: Vec<Enqueued>) {
        self.by_age.insert((at, id.clone()));
        self.answers.insert(id, answer);
    }

    /// Forgets at most `limit` answers given at or before `until`, and says how many.
    pub(super) fn forget(&mut self, until: WallTime, limit: usize) -> usize {
        for forgotten in 0..limit {
            if self.by_age.first().is_none_or(|(at, _)| *at > until) {
                return forgotten;
            }
            let (_, id) = self.by_age.pop_first().expect("its first entry was just looked at");
            self.answers.remove(&id);
        }
        limit
    }

    pub(super) fn answer(&self, id: &RequestId) -> Option<&[Enqueued]> {
        self.answers.get(id).map(Vec::as_slice)
    }
}
