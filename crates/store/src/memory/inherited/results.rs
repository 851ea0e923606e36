//! Results of jobs that their clients have not submitted again yet.
//!
//! The workers that reported them keep them too, so the oldest may be dropped when there are too many: the job then runs again,
//! after its end, unless its worker reports it once more.

use std::collections::BTreeMap;

use model::{Fence, JobId, Outcome, WallTime, WorkerKey};

/// Most of them; the oldest go first.
const RESULTS_MAX: usize = 100_000;

/// How the latest attempt of a job ended that is not here.
#[derive(Debug)]
pub(in super::super) struct Early {
    pub(in super::super) holder: WorkerKey,
    pub(in super::super) fence: Fence,
    pub(in super::super) outcome: Outcome,
    at: WallTime,
    /// Its place in the order of arrival.
    place: u64,
}

impl Early {
    pub(super) fn has_completed(&self) -> bool {
        matches!(self.outcome, Outcome::Completed { .. })
    }

    fn bytes(&self) -> usize {
        match &self.outcome {
            Outcome::Completed { result } => result.len(),
            Outcome::Failed { error, .. } => error.len(),
            Outcome::HandedBack => 0,
        }
    }
}

pub(super) struct Results {
    kept: BTreeMap<JobId, Early>,
    order: BTreeMap<u64, JobId>,
    bytes: usize,
    /// Most bytes that they have together; the oldest go first.
    bytes_max: usize,
    last: u64,
}

impl Results {
    pub(super) fn new(bytes_max: usize) -> Self {
        Results { kept: BTreeMap::new(), order: BTreeMap::new(), bytes: 0, bytes_max, last: 0 }
    }

    /// Keeps a result, in place of one of an earlier attempt.
    pub(super) fn put(
        &mut self,
        at: WallTime,
        id: JobId,
        holder: &WorkerKey,
        fence: Fence,
        outcome: Outcome,
    ) {
        self.take(id);
        self.last += 1;
        let early = Early { holder: holder.clone(), fence, outcome, at, place: self.last };
        self.bytes += early.bytes();
        self.order.insert(early.place, id);
        self.kept.insert(id, early);
        while self.kept.len() > RESULTS_MAX || self.bytes > self.bytes_max {
            let (_, oldest) = self.order.first_key_value().expect("there are as many places as results");
            self.take(*oldest);
        }
    }

    pub(super) fn take(&mut self, id: JobId) -> Option<Early> {
        let early = self.kept.remove(&id)?;
        self.order.remove(&early.place);
        self.bytes -= early.bytes();
        Some(early)
    }

    /// Drops at most `limit` that came at or before this date, and says how many.
    pub(super) fn forget(&mut self, until: WallTime, limit: usize) -> usize {
        for forgotten in 0..limit {
            let Some(id) =
                self.order.first_key_value().map(|(_, id)| *id).filter(|id| self.kept[id].at <= until)
            else {
                return forgotten;
            };
            self.take(id);
        }
        limit
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Early> {
        self.kept.get(&id)
    }

    pub(super) fn between(&self, from: JobId, before: JobId) -> Vec<JobId> {
        self.kept.range(from..before).map(|(id, _)| *id).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::ClientId;

    use super::*;

    const NOW: WallTime = WallTime::from_millis(1_000);
    const BYTES_MAX: usize = 1 << 20;

    fn put(results: &mut Results, number: u64, bytes: usize) {
        let id = ClientId::new(NOW, 1).job(number);
        let outcome = Outcome::Completed { result: Bytes::from(vec![0; bytes]) };
        results.put(NOW, id, &WorkerKey::new("w").unwrap(), Fence::new(1), outcome);
    }

    #[test]
    fn oldest_make_room() {
        let mut results = Results::new(BYTES_MAX);
        (0..RESULTS_MAX as u64 + 3).for_each(|number| put(&mut results, number, 1));
        let kept = |results: &Results, number| results.get(ClientId::new(NOW, 1).job(number)).is_some();
        assert_eq!((results.len(), results.bytes), (RESULTS_MAX, RESULTS_MAX));
        assert!(!kept(&results, 2) && kept(&results, 3));
        put(&mut results, 0, BYTES_MAX);
        assert_eq!((results.len(), results.order.len()), (1, 1));
        assert!(kept(&results, 0));
    }

    #[test]
    fn later_result_of_a_job_replaces_the_earlier() {
        let mut results = Results::new(BYTES_MAX);
        put(&mut results, 7, 10);
        put(&mut results, 7, 3);
        assert_eq!((results.len(), results.order.len(), results.bytes), (1, 1, 3));
    }

    #[test]
    fn old_results_are_forgotten_a_few_at_a_time() {
        let mut results = Results::new(BYTES_MAX);
        (0..5).for_each(|number| put(&mut results, number, 1));
        assert_eq!(results.forget(WallTime::from_millis(999), 10), 0);
        assert_eq!(results.forget(NOW, 2), 2);
        assert_eq!(results.forget(NOW, 10), 3);
        assert_eq!((results.len(), results.bytes), (0, 0));
    }
}
