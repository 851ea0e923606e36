//! How attempts end by their holder's word.

use model::{Ending, Fence, Hold, Outcome, Report, Retry, WorkerKey, after_failure};

use super::clock::Now;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Next, Tables, due_again_in};
use crate::port::Finished;
use crate::reason::error_tail;

impl Tables {
    pub(super) fn finish(&mut self, now: Now, holder: &WorkerKey, report: Report) -> Finished {
        let Report { hold, outcome } = report;
        let Some(row) = self.jobs.get(hold.job) else {
            return self.finish_unknown(now, holder, Report { hold, outcome });
        };
        if !self.stands(row, holder, hold) {
            return match self.inherited {
                None => self.refuse(row, hold),
                Some(_) => self.finish_late(now, holder, Report { hold, outcome }),
            };
        }
        let ran = now.wall.since(row.started_at.expect("a running job was started"));
        let reported = if self.has(Mutation::ReportForgotten) { row.reported_fence } else { row.fence };
        let row = match outcome {
            Outcome::Completed { result } => self.release(now, hold.job, Next::Completed, |row| {
                row.reporter = row.holder.take();
                row.reported_fence = reported;
                row.result = Some(result);
            }),
            Outcome::Failed { error, retry } => {
                let next = Next::Offered(self.after_failure(row, retry));
                let keeps_error = !self.has(Mutation::FailureForgetsError);
                let keeps_losses = self.has(Mutation::FailureKeepsLosses);
                self.release(now, hold.job, next, |row| {
                    row.reporter = row.holder.take();
                    row.reported_fence = reported;
                    row.rare_mut().last_error = keeps_error.then(|| error_tail(error));
                    row.lost = if keeps_losses { row.lost } else { 0 };
                })
            }
            Outcome::HandedBack => {
                let uncounted = u32::from(!self.has(Mutation::HandBackCountsAttempt));
                self.release(now, hold.job, Next::Offered(Ending::Again), |row| {
                    row.rare_mut().taken = row.holder.take().map(|holder| (holder, hold.fence));
                    row.reported_fence = reported;
                    row.attempt = row.attempt.saturating_sub(uncounted);
                })
            }
        };
        let (state, queue, due_in) = (row.state, row.queue, due_again_in(row, now));
        Finished::Done { state, queue: self.index.queues[queue].name.clone(), due_in, ran }
    }

    /// The answer to a report whose hold does not stand.
    pub(super) fn refuse(&self, row: &Row, hold: Hold) -> Finished {
        // A job that was never claimed has reported nothing, whatever fence the caller made up.
        let has_reported = row.reported_fence != Fence::NONE;
        if has_reported && self.guard(Mutation::AlreadyDoneForAnyFence, row.reported_fence == hold.fence) {
            return Finished::AlreadyDone;
        }
        Finished::Stale { current: row.fence }
    }

    fn after_failure(&self, row: &Row, retry: Retry) -> Ending {
        let max_attempts = if self.has(Mutation::FailureNeverBuried) { u32::MAX } else { row.max_attempts };
        after_failure(row.attempt, max_attempts, retry, self.policy_of(row), row.fence)
    }
}
