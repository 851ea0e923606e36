//! The port itself: what a job store must do, as verbs over batches.
//!
//! Rules that hold for every verb:
//!
//! * A verb happens as a whole and durably before its answer, or not at all ([`StoreError`]).
//! * A refusal of one job is a value in the answer; the other jobs of the batch are not affected.
//! * The store stamps all times itself: leases and fences from its lease clock, dates from the wall clock.
//! * Answers are in the order of the input, one for each.
//! * A write by a holder needs the job to be running, the holder to match and the fence to match; nothing else is
//!   compared, and all three are.
//! * Several servers may use one store if it [is shared](JobStore::is_shared). Each has a registry of its own, and workers
//!   belong to one: a server that lost its registry can neither enlist nor judge anybody.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::{
    ClientId, Fence, Hold, HolderEnd, Job, JobId, Kind, LeaseTime, NewJob, Nonce, QueueName, QueuePatch,
    QueueSettings, RegistryId, Report, RequestId, State, WallTime, WorkerKey,
};

use crate::error::StoreError;
pub use crate::inheritance::{Alarm, Inheritance, Past, Usage};
pub use crate::page::Page;
pub use crate::retention::Retention;
pub use crate::servers::{News, Peer, ServerInfo};
pub use crate::to_stop::ToStop;

