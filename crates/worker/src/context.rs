//! What a handler knows about its job, and what it may say while it runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lease::ledger::{Grant, StopReason};
use model::{Clock, Fence, Hold, Invalid, JobId, Limits, WorkerKey};
use rpc::wire;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::CheckpointError;
use crate::home::{Home, JobEvent};

/// Handed to every handler. Clones are cheap and speak for the same attempt.
#[derive(Clone)]
pub struct JobContext {
    job: Arc<RunningJob>,
}

struct RunningJob {
    hold: Hold,
    timeout: Option<Duration>,
    heartbeat_timeout: Option<Duration>,
    is_exclusive: bool,
    /// Its payload is empty here: the handler got it.
    assignment: wire::Assignment,
    home: Arc<Home>,
    live: Mutex<Live>,
}

/// What changes while the handler runs. Locked for a few instructions at a time.
#[derive(Default)]
struct Live {
    stop: Option<StopReason>,
    /// Made for the first who asks: most handlers end before they could be told to stop.
    token: Option<CancellationToken>,
    /// The latest progress note that the session has not taken yet.
    note: Option<Bytes>,
    /// The session has not taken the last sign yet.
    has_beaten: bool,
}

impl JobContext {
    pub(crate) fn new(grant: &Grant, assignment: wire::Assignment, home: Arc<Home>) -> Self {
        JobContext {
            job: Arc::new(RunningJob {
                hold: grant.hold,
                timeout: grant.timeout,
                heartbeat_timeout: grant.heartbeat_timeout,
                is_exclusive: grant.exclusive,
                assignment,
                home,
                live: Mutex::default(),
            }),
        }
    }

    /// The job.
    pub fn job_id(&self) -> JobId {
        self.job.hold.job
    }

    /// The fence of this claim: give it to your own database to have it refuse what a stale holder writes.
    pub fn fence(&self) -> Fence {
        self.job.hold.fence
    }

    /// Whether its queue is exclusive: no other copy of the job runs now, and this handler must end, or is ended with its
    /// process, before the worker's lease is over.
    pub fn is_exclusive(&self) -> bool {
        self.job.is_exclusive
    }

