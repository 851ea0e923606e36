//! Which promises held, computed from what the workers wrote down and the moments the faults were made. The server is
//! not asked.

use std::collections::{BTreeMap, BTreeSet};

use model::{Fence, JobId};
use serde::Serialize;

use crate::effects::{self, Entry, What};
use crate::percentile::percentile;

/// A worker that was killed or frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// Whose log, by number.
    pub(crate) worker: usize,
    /// When, on the logs' clock.
    pub(crate) nanos: u64,
    /// It was killed.
    pub(crate) is_crash: bool,
}

/// What was enqueued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) all: Vec<JobId>,
    /// Those of them in the exclusive queue.
    pub(crate) exclusive: BTreeSet<JobId>,
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
    /// The same for the worker that was killed: its guardian says so.
    pub(crate) crash_rescue_ms_p50: u64,
    pub(crate) crash_rescue_ms_p99: u64,
    /// Jobs of the exclusive queue.
    pub(crate) exclusive_jobs: usize,
    /// How often two copies of an exclusive job ran at the same time.
    pub(crate) overlapping_runs: usize,
    /// Hand-overs of exclusive jobs, and the shortest time between the old copy's last sign and the new one's start.
    pub(crate) exclusive_hand_overs: usize,
    pub(crate) hand_over_margin_ms_min: f64,
}

impl Verdict {
    /// Judges the logs, one for each worker.
    pub(crate) fn of(jobs: &Jobs, dead: usize, logs: &[Vec<Entry>], faults: &[Fault]) -> Verdict {
        let Jobs { all: jobs, exclusive } = jobs;
        let mut effects: BTreeMap<(JobId, Fence), usize> = BTreeMap::new();
        let mut accepted: BTreeMap<JobId, usize> = BTreeMap::new();
        let mut refused = 0;
        for entry in logs.iter().flatten() {
            match entry.what {
                What::Effect => *effects.entry((entry.job, entry.fence)).or_default() += 1,
                What::Accept => *accepted.entry(entry.job).or_default() += 1,
                What::Refuse => refused += 1,
                What::Start | What::Tick | What::Lost => {}
            }
        }
        let with_effect: BTreeSet<JobId> = effects.keys().map(|(job, _)| *job).collect();
        let rescues = rescue_times(logs, faults);
        let crashes: Vec<Fault> = faults.iter().filter(|fault| fault.is_crash).copied().collect();
        let crash_rescues = rescue_times(logs, &crashes);
        let mut margins: Vec<i64> = effects::hand_overs(logs.iter().flatten())
            .into_iter()
            .filter(|(job, _)| exclusive.contains(job))
            .map(|(_, margin)| margin)
            .collect();
        margins.sort_unstable();
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
            crash_rescue_ms_p50: millis(&crash_rescues, 50),
            crash_rescue_ms_p99: millis(&crash_rescues, 99),
            exclusive_jobs: exclusive.len(),
            overlapping_runs: margins.iter().filter(|nanos| **nanos < 0).count(),
            exclusive_hand_overs: margins.len(),
            hand_over_margin_ms_min: margins.first().map_or(0.0, |nanos| *nanos as f64 / 1e6),
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
        must(
            self.overlapping_runs == 0,
            format!("{} times two copies of an exclusive job ran at once", self.overlapping_runs),
        );
        must(
            self.exclusive_hand_overs > 0,
            "no exclusive job changed hands, so nothing was shown".to_owned(),
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
            .filter(|entry| !matches!(entry.what, What::Start | What::Tick))
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

    /// Two jobs and an exclusive one; worker 0 is frozen at 150 ms with jobs 2 and 3 in hand, worker 1 takes them over.
    fn good_run() -> (Jobs, Vec<Vec<Entry>>, Vec<Fault>) {
        use What::*;
        let frozen = vec![
            entry(Start, 1, 10, 100),
            entry(Effect, 1, 10, 120),
            entry(Accept, 1, 10, 121),
            entry(Start, 2, 11, 140),
            entry(Start, 3, 20, 141),
            entry(Tick, 3, 20, 149),
            entry(Effect, 2, 11, 9_000),
            entry(Refuse, 2, 11, 9_001),
        ];
        let other = vec![
            entry(Start, 2, 12, 2_150),
            entry(Effect, 2, 12, 2_200),
            entry(Accept, 2, 12, 2_201),
            entry(Start, 3, 21, 2_150),
            entry(Effect, 3, 21, 2_250),
            entry(Accept, 3, 21, 2_251),
        ];
        let jobs = Jobs { all: vec![job(1), job(2), job(3)], exclusive: [job(3)].into() };
        (jobs, vec![frozen, other], vec![Fault { worker: 0, nanos: 150_000_000, is_crash: false }])
    }

    #[test]
    fn a_good_run_breaks_nothing() {
        let (jobs, logs, faults) = good_run();
        let verdict = Verdict::of(&jobs, 0, &logs, &faults);
        assert_eq!((verdict.completed, verdict.rescues, verdict.rescue_ms_p50), (3, 2, 2_000));
        assert_eq!((verdict.exclusive_hand_overs, verdict.hand_over_margin_ms_min), (1, 2_001.0));
        assert_eq!(verdict.crash_rescue_ms_p99, 0, "nobody was killed");
        assert_eq!(verdict.broken(), Vec::<String>::new());
    }

    #[test]
    fn each_broken_promise_is_named() {
        let check = |expected: &str, change: fn(&mut Jobs, &mut Vec<Vec<Entry>>)| {
            let (mut jobs, mut logs, faults) = good_run();
            change(&mut jobs, &mut logs);
            let broken = Verdict::of(&jobs, 0, &logs, &faults).broken();
            assert!(broken.iter().any(|words| words.contains(expected)), "{expected:?} not in {broken:?}");
        };
        check("lost", |jobs, _| jobs.all.push(job(4)));
        check("ran at once", |_, logs| logs[0].push(entry(What::Tick, 3, 20, 2_151)));
        check("no exclusive job changed hands", |jobs, _| jobs.exclusive.clear());
        check("effect twice", |_, logs| logs[1].push(entry(What::Effect, 2, 12, 2_300)));
        check("finished twice", |_, logs| logs[0][7].what = What::Accept);
        check("no job was rescued", |_, logs| logs[1].retain(|entry| entry.what != What::Start));
        check("no stale write", |_, logs| logs[0].truncate(7));
    }
}