/// A durable home for jobs. See the module's rules.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// Inserts the jobs as available or scheduled. A request id seen in the last 24 h answers as the first time and
    /// changes nothing. A job whose id exists, or whose unique key is taken, is answered with the one already there.
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError>;

    /// Makes scheduled jobs whose time has come (by the wall clock) available, at most `limit`.
    async fn promote(&self, limit: usize) -> Result<Promoted, StoreError>;

    /// Takes up to `claim.limit` available jobs of the named queues for `claim.holder`: priority first, then time,
    /// then id. Stops early when they have `claim.bytes_max` bytes. Paused queues and terminal holders get nothing, and
    /// exclusive queues give only to a claim that says `exclusive`; what a claim of theirs is stays noted with the job
    /// until it ends, whatever the queue is set to meanwhile. Each claim has a new fence, attempt + 1 and a lease (the
    /// heartbeat timeout of the job, else of the queue, else `claim.lease`).
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError>;

    /// Extends the leases of the holds that still stand, each to now + its heartbeat timeout, or to now + `lease` where
    /// neither job nor queue has one.
    async fn renew(
        &self,
        holder: &WorkerKey,
        holds: Vec<Hold>,
        lease: Duration,
    ) -> Result<Vec<Renewed>, StoreError>;

    /// Ends attempts as their holder reports.
    async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError>;

    /// Keeps progress notes and checkpoints of holds that still stand; true for each that was accepted. Resets the
    /// job's count of losses.
    async fn progress(&self, holder: &WorkerKey, notes: Vec<Progress>) -> Result<Vec<bool>, StoreError>;

    /// The running jobs of this holder that it should stop: called off, or past the time limit of their attempt. By id. A read.
    async fn to_stop(&self, holder: &WorkerKey) -> Result<Vec<ToStop>, StoreError>;

    /// The running jobs whose lease is over, oldest first, at most `limit`: those whose holder is in this registry, and
    /// those whose holder is in none. A read.
    async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError>;

    /// Takes jobs back from silent holders, as lost. Only those whose holder, its registry, fence and lease are still as
    /// seen, and whose lease is over. Answers those that were taken back.
    async fn reap(&self, seen: Vec<Expired>) -> Result<Vec<Reaped>, StoreError>;

    /// Moves the leases of running jobs to now + `by`, but only those whose fence and lease are still as seen, and never
    /// to an earlier time. Answers how many were moved. It is no word of the holder: what our own restart might lose is
    /// not counted against the job after a push either.
    async fn push(&self, seen: Vec<Expired>, by: Duration) -> Result<u64, StoreError>;

    /// Makes workers known, or notes larger grants of known ones; nonce and name are as of the first time. A grant never
    /// gets smaller. A terminal key is answered as terminal, whoever asks.
    async fn enlist(&self, workers: Vec<Enlist>) -> Result<Vec<EnlistAnswer>, StoreError>;

    /// The workers of this registry that are not terminal, by key, those that only ping included.
    async fn roster(&self, registry: RegistryId) -> Result<Vec<Enlist>, StoreError>;

    /// One worker that was enlisted or retired, and how it ended if it did.
    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError>;

    /// Declares the holder terminal, durably: it cannot claim again. Idempotent: the first end stays. It is remembered for
    /// [`Retention::WORKERS`], and for as long as it holds anything. False, and nothing happens, if it is in another registry
    /// than `by`, or if `by` is not there any more. One that was in none is in `by` from then on.
    async fn retire(&self, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> Result<bool, StoreError>;

    /// Lets a pinging holder of this registry that was declared terminal for its silence start over. What it held stays
    /// lost: nothing happens while it still holds something, nor to others.
    async fn readmit(&self, holder: &WorkerKey, registry: RegistryId) -> Result<(), StoreError>;

    /// Moves holds from a worker whose lease lapsed on its own side to its successor, and declares the former one
    /// terminal, together. Only holds of the former that still stand, and none at all if the former is terminal already
    /// or the successor is; both must be enlisted, in the same registry. Fences and leases stay as they are. True for each that the successor
    /// has now, so that a repeat answers as the first time.
    async fn succeed(
        &self,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: Vec<Hold>,
    ) -> Result<Vec<bool>, StoreError>;

    /// Takes back everything a terminal holder still holds, whatever the leases say; a holder that is not terminal
    /// loses nothing. `counted` says whether the losses count against the jobs.
    async fn reap_holder(&self, holder: &WorkerKey, counted: bool) -> Result<Vec<Reaped>, StoreError>;

    /// Gives every running job whose holder is in this registry, or in none, this much more lease: time during which we
    /// ourselves were not listening.
    async fn extend_leases(&self, registry: RegistryId, by: Duration) -> Result<u64, StoreError>;

    /// Calls jobs off: waiting ones at once, running ones by asking their holder.
    async fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelled>, StoreError>;

    /// Offers dead or cancelled jobs again: attempt and losses start over, the fence goes on. At most `limit`, by
    /// id, when selected by filter; answers one entry for each job looked at.
    async fn redrive(&self, selection: Selection, limit: usize)
    -> Result<Vec<(JobId, Redriven)>, StoreError>;

    /// Removes finished jobs, terminal workers and remembered request ids that are past retention, at most `limit` of
    /// each. Answers how many rows went; fewer than `limit` means none are left.
    async fn purge(&self, retention: Retention, limit: usize) -> Result<u64, StoreError>;

    /// Changes a queue's settings, creating it if it has none, and answers all its settings.
    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError>;

    /// One job.
    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Jobs that match, newest id first. Reads no more than fit the page.
    async fn list(&self, filter: JobFilter, page: Page) -> Result<Vec<Job>, StoreError>;

    /// All queues, by name, with settings and counts. Must not cost more with a larger backlog.
    async fn stats(&self) -> Result<Vec<QueueStats>, StoreError>;

    /// All queues, by name, with their settings alone: what a server must know before it serves, whatever counting costs.
    async fn queue_settings(&self) -> Result<Vec<(QueueName, QueueSettings)>, StoreError> {
        let stats = self.stats().await?;
        Ok(stats.into_iter().map(|stats| (stats.queue, stats.settings)).collect())
    }

    /// When the next duties are due, from now; leases as in [`expired`](Self::expired).
    async fn deadlines(&self, registry: RegistryId) -> Result<Deadlines, StoreError>;

    /// Proves that the store can commit a write now.
    async fn check(&self) -> Result<(), StoreError>;

    // What follows is about volatile queues. A store that has none keeps to what is written here.

    /// Whether this queue's jobs are kept in memory alone. Their ids are those of [`ClientId::job`](model::ClientId::job), and
    /// no other job has such an id.
    fn is_volatile(&self, _queue: &QueueName) -> bool {
        false
    }

    /// Whether there is such a queue.
    fn has_volatile(&self) -> bool {
        false
    }

    /// Whether what it says of workers survives a restart of the server.
    fn is_durable(&self) -> bool {
        true
    }

    /// A client knows how these of its jobs ended, and how all below `lowest` did, its oldest submission that it still waits
    /// for. From now on ids below it are refused, never run; those above it are remembered. Answers whose results need not be kept for it any
    /// longer: who reported them, and under which claim.
    async fn acknowledge(
        &self,
        _ids: Vec<JobId>,
        _lowest: Option<JobId>,
    ) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        Ok(Vec::new())
    }

    /// What a client that comes back must be told.
    async fn past_of(&self, _client: ClientId) -> Result<Past, StoreError> {
        Ok(Past::default())
    }

    /// What volatile jobs take in memory. An enqueue that does not fit is [refused](StoreError::Full); what is here is not touched.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    /// What former lives of the server left behind, as its workers tell it.
    fn inheritance(&self) -> Inheritance {
        Inheritance::default()
    }

    /// The double starts that were noticed since this was last asked, for the log. At most a thousand are kept; all are counted.
    fn take_alarms(&self) -> Vec<Alarm> {
        Vec::new()
    }

    // What follows is about several servers on one store. A store for one server alone keeps to what is written here: it has
    // one registry, always the same, which nobody else can take and no news from anybody.

    /// Whether several servers may use it at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Makes a registry for a server that starts. Its id was never used before, and never will be again: it is its own epoch.
    async fn found(&self, _server: ServerInfo) -> Result<RegistryId, StoreError> {
        Ok(RegistryId::ONLY)
    }

    /// Commits one more beat of this registry, and answers all registries there are, by id. `None` if it is not there any
    /// more: someone took it over.
    async fn beat(&self, _registry: RegistryId) -> Result<Option<Vec<Peer>>, StoreError> {
        Ok(Some(Vec::new()))
    }

    /// Moves everyone who is in registry `from` to `by`, ends `from`, and answers those of them who are not terminal, as
    /// [`roster`](Self::roster) does, all in one. What our own restart might lose of their jobs is not counted against the
    /// jobs. `None`, and nothing happens, if `from` has beaten since it was seen, if either is not there any more, or if they
    /// are the same.
    async fn take_over(
        &self,
        _from: RegistryId,
        _beats_seen: u64,
        _by: RegistryId,
    ) -> Result<Option<Vec<Enlist>>, StoreError> {
        Ok(None)
    }

    /// The running jobs that were called off and whose holder is in this registry, or in none, with their holders, by id. For a server
    /// that may have missed [`News::CancelAsked`]; on a store of its own it never does.
    async fn called_off(&self, _registry: RegistryId) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        Ok(Vec::new())
    }

    /// The holders of this registry that are terminal and still hold something, by key, and how each ended: who declared
    /// them so was gone before it came to [`reap_holder`](Self::reap_holder). A read.
    async fn unreaped(&self, _registry: RegistryId) -> Result<Vec<(WorkerKey, HolderEnd)>, StoreError> {
        Ok(Vec::new())
    }

    /// The server of this registry goes: others may take it over at once.
    async fn resign(&self, _registry: RegistryId) -> Result<(), StoreError> {
        Ok(())
    }

    /// Tells other servers, soon, together with what else there is to tell, and without promise that they hear it.
    fn tell(&self, _news: News) {}

    /// Waits for the next news from others. Nothing is lost when the future is dropped. One caller at a time.
    async fn next_news(&self) -> News {
        std::future::pending().await
    }
}

