//! Answers remembered by request id.

use std::collections::{BTreeMap, BTreeSet};

use model::{RequestId, WallTime};

use crate::port::Enqueued;

/// What a request takes in memory beside its id and its answer, about.
const REQUEST_BYTES: usize = 200;

/// What was answered to whom, and when.
pub(super) struct Requests {
    answers: BTreeMap<RequestId, Vec<Enqueued>>,
    by_age: BTreeSet<(WallTime, RequestId)>,
    bytes: usize,
    /// Most bytes that they have together; the oldest go first.
    bytes_max: usize,
}

impl Requests {
    pub(super) fn new(bytes_max: usize) -> Self {
        Requests { answers: BTreeMap::new(), by_age: BTreeSet::new(), bytes: 0, bytes_max }
    }

    pub(super) fn remember(&mut self, at: WallTime, id: RequestId, answer: Vec<Enqueued>) {
        self.bytes += bytes_of(&id, &answer);
        self.by_age.insert((at, id.clone()));
        self.answers.insert(id, answer);
        while self.bytes > self.bytes_max {
            self.forget_oldest();
        }
    }

    /// Forgets at most `limit` answers given at or before `until`, and says how many.
    pub(super) fn forget(&mut self, until: WallTime, limit: usize) -> usize {
        for forgotten in 0..limit {
            if self.by_age.first().is_none_or(|(at, _)| *at > until) {
                return forgotten;
            }
            self.forget_oldest();
        }
        limit
    }

    pub(super) fn answer(&self, id: &RequestId) -> Option<&[Enqueued]> {
        self.answers.get(id).map(Vec::as_slice)
    }

    fn forget_oldest(&mut self) {
        let Some((_, id)) = self.by_age.pop_first() else { return };
        if let Some(answer) = self.answers.remove(&id) {
            self.bytes -= bytes_of(&id, &answer);
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Requests::new(usize::MAX)
    }
}

fn bytes_of(id: &RequestId, answer: &[Enqueued]) -> usize {
    REQUEST_BYTES + 2 * id.as_str().len() + size_of_val(answer)
}

#[cfg(test)]
mod tests {
    use model::{ClientId, JobId};

    use super::*;

    const JOBS: usize = 1_000;

    fn id(number: u64) -> RequestId {
        RequestId::new(&format!("request-{number}")).unwrap()
    }

    fn answer(job: JobId) -> Vec<Enqueued> {
        vec![Enqueued { id: job, duplicate: false }; JOBS]
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let at = |number: u64| WallTime::from_millis(number as i64);
        let job = ClientId::new(at(0), 1).job(0);
        let bytes_max = 10 * bytes_of(&id(0), &answer(job));
        let mut requests = Requests::new(bytes_max);
        (0..13).for_each(|number| requests.remember(at(number), id(number), answer(job)));
        // Ids of two digits take a little more.
        let kept: Vec<u64> = (0..13).filter(|number| requests.answer(&id(*number)).is_some()).collect();
        assert_eq!(kept, (4..13).collect::<Vec<_>>());
        assert!(requests.bytes <= bytes_max);
        assert_eq!(requests.forget(at(20), 100), 9);
        assert_eq!((requests.bytes, requests.by_age.len()), (0, 0));
    }
}