    /// Which counted start this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.job.assignment.attempt
    }

    /// Counted starts before a failing job is buried.
    pub fn max_attempts(&self) -> u32 {
        self.job.assignment.max_attempts
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        &self.job.assignment.queue
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.job.assignment.kind
    }

    /// The payload's content type.
    pub fn content_type(&self) -> &str {
        &self.job.assignment.content_type
    }

    /// How long this worker is believed without a heartbeat of its own; it sends five in that time, whatever handlers do.
    pub fn lease(&self) -> Duration {
        self.job.home.lease()
    }

    /// How long this attempt may run.
    pub fn timeout(&self) -> Option<Duration> {
        self.job.timeout
    }

    /// How often this handler must call [`heartbeat`](Self::heartbeat) or [`progress`](Self::progress), if it must.
    pub fn heartbeat_timeout(&self) -> Option<Duration> {
        self.job.heartbeat_timeout
    }

    /// The checkpoint an earlier attempt saved last.
    pub fn checkpoint(&self) -> Option<Bytes> {
        self.job.assignment.checkpoint.clone()
    }

    /// The W3C trace context of the producer.
    pub fn traceparent(&self) -> Option<&str> {
        Some(self.job.assignment.traceparent.as_str()).filter(|text| !text.is_empty())
    }

    /// This worker's instance key at present. A worker whose lease lapsed goes on under another one.
    pub fn worker(&self) -> WorkerKey {
        self.job.home.key()
    }

    /// The servers as the worker was given them, comma-separated.
    pub fn servers(&self) -> &str {
        &self.job.home.servers
    }

    /// A client for the same servers, to enqueue follow-up jobs for instance.
    pub fn client(&self) -> &Client {
        &self.job.home.client
    }

    /// Waits until the handler should stop, for whatever [reason](Self::stop_reason).
    pub async fn cancelled(&self) {
        self.cancellation_token().cancelled().await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        let live = self.live();
        live.stop.is_some() || live.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Fires when the handler should stop; to be given to libraries that take a token.
    pub fn cancellation_token(&self) -> CancellationToken {
        let mut live = self.live();
        let (token, is_stopped) = (live.token.get_or_insert_default().clone(), live.stop.is_some());
        drop(live);
        if is_stopped {
            token.cancel();
        }
        token
    }

    /// Why the handler should stop.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.live().stop
    }

    /// Says that the handler gets on. Needed where the job, its queue or its kind has a heartbeat timeout: a handler that
    /// says nothing for that long counts as wedged. May be called as often as you like.
    pub fn heartbeat(&self) {
        // Only the first untaken sign makes an event, and only where somebody wants to know.
        if self.job.heartbeat_timeout.is_some() && !std::mem::replace(&mut self.live().has_beaten, true) {
            let _ = self.job.home.events.send(JobEvent::Beaten(self.job.hold));
        }
    }

    /// Notes progress, as JSON, for people to see. Counts as a [`heartbeat`](Self::heartbeat). Returns at once; when notes
    /// come faster than they can be sent, the latest one counts. A note that cannot be JSON or has more than 4 KiB is
    /// refused.
    pub fn progress(&self, note: impl Serialize) -> Result<(), Invalid> {
        let bytes_max = Limits::default().progress_bytes_max;
        let note = serde_json::to_vec(&note)
            .map_err(|error| Invalid::new(format!("progress note cannot be written as JSON: {error}")))?;
        if note.len() > bytes_max {
            return Err(Invalid::new(format!(
                "progress note has {} bytes; at most {bytes_max} are allowed",
                note.len()
            )));
        }
        // Only the first untaken note makes an event: the session then takes whatever is the latest.
        if self.live().note.replace(note.into()).is_none() {
            let _ = self.job.home.events.send(JobEvent::Noted(self.job.hold));
        }
        Ok(())
    }

    /// Saves a checkpoint for the next attempt, should this one not finish. Returns when the server has it on disk;
    /// [`CheckpointError::Lost`] means that the job is not ours any more.
    pub async fn save_checkpoint(&self, checkpoint: Bytes) -> Result<(), CheckpointError> {
        let RunningJob { hold, home, .. } = &*self.job;
        let note = wire::ProgressNote {
            job: hold.job.to_string(),
            fence: hold.fence.get(),
            note: None,
            checkpoint: Some(checkpoint),
        };
        loop {
            let worker = home.registered_key().await?;
            let request = wire::ProgressRequest { worker: worker.to_string(), notes: vec![note.clone()] };
            let answer = home.client.progress(request).await?;
            if answer.notes.iter().all(|note| note.accepted) {
                return Ok(());
            }
            // A refusal of a key that was replaced meanwhile says nothing about the job.
            if worker == home.key() {
                break;
            }
        }
        self.stop(StopReason::Lost);
        let _ = home.events.send(JobEvent::Lost(*hold));
        Err(CheckpointError::Lost)
    }

    /// Tells the handler to stop. A loss overrides an earlier reason.
    pub(crate) fn stop(&self, reason: StopReason) {
        let mut live = self.live();
        if live.stop.is_none() || reason == StopReason::Lost {
            live.stop = Some(reason);
        }
        let token = live.token.clone();
        drop(live);
        if let Some(token) = token {
            token.cancel();
        }
    }

    pub(crate) fn take_note(&self) -> Option<Bytes> {
        self.live().note.take()
    }

    /// Takes the sign that was given, so that the next one makes an event again.
    pub(crate) fn take_beat(&self) {
        self.live().has_beaten = false;
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.job.home.clock)
    }

    pub(crate) fn hold(&self) -> Hold {
        self.job.hold
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        // Nothing panics while it is locked, so a poisoned lock still guards whole values.
        self.job.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job_id", &self.job_id())
            .field("fence", &self.fence())
            .field("attempt", &self.attempt())
            .field("queue", &self.queue())
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::testing::context;

    #[tokio::test]
    async fn whoever_asked_before_hears_of_the_stop() {
        let context = context("welcome");
        let token = context.cancellation_token();
        assert!(!context.is_cancelled() && !token.is_cancelled());
        context.stop(StopReason::Cancelled);
        assert!(context.is_cancelled() && token.is_cancelled());
    }

    #[tokio::test]
    async fn the_first_who_asks_may_ask_after_the_stop() {
        let context = context("welcome");
        context.stop(StopReason::Cancelled);
        assert!(context.is_cancelled());
        assert_eq!(context.cancelled().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn a_library_that_cancels_the_token_is_heard() {
        let context = context("welcome");
        context.cancellation_token().cancel();
        assert!(context.is_cancelled());
        assert_eq!(context.stop_reason(), None, "it was not us");
    }
}