/// Jobs to enqueue together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnqueueBatch {
    /// Makes a repeat a no-op.
    pub request_id: Option<RequestId>,
    /// The jobs.
    pub jobs: Vec<NewJob>,
}

/// What became of an enqueue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnqueueAnswer {
    /// One entry for each job, in order.
    pub jobs: Vec<Enqueued>,
    /// This request id was answered before; nothing was inserted now.
    pub repeated: bool,
    /// Queues that have new available jobs because of this call.
    pub ready: Vec<QueueName>,
    /// How soon the earliest job scheduled by this call is due.
    pub next_run_in: Option<Duration>,
    /// Jobs that have ended already: a volatile one whose result was here before it.
    pub ended: Vec<JobId>,
}

/// What became of one job of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The job: the new one, or the one that was already there.
    pub id: JobId,
    /// The id or the unique key was taken by this job; nothing was inserted.
    pub duplicate: bool,
}

/// What a promotion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// The jobs that became available, by the time they were due, then id.
    pub jobs: Vec<JobId>,
    /// The queues they are in.
    pub ready: Vec<QueueName>,
}

/// A wish for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who will hold the jobs.
    pub holder: WorkerKey,
    /// Where to take them from; never empty.
    pub queues: Vec<QueueName>,
    /// At most this many.
    pub limit: usize,
    /// Stop after the job with which payloads and checkpoints together reach this many bytes; the first job is always
    /// taken.
    pub bytes_max: usize,
    /// The lease where neither job nor queue has a heartbeat timeout.
    pub lease: Duration,
    /// The holder can stop a job for certain: exclusive queues give to it. To others they give nothing.
    pub exclusive: bool,
}

