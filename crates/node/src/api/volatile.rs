//! Volatile jobs: how they end, for clients that keep what they submitted, and how the muster stands.

use std::collections::BTreeMap;

use futures_util::{Stream, StreamExt as _, stream};
use model::{Hold, JobId, WorkerKey};
use rpc::{ApiError, lease_convert, wire};
use store::Alarm;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::jobs::IDS_MAX;
use super::{Answer, Api};
use crate::event::{Event, RollEvent};
use crate::volatile;

/// Ends in one frame at most, and bytes after which it is closed.
const FRAME_ENDS_MAX: usize = 1_000;
const FRAME_BYTES_MAX: usize = 4 << 20;

impl Api {
    /// What has ended and is not acknowledged, then everything as it ends. What falls in between is told twice.
    pub(crate) async fn ends(
        &self,
        request: wire::EndsRequest,
    ) -> Answer<impl Stream<Item = wire::EndsFrame> + use<>> {
        let id: JobId = request.client.parse()?;
        let Some((client, _)) = id.submission().filter(|(client, _)| client.is_awaited()) else {
            return Err(ApiError::invalid(format!(
                "{id} is not the id of a volatile job that its client numbered"
            )));
        };
        let events = self.ends.follow(client);
        let ended = self.store.ended_of(client).await?;
        // The first says who speaks, also when nothing has ended.
        let mut frames = vec![wire::EndsFrame { generation: self.generation, ends: Vec::new() }];
        let mut ended = ended.iter().map(volatile::end).peekable();
        while ended.peek().is_some() {
            frames.push(wire::EndsFrame { generation: 0, ends: frame_of(|| ended.next()) });
        }
        let changes = stream::unfold((events, self.closing.clone()), |(mut events, closing)| async move {
            let ends = tokio::select! {
                ends = next_ends(&mut events) => ends,
                () = closing.cancelled() => return None,
            };
            (!ends.is_empty()).then(|| (wire::EndsFrame { generation: 0, ends }, (events, closing)))
        });
        Ok(stream::iter(frames).chain(changes))
    }

    pub(crate) async fn acknowledge(
        &self,
        request: wire::AcknowledgeRequest,
    ) -> Answer<wire::AcknowledgeResponse> {
        if request.ids.len() > IDS_MAX {
            return Err(ApiError::invalid(format!(
                "{} ids in one call are too many; send at most {IDS_MAX} at a time",
                request.ids.len()
            )));
        }
        let ids = request.ids.iter().map(|id| id.parse()).collect::<Result<Vec<JobId>, _>>()?;
        let lowest = rpc::convert::optional(&request.lowest_unacknowledged, str::parse)?;
        self.acknowledge_ends(ids, lowest).await?;
        Ok(wire::AcknowledgeResponse { generation: self.generation })
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
                let forget = holds.into_iter().map(lease_convert::hold_to_wire).collect();
                session.offer(wire::ServerFrame { forget, ..Default::default() });
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
        let mut status = status.await.map_err(|_| {
            ApiError::new(model::ErrorKind::Unavailable, "the server is going away; ask again")
        })?;
        let inheritance = self.store.inheritance();
        status.unclaimed = inheritance.unclaimed;
        status.double_starts = inheritance.double_starts;
        Ok(status)
    }
}

/// The next ends, as many as there are; none when there will be no more.
async fn next_ends(events: &mut mpsc::Receiver<wire::End>) -> Vec<wire::End> {
    let mut first = events.recv().await;
    frame_of(|| first.take().or_else(|| events.try_recv().ok()))
}

/// What fits one frame.
fn frame_of(mut next: impl FnMut() -> Option<wire::End>) -> Vec<wire::End> {
    let (mut ends, mut bytes) = (Vec::new(), 0);
    while ends.len() < FRAME_ENDS_MAX
        && bytes < FRAME_BYTES_MAX
        && let Some(end) = next()
    {
        bytes += end.result.len() + end.error.len();
        ends.push(end);
    }
    ends
}
