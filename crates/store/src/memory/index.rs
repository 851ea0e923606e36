//! Ways to find jobs without looking at all of them. A row is unlinked before it changes and linked again after, so
//! every index follows from the row alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{JobId, LeaseTime, QueueName, QueueSettings, RegistryId, State, UniqueKey, WallTime, WorkerKey};

use super::tables::Row;

/// A place in the order of claims: priority first, then time, then id.
pub(super) type Ticket = (Reverse<i16>, WallTime, JobId);

/// Everything that can be found by something other than its id.
#[derive(Default)]
pub(super) struct Index {
    /// All queues, by name.
    pub(super) queues: BTreeMap<QueueName, Queue>,
    /// Those of a queue that has none of its own.
    pub(super) first_settings: QueueSettings,
    /// Scheduled jobs by the time they are due.
    pub(super) scheduled: BTreeSet<(WallTime, JobId)>,
    /// The leases of running jobs, by the registry their holder is in.
    pub(super) leases: BTreeMap<Option<RegistryId>, Leases>,
    /// Running jobs by holder; a holder without jobs has no entry.
    pub(super) held: BTreeMap<WorkerKey, BTreeSet<JobId>>,
    /// Completed and cancelled jobs by the time they ended.
    pub(super) finished: BTreeSet<(WallTime, JobId)>,
    /// Dead jobs by the time they ended.
    pub(super) buried: BTreeSet<(WallTime, JobId)>,
}

/// Leases of running jobs.
#[derive(Default)]
pub(super) struct Leases {
    /// By their end.
    pub(super) ends: BTreeSet<(LeaseTime, JobId)>,
    /// How many were granted with this length.
    pub(super) lengths: BTreeMap<Duration, usize>,
}

/// One queue: its settings and what is in it.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) settings: QueueSettings,
    /// Jobs in each state, by the state's number.
    pub(super) counts: [u64; 6],
    /// Available jobs, a lane for each priority; a lane is never empty.
    lanes: BTreeMap<Reverse<i16>, BTreeSet<(WallTime, JobId)>>,
    /// Who has which unique key.
    keys: BTreeMap<UniqueKey, JobId>,
}

impl Index {
    /// Enters the row everywhere it belongs, creating its queue if it is the first.
    pub(super) fn link(&mut self, row: &Row) {
        let job = &row.job;
        if !self.queues.contains_key(&job.queue) {
            let queue = Queue { settings: self.first_settings.clone(), ..Queue::default() };
            self.queues.insert(job.queue.clone(), queue);
        }
        let queue = self.queues.get_mut(&job.queue).expect("it was created if it was missing");
        queue.counts[job.state as usize] += 1;
        if let Some(key) = &job.unique_key
            && (row.retains_key || !job.state.is_terminal())
        {
            queue.keys.insert(key.clone(), job.id);
        }
        match job.state {
            State::Scheduled => {
                self.scheduled.insert((job.run_at, job.id));
            }
            State::Available => {
                queue.lanes.entry(row.lane).or_default().insert((job.run_at, job.id));
            }
            State::Running => {
                let (holder, lease_until) = running(row);
                let leases = self.leases.entry(row.registry).or_default();
                leases.ends.insert((lease_until, job.id));
                *leases.lengths.entry(row.granted).or_default() += 1;
                match self.held.get_mut(holder) {
                    Some(jobs) => jobs.insert(job.id),
                    None => self.held.entry(holder.clone()).or_default().insert(job.id),
                };
            }
            State::Completed | State::Cancelled => {
                self.finished.insert((ended(row), job.id));
            }
            State::Dead => {
                self.buried.insert((ended(row), job.id));
            }
        }
    }

    /// Removes the row from everywhere it is entered.
    pub(super) fn unlink(&mut self, row: &Row) {
        let job = &row.job;
        let queue = self.queues.get_mut(&job.queue).expect("a linked job has a queue");
        queue.counts[job.state as usize] -= 1;
        if let Some(key) = &job.unique_key
            && queue.keys.get(key) == Some(&job.id)
        {
            queue.keys.remove(key);
        }
        match job.state {
            State::Scheduled => {
                self.scheduled.remove(&(job.run_at, job.id));
            }
            State::Available => {
                let lane = queue.lanes.get_mut(&row.lane).expect("an available job has a lane");
                lane.remove(&(job.run_at, job.id));
                if lane.is_empty() {
                    queue.lanes.remove(&row.lane);
                }
            }
            State::Running => {
                let (holder, lease_until) = running(row);
                let leases = self.leases.get_mut(&row.registry).expect("a running job's lease is entered");
                leases.ends.remove(&(lease_until, job.id));
                let alike = leases.lengths.get_mut(&row.granted).expect("a running job's lease is counted");
                *alike -= 1;
                if *alike == 0 {
                    leases.lengths.remove(&row.granted);
                }
                let jobs = self.held.get_mut(holder).expect("a running job is entered under its holder");
                jobs.remove(&job.id);
                if jobs.is_empty() {
                    self.held.remove(holder);
                }
            }
            State::Completed | State::Cancelled => {
                self.finished.remove(&(ended(row), job.id));
            }
            State::Dead => {
                self.buried.remove(&(ended(row), job.id));
            }
        }
    }
}

impl Queue {
    /// The job to be claimed next.
    pub(super) fn head(&self) -> Option<Ticket> {
        let (priority, lane) = self.lanes.first_key_value()?;
        let (run_at, id) = lane.first().expect("a lane is never empty");
        Some((*priority, *run_at, *id))
    }

    /// Since when its oldest available job has been ready. Costs as much as it has priorities in use.
    pub(super) fn oldest(&self) -> Option<WallTime> {
        self.lanes.values().filter_map(|lane| lane.first()).map(|(run_at, _)| *run_at).min()
    }

    /// Which job has this unique key.
    pub(super) fn owner(&self, key: &UniqueKey) -> Option<JobId> {
        self.keys.get(key).copied()
    }
}

fn running(row: &Row) -> (&WorkerKey, LeaseTime) {
    let holder = row.job.holder.as_ref().expect("a running job has a holder");
    (holder, row.job.lease_until.expect("a running job has a lease"))
}

fn ended(row: &Row) -> WallTime {
    row.job.finished_at.expect("a finished job has the time it ended")
}