/// A job just claimed: all a worker needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The claim.
    pub hold: Hold,
    /// The queue it came from.
    pub queue: QueueName,
    /// What sort of work it is.
    pub kind: Kind,
    /// The work.
    pub payload: Bytes,
    /// Media type of the payload.
    pub content_type: Cow<'static, str>,
    /// Its priority.
    pub priority: i16,
    /// Counted starts, this one included.
    pub attempt: u32,
    /// Counted starts before a failing job is buried.
    pub max_attempts: u32,
    /// The lease granted.
    pub lease: Duration,
    /// The heartbeat timeout of the job, else of its queue.
    pub heartbeat_timeout: Option<Duration>,
    /// Time limit of this attempt.
    pub timeout: Option<Duration>,
    /// The latest checkpoint of an earlier attempt.
    pub checkpoint: Option<Bytes>,
    /// W3C trace context of the producer.
    pub traceparent: Option<String>,
    /// Its queue was exclusive when it was claimed.
    pub exclusive: bool,
    /// How long the job was ready before this claim, by the wall clock.
    pub waited: Duration,
}

impl Claimed {
    /// What it counts towards [`Claim::bytes_max`].
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.checkpoint.as_ref().map_or(0, Bytes::len)
    }
}

/// The answer to one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The hold stands for this much longer.
    Held {
        /// The lease granted now.
        lease: Duration,
        /// The job was cancelled: stop it and report.
        cancel: bool,
        /// The claim is exclusive.
        exclusive: bool,
    },
    /// The hold is gone: stop working on it.
    Lost,
}

/// The answer to one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Accepted; the job is now in this state.
    Done {
        /// The state it went to.
        state: State,
        /// The queue it is in.
        queue: QueueName,
        /// How soon it is due again, if scheduled.
        due_in: Option<Duration>,
        /// How long the attempt ran, by the wall clock.
        ran: Duration,
    },
    /// This very report was accepted before.
    AlreadyDone,
    /// Refused: someone else holds the job now, or nobody does. Nothing was changed.
    Stale {
        /// The job's current fence.
        current: Fence,
    },
    /// Refused: there is no such job.
    Unknown,
}

/// A progress note or checkpoint, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The claim.
    pub hold: Hold,
    /// Replaces the progress note.
    pub note: Option<Bytes>,
    /// Replaces the checkpoint.
    pub checkpoint: Option<Bytes>,
}

