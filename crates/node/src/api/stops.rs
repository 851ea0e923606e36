//! Holders that make single calls are told what to stop, and lose what they do not stop.
//!
//! Workers on a stream stop jobs by themselves when the time limit is over, and are told of a cancel at once. For those among them
//! that do not, `rounds` has the same rule.

use std::time::Duration;

use lease::heed::{Heed, Verdict};
use model::{Hold, Instant, Limits, Outcome, Report, Retry, WorkerKey};
use rpc::{convert, wire};
use store::{StoreError, ToStop};
use tracing::info;

use super::{Answer, Api};

/// How long a ping waits to say what should be stopped. The ping itself counts whatever the store does.
const PING_WAIT: Duration = Duration::from_secs(1);

impl Api {
    /// What this holder should stop. What it has not stopped in time is taken back now, and is in the answer as lost.
    pub(super) async fn stops_of(&self, worker: &WorkerKey) -> Answer<Vec<wire::Stop>> {
        let mut stops = Vec::new();
        let mut unheeded = Vec::new();
        let now = self.clock.monotonic();
        for job in self.store.to_stop(worker).await? {
            let reason = if job.cancel { "cancelled" } else { "timeout" };
            // Exclusive jobs move by their holder's word alone, which no call can give for it.
            let verdict = match job.exclusive {
                true => Verdict::Told,
                false => self.tell_to_stop(now, job.hold, self.config.lease_default),
            };
            match verdict {
                Verdict::Told => stops.push(convert::stop(job.hold, reason)),
                Verdict::Unheeded => {
                    stops.push(convert::stop(job.hold, "lost"));
                    unheeded.push(job);
                }
            }
        }
        self.take_unheeded(worker, &unheeded).await?;
        Ok(stops)
    }

    /// The same for a ping, which must not hang on the store.
    pub(super) async fn stops_for_ping(&self, worker: &WorkerKey) -> Vec<wire::Stop> {
        let stops = tokio::time::timeout(PING_WAIT, self.stops_of(worker)).await;
        stops.map_or_else(|_| Vec::new(), Result::unwrap_or_default)
    }

    /// Notes that the holder of this claim should stop it, and has this long.
    pub(crate) fn tell_to_stop(&self, now: Instant, hold: Hold, grace: Duration) -> Verdict {
        self.told_stops().tell(now, hold, grace)
    }

    /// How long a worker with a lease has, whose own time limit should have ended the job.
    pub(crate) fn worker_grace(&self, stop_within: Option<Duration>) -> Duration {
        self.config.lease_default.max(stop_within.unwrap_or(Limits::VERIFY_PUSH))
    }

    /// Ends attempts of a holder that was told to stop them and has not: they failed.
    pub(crate) async fn take_unheeded(&self, worker: &WorkerKey, jobs: &[ToStop]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let report = |job: &ToStop| {
            let why = if job.cancel { "cancelled" } else { "timed out" };
            info!(job_id = %job.hold.job, fence = %job.hold.fence, %worker, why, "its holder did not stop the job; it is taken back");
            let error = format!("{why}; its holder was told to stop and did not");
            Report { hold: job.hold, outcome: Outcome::Failed { error, retry: Retry::ByPolicy } }
        };
        self.finish_reports(worker, jobs.iter().map(report).collect()).await.map_err(|error| {
            StoreError::Unavailable(format!("cannot take back what {worker} has not stopped: {error}"))
        })?;
        if let Some(session) = self.sessions.of_worker(worker) {
            jobs.iter().for_each(|job| session.stop(convert::stop(job.hold, "lost")));
        }
        Ok(())
    }

    /// These claims have ended.
    pub(super) fn forget_stops(&self, holds: impl Iterator<Item = Hold>) {
        let mut heed = self.told_stops();
        holds.for_each(|hold| heed.forget(hold));
    }

    fn told_stops(&self) -> std::sync::MutexGuard<'_, Heed> {
        self.heed.lock().expect("no panic while holding the lock")
    }
}
