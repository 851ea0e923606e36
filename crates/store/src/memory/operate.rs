//! What people do to jobs and queues: `cancel`, `redrive`, `purge`, `set_queue`.

use std::ops::Bound;

use model::{Fence, Hold, Invalid, JobId, QueueName, QueuePatch, QueueSettings, State};

use super::clock::Now;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Tables, volatile_settings};
use crate::port::{Cancelled, Redriven, Retention, Selection};

impl Tables {
    pub(super) fn cancel(&mut self, now: Now, id: JobId) -> Cancelled {
        let Some(row) = self.jobs.get_mut(id) else {
            return Cancelled::Unknown;
        };
        match row.state {
            State::Scheduled | State::Available => {
                self.change(id, |row| {
                    row.state = State::Cancelled;
                    row.finished_at = Some(now.wall);
                });
                Cancelled::Now
            }
            State::Running => {
                // The mark is not indexed.
                row.cancel_requested = true;
                let holder = row.holder.clone().expect("a running job has a holder");
                Cancelled::Asked { hold: Hold { job: id, fence: row.fence }, holder }
            }
            ended @ (State::Completed | State::Cancelled | State::Dead) => Cancelled::AlreadyEnded(ended),
        }
    }

    pub(super) fn redrive(&mut self, now: Now, selection: Selection, limit: usize) -> Vec<(JobId, Redriven)> {
        let ids: Vec<JobId> = match selection {
            Selection::Ids(ids) => ids,
            Selection::Filter { filter, after } => {
                let after = after.filter(|_| !self.has(Mutation::RedriveIgnoresAfter));
                let above = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
                let rows = self.jobs.range(above);
                let chosen = rows.filter(|row| is_redrivable(row) && self.matches(&filter, row));
                chosen.take(limit).map(|row| row.id).collect()
            }
        };
        ids.into_iter().map(|id| (id, self.redrive_one(now, id))).collect()
    }

    /// How much went: workers, and everything else.
    pub(super) fn purge(&mut self, now: Now, retention: Retention, limit: usize) -> (u64, u64) {
        let dead =
            if self.has(Mutation::PurgeTreatsDeadAsCompleted) { retention.completed } else { retention.dead };
        let (finished_until, buried_until) = (now.wall - retention.completed, now.wall - dead);
        let finished = self.index.finished.iter().take_while(|(at, _)| *at <= finished_until);
        let buried = self.index.buried.iter().take_while(|(at, _)| *at <= buried_until);
        let gone: Vec<JobId> = finished.chain(buried).take(limit).map(|(_, id)| id).collect();
        gone.iter().for_each(|id| self.forget_end(*id));
        let forgotten = self.requests.forget(now.wall - Retention::REQUEST_IDS, limit);
        let gone_workers = self.purge_workers(now.wall - Retention::WORKERS, limit);
        let gone_clients = self.purge_clients(now, limit);
        (gone_workers as u64, (gone.len() + forgotten + gone_clients) as u64)
    }

    /// Refuses what no queue of this store can be.
    pub(super) fn check_patch(&self, patch: &QueuePatch) -> Result<(), Invalid> {
        let is_shared = self.registries.is_some() && !self.has(Mutation::SharedStoreTakesVolatileQueue);
        if is_shared && patch.volatile == Some(true) {
            return Err(Invalid::new("a volatile queue belongs to one server; this store is for several"));
        }
        if self.inherited.is_some() && patch.volatile == Some(false) {
            return Err(Invalid::new(
                "this store keeps nothing but memory: its queues cannot be made durable",
            ));
        }
        Ok(())
    }

    pub(super) fn set_queue(&mut self, queue: &QueueName, patch: &QueuePatch) -> QueueSettings {
        let stays = self.inherited.is_some() && !self.has(Mutation::VolatileQueueFollowsPatch);
        let number = self.index.queues.enter(queue);
        let queue = &mut self.index.queues[number];
        let settings = patch.apply(&queue.settings);
        queue.settings = if stays { volatile_settings(settings) } else { settings };
        queue.settings.clone()
    }

    fn redrive_one(&mut self, now: Now, id: JobId) -> Redriven {
        let Some(row) = self.jobs.get(id) else {
            return Redriven::Unknown;
        };
        if !is_redrivable(row) {
            return Redriven::NotEnded(row.state);
        }
        if !self.guard(Mutation::RedriveStealsUniqueKey, self.is_key_free(row)) {
            return Redriven::KeyTaken;
        }
        let queue = self.queue_of(row).name.clone();
        let keeps_fence = !self.has(Mutation::FenceResetByRedrive);
        let keeps_attempts = self.has(Mutation::RedriveKeepsAttempts);
        let keeps_cancel = self.has(Mutation::RedriveKeepsCancel);
        self.change(id, |row| {
            row.state = State::Available;
            row.run_at = now.wall;
            row.finished_at = None;
            row.lost = 0;
            row.attempt = if keeps_attempts { row.attempt } else { 0 };
            row.cancel_requested &= keeps_cancel;
            row.fence = if keeps_fence { row.fence } else { Fence::NONE };
        });
        Redriven::Again(queue)
    }

    /// True if no other job has this one's unique key.
    fn is_key_free(&self, row: &Row) -> bool {
        let owner = row.rare().unique_key.as_ref().and_then(|key| self.queue_of(row).owner(key));
        owner.is_none_or(|owner| owner == row.id)
    }
}

fn is_redrivable(row: &Row) -> bool {
    matches!(row.state, State::Dead | State::Cancelled)
}
