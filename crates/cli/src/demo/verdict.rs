//! Which promises held, computed from what the workers wrote down and the moments the faults were made. The server is
//! not asked.

use std::collections::{BTreeMap, BTreeSet};

use model::{Fence, JobId};
use serde::Serialize;

use crate::effects::{Entry, What};
use crate::percentile::percentile;

/// A worker that was killed or frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// Whose log, by number.
    pub(crate) worker: usize,
    /// When, on the logs' clock.
    pub(crate) nanos: u64,
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) jobs: usize,
    /// Jobs whose effect happened and whose report was accepted.
    pub(crate) completed: usize,
    pub(crate) dead: usize,
    /// Jobs whose effect never happened.
    pub(crate) lost_jobs: usize,
    /// Claims whose effect happened more than once.
    pub(crate) duplicate_effects_same_fence: usize,
    /// Jobs with more than one accepted report: a zombie got through.
    pub(crate) stale_writes_accepted: usize,
    pub(crate) stale_writes_refused: usize,
    /// Jobs taken over from a killed or frozen worker.
    pub(crate) rescues: usize,
    /// From the fault to the new start.
    pub(crate) rescue_ms_p50: u64,
    pub(crate) rescue_ms_p99: u64,
}

impl Verdict {
    /// Judges the logs, one for each worker.
    pub(crate) fn of(jobs: &[JobId], dead: usize, logs: &[Vec<Entry>], faults: &[Fault]) -> Verdict {
        let mut effects: BTreeMap<(JobId, Fence), usize> = BTreeMap::new();
        let mut accepted: BTreeMap<JobId, usize> = BTreeMap::new();
        let mut refused = 0;
        for entry in logs.iter().flatten() {
            match entry.what {
                What::Effect => *effects.entry((entry.job, entry.fence)).or_default() += 1,
                What::Accept => *accepted.entry(entry.job).or_default() += 1,
                What::Refuse => refused += 1,
                What::Start | What::Lost => {}
            }
        }
        let with_effect: BTreeSet<JobId> = effects.keys().map(|(job, _)| *job).collect();
        let rescues = rescue_times(logs, faults);
        Verdict {
            jobs: jobs.len(),
            // A worker that is killed between the server's acceptance and its own note leaves no `accept` line, so the
            // effect is what counts.
            completed: jobs.iter().filter(|job| with_effect.contains(job)).count().saturating_sub(dead),
            dead,
            lost_jobs: jobs.iter().filter(|job| !with_effect.contains(job)).count().saturating_sub(dead),
            duplicate_effects_same_fence: effects.values().filter(|times| **times > 1).count(),
            stale_writes_accepted: accepted.values().filter(|times| **times > 1).count(),
            stale_writes_refused: refused,
            rescues: rescues.len(),
            rescue_ms_p50: millis(&rescues, 50),
            rescue_ms_p99: millis(&rescues, 99),
        }
    }

    /// The promises that were broken, in words; empty when all held.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                broken.push(what);
            }
        };
        must(self.lost_jobs == 0, format!("{} jobs were lost", self.lost_jobs));
        must(self.dead == 0, format!("{} jobs were buried though none failed", self.dead));
        let twice = self.duplicate_effects_same_fence;
        must(twice == 0, format!("{twice} claims had their effect twice"));
        must(
            self.stale_writes_accepted == 0,
            format!("{} jobs were finished twice", self.stale_writes_accepted),
        );
        must(self.rescues > 0, "no job was rescued, so nothing was shown".to_owned());
        must(self.stale_writes_refused > 0, "no stale write was seen, so nothing was shown".to_owned());
        broken
    }
}

/// For each job that a faulty worker had begun and not finished when its fault came: how long until someone began it
/// under a newer fence. Sorted, in nanoseconds.
fn rescue_times(logs: &[Vec<Entry>], faults: &[Fault]) -> Vec<u64> {
    let mut starts: BTreeMap<JobId, Vec<(Fence, u64)>> = BTreeMap::new();
    for entry in logs.iter().flatten().filter(|entry| entry.what == What::Start) {
        starts.entry(entry.job).or_default().push((entry.fence, entry.nanos));
    }
    let mut times = Vec::new();
    for fault in faults {
        let before = || logs[fault.worker].iter().filter(|entry| entry.nanos <= fault.nanos);
        let ended: BTreeSet<(JobId, Fence)> = before()
            .filter(|entry| entry.what != What::Start)
            .map(|entry| (entry.job, entry.fence))
            .collect();
        for held in
            before().filter(|entry| entry.what == What::Start && !ended.contains(&(entry.job, entry.fence)))
        {
            let again = starts[&held.job]
                .iter()
                .filter(|(fence, _)| *fence > held.fence)
                .map(|(_, nanos)| *nanos)
                .min();
            times.extend(again.map(|nanos| nanos.saturating_sub(fault.nanos)));
        }
    }
    times.sort_unstable();
    times
}

/// In milliseconds, of sorted nanoseconds.
fn millis(sorted: &[u64], percent: usize) -> u64 {
    percentile(sorted, percent).map_or(0, |nanos| nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u8) -> JobId {
        JobId::from_bytes([number; 16])
    }

    fn entry(what: What, number: u8, fence: i64, millis: u64) -> Entry {
        Entry { what, job: job(number), fence: Fence::new(fence), nanos: millis * 1_000_000 }
    }

    /// Two jobs; worker 0 is frozen at 150 ms with job 2 in hand, worker 1 takes it over.
    fn good_run() -> (Vec<JobId>, Vec<Vec<Entry>>, Vec<Fault>) {
        use What::*;
        let frozen = vec![
            entry(Start, 1, 10, 100),
            entry(Effect, 1, 10, 120),
            entry(Accept, 1, 10, 121),
            entry(Start, 2, 11, 140),
            entry(Effect, 2, 11, 9_000),
            entry(Refuse, 2, 11, 9_001),
        ];
        let other =
            vec![entry(Start, 2, 12, 2_150), entry(Effect, 2, 12, 2_200), entry(Accept, 2, 12, 2_201)];
        (vec![job(1), job(2)], vec![frozen, other], vec![Fault { worker: 0, nanos: 150_000_000 }])
    }

    #[test]
    fn a_good_run_breaks_nothing() {
        let (jobs, logs, faults) = good_run();
        let verdict = Verdict::of(&jobs, 0, &logs, &faults);
        assert_eq!((verdict.completed, verdict.rescues, verdict.rescue_ms_p50), (2, 1, 2_000));
        assert_eq!(verdict.broken(), Vec::<String>::new());
    }

    #[test]
    fn each_broken_promise_is_named() {
        let check = |expected: &str, change: fn(&mut Vec<JobId>, &mut Vec<Vec<Entry>>)| {
            let (mut jobs, mut logs, faults) = good_run();
            change(&mut jobs, &mut logs);
            let broken = Verdict::of(&jobs, 0, &logs, &faults).broken();
            assert!(broken.iter().any(|words| words.contains(expected)), "{expected:?} not in {broken:?}");
        };
        check("lost", |jobs, _| jobs.push(job(3)));
        check("effect twice", |_, logs| logs[1].push(entry(What::Effect, 2, 12, 2_300)));
        check("finished twice", |_, logs| logs[0][5].what = What::Accept);
        check("no job was rescued", |_, logs| logs[1].remove(0).what = What::Lost);
        check("no stale write", |_, logs| logs[0].truncate(5));
    }
}
