//! Volatile jobs: what clients submit and know the end of, and how the muster stands.

use std::collections::BTreeMap;

use model::{ErrorKind, Hold, JobId, WorkerKey};
use rpc::{ApiError, lease_convert, wire};
use store::{Alarm, EnqueueBatch};
use tokio::sync::oneshot;
use tracing::error;

use super::jobs::ids;
use super::{Answer, Api};
use crate::event::{Event, RollEvent};

impl Api {
    /// What one frame of a client says. Answers the jobs that will never be taken.
    pub(crate) async fn take_submissions(&self, frame: wire::SubmitFrame) -> Answer<Vec<wire::Refusal>> {
        let lowest = rpc::convert::optional(&frame.lowest_unacknowledged, str::parse)?;
        self.acknowledge_ends(ids(&frame.acknowledged)?, lowest).await?;
        if frame.jobs.len() > 1 {
            match self.take_all(frame.jobs.clone()).await {
                // One of them is to blame for all; those that are not are taken.
                Err(error) if error.kind == ErrorKind::Invalid => {}
                taken => return taken.map(|()| Vec::new()),
            }
        }
        let mut refusals = Vec::new();
        for job in frame.jobs {
            let id = job.id.clone();
            match self.take_all(vec![job]).await {
                Err(error) if error.kind == ErrorKind::Invalid => {
                    refusals.push(wire::Refusal { id, error: error.message });
                }
                taken => taken?,
            }
        }
        Ok(refusals)
    }

    async fn take_all(&self, jobs: Vec<wire::NewJob>) -> Answer<()> {
        // The ids are the client's own: it is they that make a repeat harmless.
        let jobs = self.read_jobs(jobs)?;
        self.add(EnqueueBatch { request_id: None, jobs }).await.map(drop)
    }

    /// Clients know how these ended: the workers that keep their results need not any longer.
    pub(crate) async fn acknowledge_ends(&self, ids: Vec<JobId>, lowest: Option<JobId>) -> Answer<()> {
        let mut by_worker: BTreeMap<WorkerKey, Vec<Hold>> = BTreeMap::new();
        for (worker, hold) in self.store.acknowledge(ids, lowest).await? {
            by_worker.entry(worker).or_default().push(hold);
        }
        for (worker, holds) in by_worker {
            // A worker that does not hear of it forgets them in a while.
            if let Some(session) = self.sessions.of_worker(&worker) {
                session.keep_forgets(holds.into_iter().map(lease_convert::hold_to_wire));
            }
        }
        Ok(())
    }

    /// Tells of copies of jobs that should not exist.
    pub(crate) fn sound_alarms(&self) {
        if !self.store.has_volatile() {
            return;
        }
        for Alarm { job, known, other } in self.store.take_alarms() {
            let (known, known_fence) = known.map_or_else(
                || ("nobody".to_owned(), 0),
                |(worker, fence)| (worker.to_string(), fence.get()),
            );
            error!(
                job_id = %job, worker = %other.0, fence = %other.1, holder = known, holder_fence = known_fence,
                "DOUBLE START: a copy of a volatile job that should not exist; its claim or result is refused"
            );
        }
    }

    /// How the muster stands.
    pub(crate) async fn muster_status(&self) -> Answer<wire::MusterStatus> {
        let (reply, status) = oneshot::channel();
        self.tell(Event::Roll(RollEvent::Muster { reply })).await;
        let mut status = status
            .await
            .map_err(|_| ApiError::new(ErrorKind::Unavailable, "the server is going away; ask again"))?;
        let inheritance = self.store.inheritance();
        status.unclaimed = inheritance.unclaimed;
        status.double_starts = inheritance.double_starts;
        Ok(status)
    }
}
