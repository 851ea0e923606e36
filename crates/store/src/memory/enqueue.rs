//! How jobs come in: `enqueue`, and `promote` for those that waited for their time.

use std::collections::BTreeSet;

use model::{Invalid, JobId, Limits, NewJob, QueueName, State};

use super::clock::Now;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Tables, due_in};
use crate::port::{EnqueueAnswer, EnqueueBatch, Enqueued, Promoted};

impl Tables {
    /// Refuses a batch with jobs that do not belong here.
    pub(super) fn check_ids(&self, batch: &EnqueueBatch) -> Result<(), Invalid> {
        let stranger = batch.jobs.iter().find(|job| !job.id.is_volatile());
        match stranger.filter(|_| self.inherited.is_some() && !self.has(Mutation::DurableIdTaken)) {
            None => Ok(()),
            Some(job) => Err(Invalid::new(format!(
                "queue {} is volatile, and {} is not the id of a volatile job; leave the id out or have the client number its jobs",
                job.queue, job.id
            ))),
        }
    }

    pub(super) fn enqueue(&mut self, now: Now, mut batch: EnqueueBatch) -> EnqueueAnswer {
        if let Some(request) = &batch.request_id
            && let Some(first) = self.requests.answer(request)
            && !self.has(Mutation::RequestIdForgotten)
        {
            return EnqueueAnswer { jobs: first.to_vec(), repeated: true, ..EnqueueAnswer::default() };
        }
        let mut answer =
            EnqueueAnswer { jobs: Vec::with_capacity(batch.jobs.len()), ..EnqueueAnswer::default() };
        let mut ready = BTreeSet::new();
        // They are large: what is kept is taken from where they are.
        for new in &mut batch.jobs {
            let id = new.id;
            let taken_by = if self.is_refused(now, id) { Some(id) } else { self.taken_by(new) };
            answer.jobs.push(Enqueued { id: taken_by.unwrap_or(id), duplicate: taken_by.is_some() });
            if taken_by.is_some() {
                continue;
            }
            let (row, is_heir) = (self.row(now, new), self.is_heir());
            let row = self.jobs.insert(row);
            row.count_in(&mut self.bytes);
            let mut row = &*row;
            self.index.link(row);
            if is_heir {
                self.inherit(now, id);
                row = &self.jobs[id];
            }
            match row.state {
                State::Available if ready.last() == Some(&row.queue) => {}
                State::Available => drop(ready.insert(row.queue)),
                State::Scheduled => {
                    let due = due_in(row.run_at, now);
                    answer.next_run_in = Some(answer.next_run_in.map_or(due, |earlier| earlier.min(due)));
                }
                State::Running => {}
                State::Completed | State::Cancelled | State::Dead => answer.ended.push(id),
            }
        }
        self.trim_ended();
        if let Some(request) = batch.request_id {
            self.requests.remember(now.wall, request, answer.jobs.clone());
        }
        answer.ready = self.names_of(ready);
        answer
    }

    pub(super) fn promote(&mut self, now: Now, limit: usize) -> Promoted {
        let (mut jobs, mut ready) = (Vec::new(), BTreeSet::new());
        while jobs.len() < limit {
            let due = self.index.scheduled.first();
            let Some((_, id)) =
                due.filter(|(run_at, _)| self.guard(Mutation::PromoteEarly, *run_at <= now.wall))
            else {
                break;
            };
            let row = self.change(id, |row| row.state = State::Available);
            ready.insert(row.queue);
            jobs.push(id);
        }
        Promoted { jobs, ready: self.names_of(ready) }
    }

    /// The job that has the new one's id or unique key.
    pub(super) fn taken_by(&self, new: &NewJob) -> Option<JobId> {
        if self.jobs.contains(new.id) {
            return Some(new.id);
        }
        let key = new.unique_key.as_ref()?;
        let owner = self.index.queues[self.index.queues.number(&new.queue)?].owner(key);
        owner.filter(|_| !self.has(Mutation::UniqueKeyIgnored))
    }

    #[inline]
    fn row(&mut self, now: Now, new: &mut NewJob) -> Row {
        let queue = self.index.queues.enter(&new.queue);
        let queue_attempts = self.index.queues[queue].settings.max_attempts;
        let max_attempts = new.max_attempts.or(queue_attempts).unwrap_or(Limits::ATTEMPTS_DEFAULT);
        let mut row = Row::new(now.wall, new, queue, max_attempts);
        row.retains_key &= !self.has(Mutation::UniqueKeyFreedEarly);
        if self.has(Mutation::ClaimIgnoresPriority) {
            row.lane = 0;
        }
        row
    }

    /// The names of queues, in their order.
    fn names_of(&self, queues: BTreeSet<u32>) -> Vec<QueueName> {
        let mut names: Vec<QueueName> =
            queues.into_iter().map(|queue| self.index.queues[queue].name.clone()).collect();
        names.sort_unstable();
        names
    }
}
