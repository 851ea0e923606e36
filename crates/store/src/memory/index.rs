//! Ways to find jobs without looking at all of them. A row is unlinked before it changes and linked again after, so
//! every index follows from the row alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops;
use std::time::Duration;

use model::{JobId, LeaseTime, QueueName, QueueSettings, RegistryId, State, UniqueKey, WallTime, WorkerKey};

use super::handy::{Handy, Vacant};
use super::job_set::JobSet;
use super::row::Row;

/// A place in the order of claims: priority first, then time, then id.
pub(super) type Ticket = (Reverse<i16>, WallTime, JobId);

/// Everything that can be found by something other than its id.
#[derive(Default)]
pub(super) struct Index {
    pub(super) queues: Queues,
    /// Scheduled jobs by the time they are due.
    pub(super) scheduled: JobSet<WallTime>,
    /// The leases of running jobs, by the registry their holder is in.
    pub(super) leases: Handy<Option<RegistryId>, Leases>,
    /// Running jobs by holder.
    pub(super) held: Handy<WorkerKey, JobSet<()>>,
    /// Completed and cancelled jobs by the time they ended.
    pub(super) finished: JobSet<WallTime>,
    /// Dead jobs by the time they ended.
    pub(super) buried: JobSet<WallTime>,
}

/// All queues. A queue is never removed, so that its number is its own.
#[derive(Default)]
pub(super) struct Queues {
    all: Vec<Queue>,
    numbers: BTreeMap<QueueName, u32>,
    /// The number that was asked for last.
    last: u32,
    /// What a new queue is set to.
    pub(super) first_settings: QueueSettings,
}

/// Leases of running jobs.
#[derive(Default)]
pub(super) struct Leases {
    /// By their end.
    pub(super) ends: JobSet<LeaseTime>,
    /// How many were granted with this length.
    pub(super) lengths: Handy<Duration, u64>,
}

/// One queue: its settings and what is in it.
pub(super) struct Queue {
    pub(super) name: QueueName,
    pub(super) settings: QueueSettings,
    /// Jobs in each state, by the state's number.
    pub(super) counts: [u64; 6],
    /// Available jobs, a lane for each priority.
    lanes: Handy<Reverse<i16>, JobSet<WallTime>>,
    /// Who has which unique key.
    keys: BTreeMap<UniqueKey, JobId>,
}

impl Index {
    /// Enters the row everywhere it belongs.
    pub(super) fn link(&mut self, row: &Row) {
        let queue = &mut self.queues[row.queue];
        queue.counts[row.state as usize] += 1;
        if let Some(key) = &row.rare().unique_key
            && (row.retains_key || !row.state.is_terminal())
        {
            queue.keys.insert(key.clone(), row.id);
        }
        match row.state {
            State::Scheduled => self.scheduled.insert(row.run_at, row.id),
            State::Available => queue.lanes.at(&Reverse(row.lane)).insert(row.run_at, row.id),
            State::Running => {
                let (holder, lease_until) = running(row);
                let leases = self.leases.at(&row.registry);
                leases.ends.insert(lease_until, row.id);
                *leases.lengths.at(&row.granted) += 1;
                self.held.at(holder).insert((), row.id);
            }
            State::Completed | State::Cancelled => self.finished.insert(ended(row), row.id),
            State::Dead => self.buried.insert(ended(row), row.id),
        }
    }

    /// Removes the row from everywhere it is entered.
    pub(super) fn unlink(&mut self, row: &Row) {
        let queue = &mut self.queues[row.queue];
        queue.counts[row.state as usize] -= 1;
        if let Some(key) = &row.rare().unique_key
            && queue.keys.get(key) == Some(&row.id)
        {
            queue.keys.remove(key);
        }
        match row.state {
            State::Scheduled => self.scheduled.remove(row.run_at, row.id),
            State::Available => queue.lanes.at(&Reverse(row.lane)).remove(row.run_at, row.id),
            State::Running => {
                let (holder, lease_until) = running(row);
                let leases = self.leases.at(&row.registry);
                leases.ends.remove(lease_until, row.id);
                *leases.lengths.at(&row.granted) -= 1;
                self.held.at(holder).remove((), row.id);
            }
            State::Completed | State::Cancelled => self.finished.remove(ended(row), row.id),
            State::Dead => self.buried.remove(ended(row), row.id),
        }
    }

    /// What a holder holds, by id.
    pub(super) fn held_by(&self, holder: &WorkerKey) -> Vec<JobId> {
        self.held.get(holder).into_iter().flat_map(JobSet::iter).map(|((), id)| id).collect()
    }
}

impl Vacant for Leases {
    fn is_vacant(&self) -> bool {
        self.ends.is_empty()
    }
}

impl Queues {
    /// The number of this queue, which is created if it is the first time.
    pub(super) fn enter(&mut self, name: &QueueName) -> u32 {
        if self.all.get(self.last as usize).is_none_or(|last| last.name != *name) {
            self.last = self.number(name).unwrap_or_else(|| {
                self.all.push(Queue {
                    name: name.clone(),
                    settings: self.first_settings.clone(),
                    counts: [0; 6],
                    lanes: Handy::default(),
                    keys: BTreeMap::new(),
                });
                let number = self.all.len() as u32 - 1;
                self.numbers.insert(name.clone(), number);
                number
            });
        }
        self.last
    }

    pub(super) fn number(&self, name: &QueueName) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// All of them, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.numbers.values().map(|number| &self[*number])
    }
}

impl ops::Index<u32> for Queues {
    type Output = Queue;

    fn index(&self, number: u32) -> &Queue {
        &self.all[number as usize]
    }
}

impl ops::IndexMut<u32> for Queues {
    fn index_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.all[number as usize]
    }
}

impl Queue {
    /// The job to be claimed next.
    pub(super) fn head(&self) -> Option<Ticket> {
        let (priority, lane) = self.lanes.first()?;
        let (run_at, id) = lane.first().expect("a lane is never empty");
        Some((*priority, run_at, id))
    }

    /// Since when its oldest available job has been ready. Costs as much as it has priorities in use.
    pub(super) fn oldest(&self) -> Option<WallTime> {
        self.lanes.iter().filter_map(|(_, lane)| lane.first()).map(|(run_at, _)| run_at).min()
    }

    /// Which job has this unique key.
    pub(super) fn owner(&self, key: &UniqueKey) -> Option<JobId> {
        self.keys.get(key).copied()
    }
}

fn running(row: &Row) -> (&WorkerKey, LeaseTime) {
    let holder = row.holder.as_ref().expect("a running job has a holder");
    (holder, row.lease_until.expect("a running job has a lease"))
}

fn ended(row: &Row) -> WallTime {
    row.finished_at.expect("a finished job has the time it ended")
}
