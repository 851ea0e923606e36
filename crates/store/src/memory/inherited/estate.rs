//! Claims and results of jobs that are not here, because their clients have not submitted them again yet.
//!
//! A claim is known by its fence, which was minted for it alone; its process may come back under another key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Fence, Hold, JobId, LeaseTime, Outcome, Report, WallTime, WorkerKey};

use super::super::mutation::Mutation;
use super::super::room::PART;
use super::clients::Clients;
use super::ended::Ended;
use super::results::{Early, Results};
use crate::port::{Alarm, Finished, Inheritance, Renewed};

/// Most alarms that wait to be read; more are counted only.
const ALARMS_MAX: usize = 1_000;
/// How far ahead of our clock a fence of a former life may be: further than any clock is set back. One from beyond that would be
/// followed by all others.
const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Everything a volatile store knows besides its rows.
pub(in super::super) struct Inherited {
    /// Who says that it runs what. As many as living workers hold: they go with a report, and with their holder.
    claims: BTreeMap<JobId, Adopted>,
    held: BTreeMap<WorkerKey, BTreeSet<JobId>>,
    results: Results,
    pub(in super::super) clients: Clients,
    pub(in super::super) ended: Ended,
    /// What the jobs may take in memory.
    bytes_max: usize,
    /// The greatest fence that anybody reported.
    greatest: i64,
    counts: Inheritance,
    alarms: Vec<Alarm>,
    mutation: Option<Mutation>,
}

/// A claim of a former life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Adopted {
    pub(in super::super) holder: WorkerKey,
    pub(in super::super) fence: Fence,
    pub(in super::super) lease: Duration,
}

/// What is known of a job when it is submitted again.
pub(in super::super) enum Legacy {
    /// It runs.
    Running(Adopted),
    /// Its latest attempt has ended.
    Ended(Early),
}

impl Inherited {
    pub(in super::super) fn new(bytes_max: usize, mutation: Option<Mutation>) -> Self {
        Inherited {
            claims: BTreeMap::new(),
            held: BTreeMap::new(),
            results: Results::new(bytes_max / PART),
            clients: Clients::default(),
            ended: Ended::new(bytes_max / PART),
            bytes_max,
            greatest: 0,
            counts: Inheritance::default(),
            alarms: Vec::new(),
            mutation,
        }
    }