/// A running job whose lease was over when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The claim.
    pub hold: Hold,
    /// Who held it.
    pub holder: WorkerKey,
    /// The registry the holder is in; `None` for one that was neither enlisted nor retired.
    pub registry: Option<RegistryId>,
    /// The job has a heartbeat timeout of its own or of its queue: a live worker is not enough.
    pub beats_itself: bool,
    /// The claim is exclusive.
    pub exclusive: bool,
    /// The time limit of the attempt is over.
    pub timed_out: bool,
    /// The lease as it was seen.
    pub lease_until: LeaseTime,
}

/// A worker as the registry makes it durable before it answers its first heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enlist {
    /// Its instance key.
    pub key: WorkerKey,
    /// Which process uses the key.
    pub nonce: Nonce,
    /// Who judges it.
    pub registry: RegistryId,
    /// It only pings, and has no lease.
    pub pings: bool,
    /// The largest lease it was ever granted.
    pub grant: Duration,
    /// Its name for people.
    pub name: String,
}

/// What became of one enlisting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnlistAnswer {
    /// It is durable.
    Known,
    /// Refused: the key is terminal.
    Terminal(HolderEnd),
    /// Refused: another process has the key, or one that pings has it and the other does not.
    Taken,
    /// Refused: it is in this other registry.
    Elsewhere(RegistryId),
    /// Refused: the registry that asks is not there any more.
    Disowned,
}

/// A worker as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorker {
    /// As it was enlisted; only its key and the registry that retired it mean something if it never was.
    pub worker: Enlist,
    /// How and when it ended.
    pub ended: Option<(HolderEnd, WallTime)>,
}

/// A job taken back from its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The claim that ended.
    pub hold: Hold,
    /// Who held it.
    pub holder: WorkerKey,
    /// The queue it is in.
    pub queue: QueueName,
    /// Where it went: available, scheduled, dead or cancelled.
    pub state: State,
    /// How soon it is due again, if scheduled.
    pub due_in: Option<Duration>,
    /// How long its lease was over when it was taken back.
    pub late: Duration,
    /// The claim was exclusive.
    pub exclusive: bool,
}

/// What became of one cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting; it is cancelled now.
    Now,
    /// It is running: this holder is to be told.
    Asked {
        /// The claim to stop.
        hold: Hold,
        /// Who holds it.
        holder: WorkerKey,
    },
    /// It had ended already, in this state.
    AlreadyEnded(State),
    /// There is no such job.
    Unknown,
}

/// What became of one re-drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// Available again, in this queue.
    Again(QueueName),
    /// Refused: its unique key is taken by another job now.
    KeyTaken,
    /// Refused: it is in this state, neither dead nor cancelled.
    NotEnded(State),
    /// There is no such job.
    Unknown,
}

/// Which jobs to re-drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These.
    Ids(Vec<JobId>),
    /// All that match, oldest id first. Those that stay as they are, because their unique key is taken, match again: to
    /// get past them, call again with the last id answered.
    Filter {
        /// What they have in common.
        filter: JobFilter,
        /// Only ids above this one.
        after: Option<JobId>,
    },
}

/// Which jobs to list. Empty fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this queue.
    pub queue: Option<QueueName>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// In one of these states; empty means any.
    pub states: Vec<State>,
}

/// One queue at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Its name.
    pub queue: QueueName,
    /// Its settings.
    pub settings: QueueSettings,
    /// How many jobs it has in each state, by the state's number.
    pub counts: [u64; 6],
    /// How long its oldest available job has been ready, by the wall clock.
    pub oldest: Option<Duration>,
}

/// When duties are due, from now; `None` when there is nothing of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// The next scheduled job.
    pub next_run_in: Option<Duration>,
    /// The next lease that runs out.
    pub next_lease_in: Option<Duration>,
    /// The longest lease any running job has.
    pub longest_lease: Option<Duration>,
}
