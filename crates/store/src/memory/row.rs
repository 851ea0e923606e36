//! A job as the memory store keeps it. There may be millions: what few jobs have is apart.

use std::borrow::Cow;
use std::mem::take;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Fence, Job, JobId, Kind, LeaseTime, Limits, NewJob, QueueName, RegistryId, RetryPolicy, State, UniqueKey,
    UniqueScope, WallTime, When, WorkerKey,
};

/// A job and what the store adds to it. What is not explained here is as in [`Job`].
pub(super) struct Row {
    pub(super) id: JobId,
    /// The number of its queue.
    pub(super) queue: u32,
    pub(super) priority: i16,
    /// Its place among the priorities of its queue.
    pub(super) lane: i16,
    pub(super) state: State,
    pub(super) cancel_requested: bool,
    /// The unique key outlives the job's life and is free only when retention removes the row.
    pub(super) retains_key: bool,
    /// It is running, by an exclusive claim.
    pub(super) exclusive: bool,
    /// Another server took its holder over while it ran, and it was not renewed since.
    pub(super) adopted: bool,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) lost: u32,
    pub(super) max_lost: u32,
    pub(super) run_at: WallTime,
    pub(super) enqueued_at: WallTime,
    pub(super) started_at: Option<WallTime>,
    pub(super) finished_at: Option<WallTime>,
    pub(super) fence: Fence,
    pub(super) reported_fence: Fence,
    /// The first fence that was minted for it here.
    pub(super) first: Fence,
    pub(super) lease_until: Option<LeaseTime>,
    /// The lease granted last.
    pub(super) granted: Duration,
    pub(super) holder: Option<WorkerKey>,
    /// Whose report was the last that was accepted.
    pub(super) reporter: Option<WorkerKey>,
    /// It is running, by a holder in this registry.
    pub(super) registry: Option<RegistryId>,
    pub(super) kind: Kind,
    pub(super) payload: Bytes,
    pub(super) result: Option<Bytes>,
    /// The bytes that it is counted with.
    counted: u32,
    rare: Option<Box<Rare>>,
}

/// What a job takes in memory beside what it carries: its row, and its places in the indexes. Measured with a million of them
/// (`cargo run --release -p store --example memory_room`).
const ROW_BYTES: usize = size_of::<Row>() + 64;

/// What few jobs have.
#[derive(Default)]
pub(super) struct Rare {
    /// If it is not the default.
    content_type: Option<Cow<'static, str>>,
    pub(super) heartbeat_timeout: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) unique_key: Option<UniqueKey>,
    pub(super) unique_scope: UniqueScope,
    pub(super) traceparent: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) progress: Option<Bytes>,
    pub(super) checkpoint: Option<Bytes>,
    /// The last claim that ended without its holder's report: as lost, or handed back.
    pub(super) taken: Option<(WorkerKey, Fence)>,
}

/// Of a job that has nothing rare.
static NOTHING: Rare = Rare {
    content_type: None,
    heartbeat_timeout: None,
    timeout: None,
    retry: None,
    unique_key: None,
    unique_scope: UniqueScope::Live,
    traceparent: None,
    last_error: None,
    progress: None,
    checkpoint: None,
    taken: None,
};

impl Rare {
    fn bytes(&self) -> usize {
        let texts =
            [&self.traceparent, &self.last_error].into_iter().flatten().map(String::len).sum::<usize>();
        let notes = [&self.progress, &self.checkpoint].into_iter().flatten().map(Bytes::len).sum::<usize>();
        size_of::<Self>() + texts + notes
    }
}

