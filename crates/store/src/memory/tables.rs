//! The state of the memory store: rows, indexes, remembered requests, known workers. The verbs are in the files beside
//! this one, each told the time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Ending, Fence, Hold, Job, JobId, LeaseTime, QueueName, QueueSettings, RegistryId, RetryPolicy, State,
    WallTime, WorkerKey,
};

use super::clock::{Now, lease_time};
use super::index::Index;
use super::inherited::Inherited;
use super::mutation::Mutation;
use super::registries::Registries;
use super::requests::Requests;
use super::workers::Workers;

/// Everything the store knows.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) jobs: BTreeMap<JobId, Box<Row>>,
    pub(super) index: Index,
    pub(super) requests: Requests,
    pub(super) workers: Workers,
    /// Whose workers there are; nothing is known of them in a store for one server.
    pub(super) registries: Option<Registries>,
    /// What workers and clients say of former lives of the server; `None` unless the store is volatile.
    pub(super) inherited: Option<Box<Inherited>>,
    mutation: Option<Mutation>,
    /// The attempt of each claim, kept only for [`Mutation::AttemptComparedInsteadOfFence`].
    minted: BTreeMap<Hold, u32>,
}

/// A job and what the store adds to it.
pub(super) struct Row {
    pub(super) job: Job,
    /// Its place among the priorities of its queue.
    pub(super) lane: Reverse<i16>,
    /// The unique key outlives the job's life and is free only when retention removes the row.
    pub(super) retains_key: bool,
    /// The lease granted last.
    pub(super) granted: Duration,
    /// It is running, by an exclusive claim.
    pub(super) exclusive: bool,
    /// It is running, by a holder in this registry.
    pub(super) registry: Option<RegistryId>,
    /// Another server took its holder over while it ran, and it was not renewed since.
    pub(super) adopted: bool,
    /// The last claim that ended without its holder's report: as lost, or handed back.
    pub(super) taken: Option<(WorkerKey, Fence)>,
    /// Whose report was the last that was accepted.
    pub(super) reporter: Option<WorkerKey>,
    /// The first fence that was minted for it here.
    pub(super) first: Fence,
}

/// Where a job goes when its attempt ends.
#[derive(Clone, Copy)]
pub(super) enum Next {
    Completed,
    Offered(Ending),
}

