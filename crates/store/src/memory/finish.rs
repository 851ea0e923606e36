//! How attempts end by their holder's word.

use model::{Ending, Fence, Hold, Job, Outcome, Report, Retry, WorkerKey, after_failure};

use super::clock::Now;
use super::mutation::Mutation;
use super::tables::{Next, Tables, due_again_in};
use crate::port::Finished;
use crate::reason::error_tail;

impl Tables {
    pub(super) fn finish(&mut self, now: Now, holder: &WorkerKey, report: Report) -> Finished {
        let Report { hold, outcome } = report;
        let Some(row) = self.jobs.get(&hold.job) else {
            return self.finish_unknown(now, holder, Report { hold, outcome });
        };
        let job = &row.job;
        if !self.stands(job, holder, hold) {
            return match self.inherited {
                None => self.refuse(job, hold),
                Some(_) => self.finish_late(now, holder, Report { hold, outcome }),
            };
        }
        let ran = now.wall.since(job.started_at.expect("a running job was started"));
        let reported = if self.has(Mutation::ReportForgotten) { job.reported_fence } else { job.fence };
        let job = match outcome {
            Outcome::Completed { result } => self.release(now, hold.job, Next::Completed, |row| {
                row.reporter = row.job.holder.take();
                row.job.reported_fence = reported;
                row.job.result = Some(result);
            }),
            Outcome::Failed { error, retry } => {
                let next = Next::Offered(self.after_failure(job, retry));
                let keeps_error = !self.has(Mutation::FailureForgetsError);
                let keeps_losses = self.has(Mutation::FailureKeepsLosses);
                self.release(now, hold.job, next, |row| {
                    row.reporter = row.job.holder.take();
                    let job = &mut row.job;
                    job.reported_fence = reported;
                    job.last_error = keeps_error.then(|| error_tail(error));
                    job.lost = if keeps_losses { job.lost } else { 0 };
                })
            }
            Outcome::HandedBack => {
                let uncounted = u32::from(!self.has(Mutation::HandBackCountsAttempt));
                self.release(now, hold.job, Next::Offered(Ending::Again), |row| {
                    let job = &mut row.job;
                    row.taken = job.holder.take().map(|holder| (holder, hold.fence));
                    job.reported_fence = reported;
                    job.attempt = job.attempt.saturating_sub(uncounted);
                })
            }
        };
        Finished::Done { state: job.state, queue: job.queue.clone(), due_in: due_again_in(job, now), ran }
    }

    /// The answer to a report whose hold does not stand.
    pub(super) fn refuse(&self, job: &Job, hold: Hold) -> Finished {
        // A job that was never claimed has reported nothing, whatever fence the caller made up.
        let has_reported = job.reported_fence != Fence::NONE;
        if has_reported && self.guard(Mutation::AlreadyDoneForAnyFence, job.reported_fence == hold.fence) {
            return Finished::AlreadyDone;
        }
        Finished::Stale { current: job.fence }
    }

    fn after_failure(&self, job: &Job, retry: Retry) -> Ending {
        let max_attempts = if self.has(Mutation::FailureNeverBuried) { u32::MAX } else { job.max_attempts };
        after_failure(job.attempt, max_attempts, retry, self.policy_of(job), job.fence)
    }
}