impl Row {
    /// A job that was just submitted, into the queue with this number. Takes what is kept.
    #[inline]
    pub(super) fn new(now: WallTime, new: &mut NewJob, queue: u32, max_attempts: u32) -> Self {
        let run_at = match new.when {
            When::Now => now,
            When::After(delay) => now + delay,
            // A past date is kept, so that jobs that should have run earlier are claimed earlier.
            When::At(date) => date,
        };
        let is_plain = new.content_type == NewJob::CONTENT_TYPE_DEFAULT
            && new.heartbeat_timeout.is_none()
            && new.timeout.is_none()
            && new.retry.is_none()
            && new.unique_key.is_none()
            && new.unique_scope == UniqueScope::Live
            && new.traceparent.is_none();
        let rare = (!is_plain).then(|| {
            Box::new(Rare {
                content_type: Some(take(&mut new.content_type))
                    .filter(|named| named != NewJob::CONTENT_TYPE_DEFAULT),
                heartbeat_timeout: new.heartbeat_timeout,
                timeout: new.timeout,
                retry: new.retry,
                unique_key: new.unique_key.take(),
                unique_scope: new.unique_scope,
                traceparent: new.traceparent.take(),
                ..Rare::default()
            })
        });
        Row {
            id: new.id,
            queue,
            priority: new.priority,
            lane: new.priority,
            state: if run_at > now { State::Scheduled } else { State::Available },
            cancel_requested: false,
            retains_key: new.unique_scope == UniqueScope::Retained,
            exclusive: false,
            adopted: false,
            attempt: 0,
            max_attempts,
            lost: 0,
            max_lost: new.max_lost.unwrap_or(Limits::LOST_DEFAULT),
            run_at,
            enqueued_at: now,
            started_at: None,
            finished_at: None,
            fence: Fence::NONE,
            reported_fence: Fence::NONE,
            first: Fence::NONE,
            lease_until: None,
            granted: Duration::ZERO,
            holder: None,
            reporter: None,
            registry: None,
            kind: new.kind.clone(),
            payload: take(&mut new.payload),
            result: None,
            counted: 0,
            rare,
        }
    }

    /// What a job that is to come will take, or a little more than it.
    pub(super) fn bytes_of(new: &NewJob) -> usize {
        ROW_BYTES + new.payload.len()
    }

    /// Counts the row as it is now in `total`, whatever it was counted with before.
    #[inline]
    pub(super) fn count_in(&mut self, total: &mut usize) {
        let rare = self.rare.as_ref().map_or(0, |rare| rare.bytes());
        let bytes = ROW_BYTES + self.payload.len() + self.result.as_ref().map_or(0, Bytes::len) + rare;
        *total = *total - self.counted as usize + bytes;
        // No message is as large as that.
        self.counted = u32::try_from(bytes).expect("a job has less than 4 GiB");
    }

    /// Counts the row in `total` no longer.
    pub(super) fn count_out(&self, total: &mut usize) {
        *total -= self.counted as usize;
    }

    /// What few jobs have, to be changed.
    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// What few jobs have.
    pub(super) fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    pub(super) fn content_type(&self) -> Cow<'static, str> {
        self.rare().content_type.clone().unwrap_or(Cow::Borrowed(NewJob::CONTENT_TYPE_DEFAULT))
    }

    /// The job, as others see it.
    pub(super) fn job(&self, queue: &QueueName) -> Job {
        let rare = self.rare();
        Job {
            id: self.id,
            queue: queue.clone(),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            content_type: self.content_type(),
            priority: self.priority,
            state: self.state,
            run_at: self.run_at,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            lost: self.lost,
            max_lost: self.max_lost,
            fence: self.fence,
            holder: self.holder.clone(),
            lease_until: self.lease_until,
            cancel_requested: self.cancel_requested,
            heartbeat_timeout: rare.heartbeat_timeout,
            timeout: rare.timeout,
            retry: rare.retry,
            unique_key: rare.unique_key.clone(),
            unique_scope: rare.unique_scope,
            reported_fence: self.reported_fence,
            enqueued_at: self.enqueued_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            last_error: rare.last_error.clone(),
            progress: rare.progress.clone(),
            checkpoint: rare.checkpoint.clone(),
            result: self.result.clone(),
            traceparent: rare.traceparent.clone(),
        }
    }
}