impl Tables {
    /// Those of a store for one server.
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Tables { mutation, ..Tables::default() }
    }

    /// Those of a store for several.
    pub(super) fn shared(mutation: Option<Mutation>) -> Self {
        Tables { registries: Some(Registries::default()), ..Tables::new(mutation) }
    }

    /// Those of a store for volatile queues.
    pub(super) fn volatile(mutation: Option<Mutation>) -> Self {
        let mut tables = Tables::new(mutation);
        tables.inherited = Some(Box::new(Inherited::new(mutation)));
        tables.index.first_settings = volatile_settings(QueueSettings::default());
        tables
    }

    /// Changes a row, keeps every index in step, and shows the job as it is now.
    pub(super) fn change(&mut self, id: JobId, edit: impl FnOnce(&mut Row)) -> &Job {
        let row = self.jobs.get_mut(&id).expect("only jobs that were found are changed");
        self.index.unlink(row);
        let before = row.job.state;
        edit(row);
        self.index.link(row);
        let legal = before == row.job.state || before.may_become(row.job.state);
        debug_assert!(legal || self.mutation.is_some(), "{before:?} must not become {:?}", row.job.state);
        let sound = !row.exclusive || row.job.state == State::Running;
        debug_assert!(sound || self.mutation.is_some(), "only a running job is exclusive");
        if let Some(inherited) = &mut self.inherited
            && row.job.state.is_terminal()
            && !before.is_terminal()
            && !is_awaited(id)
        {
            let bytes = row.job.payload.len() + row.job.result.as_ref().map_or(0, Bytes::len);
            inherited.ended.push(id, bytes);
        }
        &row.job
    }

    /// Ends the running attempt of a job: nobody holds it any more, and it goes where `next` says.
    pub(super) fn release(&mut self, now: Now, id: JobId, next: Next, edit: impl FnOnce(&mut Row)) -> &Job {
        let heeds_cancel = match next {
            Next::Completed => !self.has(Mutation::CancelledRunningJobCompletes),
            Next::Offered(_) => !self.has(Mutation::CancelledLostJobComesBack),
        };
        let outlives = self.has(Mutation::ExclusiveOutlivesClaim);
        self.change(id, |row| {
            edit(row);
            let job = &mut row.job;
            job.holder = None;
            job.lease_until = None;
            row.exclusive &= outlives;
            row.registry = None;
            row.adopted = false;
            job.state = match next {
                _ if job.cancel_requested && heeds_cancel => State::Cancelled,
                Next::Completed => State::Completed,
                Next::Offered(Ending::Bury) => State::Dead,
                Next::Offered(Ending::Again) => State::Available,
                Next::Offered(Ending::Later(delay)) => {
                    job.run_at = now.wall + delay;
                    if job.run_at > now.wall { State::Scheduled } else { State::Available }
                }
            };
            job.finished_at = job.state.is_terminal().then_some(now.wall);
        })
    }

    /// Keeps what only a mutation wants to know.
    pub(super) fn note_claim(&mut self, hold: Hold, attempt: u32) {
        if self.has(Mutation::AttemptComparedInsteadOfFence) {
            self.minted.insert(hold, attempt);
        }
    }

    /// The guard of every write by a holder: running, and both holder and fence as they are now.
    pub(super) fn stands(&self, job: &Job, holder: &WorkerKey, hold: Hold) -> bool {
        let same_fence = match self.mutation {
            Some(Mutation::AttemptComparedInsteadOfFence) => self.minted.get(&hold) == Some(&job.attempt),
            _ => self.guard(Mutation::FenceNotCompared, job.fence == hold.fence),
        };
        let same_holder = self.guard(Mutation::HolderNotCompared, job.holder.as_ref() == Some(holder));
        job.state == State::Running && same_holder && same_fence
    }

    /// How often a job must be heard of: its own heartbeat timeout, else its queue's. It is also its lease.
    pub(super) fn heartbeat_timeout_of(&self, job: &Job) -> Option<Duration> {
        let queue = self.index.queues.get(&job.queue);
        job.heartbeat_timeout.or_else(|| queue?.settings.heartbeat_timeout)
    }

    /// Whether a queue is exclusive now.
    pub(super) fn is_exclusive_queue(&self, queue: &QueueName) -> bool {
        self.index.queues.get(queue).is_some_and(|queue| queue.settings.exclusive)
    }

    /// Whether the claim of a running job is exclusive.
    pub(super) fn is_exclusive(&self, row: &Row) -> bool {
        if self.has(Mutation::ExclusiveFollowsQueue) {
            self.is_exclusive_queue(&row.job.queue)
        } else {
            row.exclusive
        }
    }

    /// How a job comes back: its own policy, else its queue's, else the default.
    pub(super) fn policy_of(&self, job: &Job) -> RetryPolicy {
        let queue = self.index.queues.get(&job.queue);
        job.retry.or(queue.and_then(|queue| queue.settings.retry)).unwrap_or_default()
    }

    /// A rule, unless the mutation that breaks it is on.
    pub(super) fn guard(&self, mutation: Mutation, holds: bool) -> bool {
        holds || self.has(mutation)
    }

    /// True while this bug is switched on.
    pub(super) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The time of a verb, as the store without or with its mutation reads it.
    pub(super) fn reads(&self, now: Now) -> Now {
        if self.has(Mutation::LeaseFollowsWallClock) {
            Now { lease: lease_time(now.wall), ..now }
        } else {
            now
        }
    }
}

/// Settings as every queue of a volatile store has them, whatever is set.
pub(super) fn volatile_settings(settings: QueueSettings) -> QueueSettings {
    QueueSettings { volatile: true, exclusive: true, ..settings }
}

/// Whether somebody comes back for what became of this job.
fn is_awaited(id: JobId) -> bool {
    id.submission().is_some_and(|(client, _)| client.is_awaited())
}

/// True when a lease that ends at `until` is over.
pub(super) fn is_over(until: LeaseTime, now: Now) -> bool {
    until <= now.lease
}

/// How long until a date; zero if it has passed.
pub(super) fn due_in(run_at: WallTime, now: Now) -> Duration {
    run_at.since(now.wall)
}

/// How long until a job that just left its holder is due again, if it has to wait.
pub(super) fn due_again_in(job: &Job, now: Now) -> Option<Duration> {
    (job.state == State::Scheduled).then(|| due_in(job.run_at, now))
}
