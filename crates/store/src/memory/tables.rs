//! The state of the memory store: rows, indexes, remembered requests, known workers. The verbs are in the files beside
//! this one, each told the time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{Ending, Hold, Job, JobId, LeaseTime, QueueSettings, RetryPolicy, State, WallTime, WorkerKey};

use super::clock::{Now, lease_time};
use super::index::{Index, Queue};
use super::inherited::Inherited;
use super::jobs::Jobs;
use super::mutation::Mutation;
use super::registries::Registries;
use super::requests::Requests;
use super::room::PART;
use super::row::Row;
use super::workers::Workers;

/// Everything the store knows.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) jobs: Jobs,
    pub(super) index: Index,
    pub(super) requests: Requests,
    pub(super) workers: Workers,
    /// What the jobs take in memory.
    pub(super) bytes: usize,
    /// Whose workers there are; nothing is known of them in a store for one server.
    pub(super) registries: Option<Registries>,
    /// What workers and clients say of former lives of the server; `None` unless the store is volatile.
    pub(super) inherited: Option<Box<Inherited>>,
    mutation: Option<Mutation>,
    /// The attempt of each claim, kept only for [`Mutation::AttemptComparedInsteadOfFence`].
    minted: BTreeMap<Hold, u32>,
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

    /// Those of a store for volatile queues, whose jobs take so many bytes at most.
    pub(super) fn volatile(bytes_max: usize, mutation: Option<Mutation>) -> Self {
        let mut tables = Tables::new(mutation);
        tables.requests = Requests::new(bytes_max / PART);
        tables.inherited = Some(Box::new(Inherited::new(bytes_max, mutation)));
        tables.index.queues.first_settings = volatile_settings(QueueSettings::default());
        tables
    }

    /// Changes a row, keeps every index in step, and shows the row as it is now.
    pub(super) fn change(&mut self, id: JobId, edit: impl FnOnce(&mut Row)) -> &Row {
        let row = self.jobs.get_mut(id).expect("only jobs that were found are changed");
        self.index.unlink(row);
        let before = row.state;
        edit(row);
        // Errors and results come with the end of an attempt; progress is counted where it is noted.
        if before == State::Running {
            row.count_in(&mut self.bytes);
        }
        self.index.link(row);
        let legal = before == row.state || before.may_become(row.state);
        debug_assert!(legal || self.mutation.is_some(), "{before:?} must not become {:?}", row.state);
        let sound = !row.exclusive || row.state == State::Running;
        debug_assert!(sound || self.mutation.is_some(), "only a running job is exclusive");
        if let Some(inherited) = &mut self.inherited
            && row.state.is_terminal()
            && !before.is_terminal()
            && !is_awaited(id)
        {
            inherited.ended.push(id, row.payload.len() + row.result.as_ref().map_or(0, Bytes::len));
        }
        row
    }

    /// Ends the running attempt of a job: nobody holds it any more, and it goes where `next` says.
    pub(super) fn release(&mut self, now: Now, id: JobId, next: Next, edit: impl FnOnce(&mut Row)) -> &Row {
        let heeds_cancel = match next {
            Next::Completed => !self.has(Mutation::CancelledRunningJobCompletes),
            Next::Offered(_) => !self.has(Mutation::CancelledLostJobComesBack),
        };
        let outlives = self.has(Mutation::ExclusiveOutlivesClaim);
        self.change(id, |row| {
            edit(row);
            row.holder = None;
            row.lease_until = None;
            row.exclusive &= outlives;
            row.registry = None;
            row.adopted = false;
            row.state = match next {
                _ if row.cancel_requested && heeds_cancel => State::Cancelled,
                Next::Completed => State::Completed,
                Next::Offered(Ending::Bury) => State::Dead,
                Next::Offered(Ending::Again) => State::Available,
                Next::Offered(Ending::Later(delay)) => {
                    row.run_at = now.wall + delay;
                    if row.run_at > now.wall { State::Scheduled } else { State::Available }
                }
            };
            row.finished_at = row.state.is_terminal().then_some(now.wall);
        })
    }

    /// Keeps what only a mutation wants to know.
    pub(super) fn note_claim(&mut self, hold: Hold, attempt: u32) {
        if self.has(Mutation::AttemptComparedInsteadOfFence) {
            self.minted.insert(hold, attempt);
        }
    }

    /// The guard of every write by a holder: running, and both holder and fence as they are now.
    pub(super) fn stands(&self, row: &Row, holder: &WorkerKey, hold: Hold) -> bool {
        let same_fence = match self.mutation {
            Some(Mutation::AttemptComparedInsteadOfFence) => self.minted.get(&hold) == Some(&row.attempt),
            _ => self.guard(Mutation::FenceNotCompared, row.fence == hold.fence),
        };
        let same_holder = self.guard(Mutation::HolderNotCompared, row.holder.as_ref() == Some(holder));
        row.state == State::Running && same_holder && same_fence
    }

    /// The queue of a job.
    pub(super) fn queue_of(&self, row: &Row) -> &Queue {
        &self.index.queues[row.queue]
    }

    /// The job, as others see it.
    pub(super) fn shown(&self, row: &Row) -> Job {
        row.job(&self.queue_of(row).name)
    }

    /// How often a job must be heard of: its own heartbeat timeout, else its queue's. It is also its lease.
    pub(super) fn heartbeat_timeout_of(&self, row: &Row) -> Option<Duration> {
        row.rare().heartbeat_timeout.or(self.queue_of(row).settings.heartbeat_timeout)
    }

    /// Whether the claim of a running job is exclusive.
    pub(super) fn is_exclusive(&self, row: &Row) -> bool {
        if self.has(Mutation::ExclusiveFollowsQueue) {
            self.queue_of(row).settings.exclusive
        } else {
            row.exclusive
        }
    }

    /// How a job comes back: its own policy, else its queue's, else the default.
    pub(super) fn policy_of(&self, row: &Row) -> RetryPolicy {
        row.rare().retry.or(self.queue_of(row).settings.retry).unwrap_or_default()
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
pub(super) fn is_awaited(id: JobId) -> bool {
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
pub(super) fn due_again_in(row: &Row, now: Now) -> Option<Duration> {
    (row.state == State::Scheduled).then(|| due_in(row.run_at, now))
}
