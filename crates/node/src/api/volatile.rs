//! Volatile jobs: what clients submit and know the end of, and how the muster stands.

use std::collections::BTreeMap;
use std::iter;

use model::{ErrorKind, Hold, JobId, WorkerKey};
use rpc::{ApiError, lease_convert, wire};
use store::{Alarm, EnqueueBatch};
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::jobs::ids;
use super::{Answer, Api};
use crate::event::{Event, RollEvent};

/// The jobs of a client's frame that were not taken.
#[derive(Default)]
pub(crate) struct NotTaken {
    /// They never will be.
    pub(crate) refused: Vec<wire::Refusal>,
    /// There was no room for them.
    pub(crate) postponed: Vec<String>,
}

/// True if trying again would not help.
const fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Refused)
}

impl Api {
    /// What one frame of a client says.
    pub(crate) async fn take_submissions(&self, frame: wire::SubmitFrame) -> Answer<NotTaken> {
        let lowest = rpc::convert::optional(&frame.lowest_unacknowledged, str::parse)?;
        self.acknowledge_ends(ids(&frame.acknowledged)?, lowest).await?;
        let mut not_taken = NotTaken::default();
        if frame.jobs.len() > 1 {
            match self.take_all(frame.jobs.clone()).await {
                // One of them is to blame for all, or there is room for some; those that can be taken are.
                Err(error) if error.kind == ErrorKind::Throttled || is_final(error.kind) => {}
                taken => return taken.map(|()| not_taken),
            }
        }
        let mut jobs = frame.jobs.into_iter();
        while let Some(job) = jobs.next() {
            let id = job.id.clone();
            match self.take_all(vec![job]).await {
                Err(error) if is_final(error.kind) => {
                    not_taken.refused.push(wire::Refusal { id, error: error.message });
                }
                Err(error) if error.kind == ErrorKind::Throttled => {
                    // Those after it must not overtake it.
                    self.note_no_room(1 + jobs.len(), &error);
                    not_taken.postponed = iter::once(id).chain(jobs.by_ref().map(|job| job.id)).collect();
                }
                taken => taken?,
            }
        }
        Ok(not_taken)
    }

    /// So many jobs were not taken for this reason, which is that there is no room.
    pub(super) fn note_no_room(&self, jobs: usize, why: &ApiError) {
        self.metrics.muster.postponed.inc_by(jobs as u64);
        if self.no_room.is_news(self.clock.monotonic()) {
            warn!(reason = %why, "volatile jobs are not taken for lack of room");
        }
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
        status.double_starts = inheritance.double_starts + self.metrics.muster.late_double_starts();
        let usage = self.store.usage();
        (status.bytes, status.bytes_max) = (usage.bytes, usage.bytes_max);
        Ok(status)
    }
}