    /// What the jobs may take in memory.
    pub(in super::super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Somebody reported this fence: those that are minted from now on are greater. False if nobody can have minted it.
    pub(in super::super) fn note_fence(&mut self, now: LeaseTime, fence: Fence) -> bool {
        let is_fence = (1..(now + AHEAD_MAX).as_micros()).contains(&fence.get());
        if is_fence && self.mutation != Some(Mutation::FenceIgnoresReported) {
            self.greatest = self.greatest.max(fence.get());
        }
        is_fence
    }

    /// Under which key this claim of a job that is not here is known.
    pub(in super::super) fn holder_of(&self, hold: Hold) -> Option<&WorkerKey> {
        self.claims.get(&hold.job).filter(|claim| claim.fence == hold.fence).map(|claim| &claim.holder)
    }

    /// A worker says that it runs a job that is not here.
    pub(in super::super) fn adopt(&mut self, holder: &WorkerKey, hold: Hold, lease: Duration) -> Renewed {
        if let Some(early) = self.results.get(hold.job) {
            if early.fence == hold.fence {
                // Overtaken by its own report.
                return Renewed::Lost;
            }
            let known = (early.holder.clone(), early.fence);
            let is_older = early.fence > hold.fence;
            // A failed attempt is followed by another one, a completed one must not be.
            if is_older || early.has_completed() {
                self.raise_alarm(hold.job, Some(known), holder, hold.fence);
            }
            if is_older {
                return Renewed::Lost;
            }
        }
        if let Some(other) = self.claims.get(&hold.job).filter(|claim| claim.fence != hold.fence)
            && self.mutation != Some(Mutation::SecondCopyAdopted)
        {
            let known = (other.holder.clone(), other.fence);
            self.raise_alarm(hold.job, Some(known), holder, hold.fence);
            return Renewed::Lost;
        }
        self.results.take(hold.job);
        self.release(hold.job);
        self.held.entry(holder.clone()).or_default().insert(hold.job);
        self.claims.insert(hold.job, Adopted { holder: holder.clone(), fence: hold.fence, lease });
        Renewed::Held { lease, cancel: false, exclusive: true }
    }

    /// A worker reports on a job that is not here. It is answered as taken: what became of the job shows when its client
    /// submits it again.
    pub(in super::super) fn report(&mut self, at: WallTime, holder: &WorkerKey, report: Report) -> Finished {
        let Report { hold, outcome } = report;
        if let Some(claim) = self.claims.get(&hold.job) {
            if claim.fence != hold.fence && self.mutation != Some(Mutation::AdoptedEndsByAnyone) {
                let current = claim.fence;
                self.count_stale();
                return Finished::Stale { current };
            }
            self.release(hold.job);
        }
        let is_awaited = hold.job.submission().is_some_and(|(client, _)| client.is_awaited());
        if outcome == Outcome::HandedBack
            || !is_awaited
            || self.mutation == Some(Mutation::EarlyResultDropped)
        {
            return Finished::AlreadyDone;
        }
        if let Some(early) = self.results.get(hold.job) {
            if early.fence == hold.fence {
                return Finished::AlreadyDone;
            }
            // Of two attempts the later one counts. The earlier one should have been the last if it completed.
            let (current, known) = (early.fence, (early.holder.clone(), early.fence));
            let is_older = current > hold.fence;
            let has_completed =
                if is_older { matches!(outcome, Outcome::Completed { .. }) } else { early.has_completed() };
            if has_completed {
                self.raise_alarm(hold.job, Some(known), holder, hold.fence);
            } else if is_older {
                self.count_stale();
            }
            if is_older {
                return Finished::Stale { current };
            }
        }
        self.results.put(at, hold.job, holder, hold.fence, outcome);
        Finished::AlreadyDone
    }

    /// What is known of a job that is here from now on.
    pub(in super::super) fn take(&mut self, id: JobId) -> Option<Legacy> {
        match self.release(id) {
            Some(claim) => Some(Legacy::Running(claim)),
            None => self.results.take(id).map(Legacy::Ended),
        }
    }

    /// Nobody waits for the result of this job any longer. Answers who reported it, and under which claim.
    pub(in super::super) fn drop_result(&mut self, id: JobId) -> Option<(WorkerKey, Hold)> {
        self.results.take(id).map(|early| (early.holder, Hold { job: id, fence: early.fence }))
    }

    /// Drops at most `limit` results that came at or before this date, and says how many.
    pub(in super::super) fn forget_results(&mut self, until: WallTime, limit: usize) -> usize {
        self.results.forget(until, limit)
    }

    /// A result came whose client knows it already.
    pub(in super::super) fn put_unneeded(&mut self, holder: &WorkerKey, hold: Hold) {
        let is_its = self.claims.get(&hold.job).is_some_and(|claim| claim.fence == hold.fence);
        if is_its {
            self.release(hold.job);
        }
        self.clients.put_unneeded(holder, hold);
    }

    /// This holder is terminal: what it ran it runs no more.
    pub(in super::super) fn reap_holder(&mut self, holder: &WorkerKey) {
        for id in self.held.remove(holder).into_iter().flatten() {
            self.claims.remove(&id);
        }
    }

    /// A copy that should not exist showed itself.
    pub(in super::super) fn raise_alarm(
        &mut self,
        job: JobId,
        known: Option<(WorkerKey, Fence)>,
        other: &WorkerKey,
        fence: Fence,
    ) {
        if self.mutation == Some(Mutation::DoubleStartNotCounted) {
            return;
        }
        self.counts.double_starts += 1;
        if self.alarms.len() < ALARMS_MAX {
            self.alarms.push(Alarm { job, known, other: (other.clone(), fence) });
        }
    }

    /// A report was dropped.
    pub(in super::super) fn count_stale(&mut self) {
        self.counts.stale_reports += 1;
    }

    pub(in super::super) fn take_alarms(&mut self) -> Vec<Alarm> {
        std::mem::take(&mut self.alarms)
    }

    /// The least number a fence may have now.
    pub(in super::super) fn least_fence(&self) -> i64 {
        self.greatest + 1
    }

    /// Whether nothing waits for its client.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.results.len() == 0
    }

    /// The results of jobs with these ids.
    pub(in super::super) fn results_between(&self, from: JobId, before: JobId) -> Vec<JobId> {
        self.results.between(from, before)
    }

    pub(in super::super) fn counts(&self) -> Inheritance {
        Inheritance { unclaimed: (self.claims.len() + self.results.len()) as u64, ..self.counts }
    }

    /// Nobody is known to run this job.
    fn release(&mut self, id: JobId) -> Option<Adopted> {
        let claim = self.claims.remove(&id)?;
        if let Some(held) = self.held.get_mut(&claim.holder) {
            held.remove(&id);
            if held.is_empty() {
                self.held.remove(&claim.holder);
            }
        }
        Some(claim)
    }
}
