//! How jobs come in: `enqueue`, and `promote` for those that waited for their time.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use model::{Fence, Invalid, Job, JobId, Limits, NewJob, QueueName, State, UniqueScope, WallTime, When};

use super::clock::Now;
use super::mutation::Mutation;
use super::tables::{Row, Tables, due_in};
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

    pub(super) fn enqueue(&mut self, now: Now, batch: EnqueueBatch) -> EnqueueAnswer {
        if let Some(request) = &batch.request_id
            && let Some(first) = self.requests.answer(request)
            && !self.has(Mutation::RequestIdForgotten)
        {
            return EnqueueAnswer { jobs: first.to_vec(), repeated: true, ..EnqueueAnswer::default() };
        }
        let mut answer =
            EnqueueAnswer { jobs: Vec::with_capacity(batch.jobs.len()), ..EnqueueAnswer::default() };
        let mut ready = BTreeSet::new();
        for new in batch.jobs {
            if self.is_refused(now, new.id) {
                answer.jobs.push(Enqueued { id: new.id, duplicate: true });
                continue;
            }
            if let Some(id) = self.taken_by(&new) {
                answer.jobs.push(Enqueued { id, duplicate: true });
                continue;
            }
            answer.jobs.push(Enqueued { id: new.id, duplicate: false });
            let id = new.id;
            let row = Box::new(self.row(now, new));
            self.index.link(&row);
            if self.is_heir() {
                self.jobs.insert(id, row);
                self.inherit(now, id);
                take_note(now, &self.jobs[&id].job, &mut ready, &mut answer);
            } else {
                take_note(now, &row.job, &mut ready, &mut answer);
                self.jobs.insert(id, row);
            }
        }
        self.make_room();
        if let Some(request) = batch.request_id {
            self.requests.remember(now.wall, request, answer.jobs.clone());
        }
        answer.ready = ready.into_iter().collect();
        answer
    }

    pub(super) fn promote(&mut self, now: Now, limit: usize) -> Promoted {
        let (mut jobs, mut ready) = (Vec::new(), BTreeSet::new());
        while jobs.len() < limit {
            let due = self.index.scheduled.first().copied();
            let Some((_, id)) =
                due.filter(|(run_at, _)| self.guard(Mutation::PromoteEarly, *run_at <= now.wall))
            else {
                break;
            };
            self.change(id, |row| {
                row.job.state = State::Available;
                note(&mut ready, &row.job.queue);
            });
            jobs.push(id);
        }
        Promoted { jobs, ready: ready.into_iter().collect() }
    }

    /// The job that has the new one's id or unique key.
    fn taken_by(&self, new: &NewJob) -> Option<JobId> {
        if self.jobs.contains_key(&new.id) {
            return Some(new.id);
        }
        let owner = self.index.queues.get(&new.queue)?.owner(new.unique_key.as_ref()?);
        owner.filter(|_| !self.has(Mutation::UniqueKeyIgnored))
    }

    fn row(&self, now: Now, new: NewJob) -> Row {
        let run_at = match new.when {
            When::Now => now.wall,
            When::After(delay) => now.wall + delay,
            // A past date is kept, so that jobs that should have run earlier are claimed earlier.
            When::At(date) => date,
        };
        let queue_attempts = || self.index.queues.get(&new.queue)?.settings.max_attempts;
        let max_attempts = new.max_attempts.or_else(queue_attempts).unwrap_or(Limits::ATTEMPTS_DEFAULT);
        let priority = new.priority;
        let retains_key = new.unique_scope == UniqueScope::Retained;
        let lane = if self.has(Mutation::ClaimIgnoresPriority) { 0 } else { priority };
        Row {
            lane: Reverse(lane),
            retains_key: retains_key && !self.has(Mutation::UniqueKeyFreedEarly),
            granted: Duration::ZERO,
            exclusive: false,
            registry: None,
            adopted: false,
            taken: None,
            reporter: None,
            first: Fence::NONE,
            job: Job {
                id: new.id,
                queue: new.queue,
                kind: new.kind,
                payload: new.payload,
                content_type: new.content_type,
                priority,
                state: first_state(run_at, now),
                run_at,
                attempt: 0,
                max_attempts,
                lost: 0,
                max_lost: new.max_lost.unwrap_or(Limits::LOST_DEFAULT),
                fence: Fence::NONE,
                holder: None,
                lease_until: None,
                cancel_requested: false,
                heartbeat_timeout: new.heartbeat_timeout,
                timeout: new.timeout,
                retry: new.retry,
                unique_key: new.unique_key,
                unique_scope: new.unique_scope,
                reported_fence: Fence::NONE,
                enqueued_at: now.wall,
                started_at: None,
                finished_at: None,
                last_error: None,
                progress: None,
                checkpoint: None,
                result: None,
                traceparent: new.traceparent,
            },
        }
    }
}

/// What the answer says of a job that was entered.
fn take_note(now: Now, job: &Job, ready: &mut BTreeSet<QueueName>, answer: &mut EnqueueAnswer) {
    match job.state {
        State::Available => note(ready, &job.queue),
        State::Scheduled => {
            let due = due_in(job.run_at, now);
            answer.next_run_in = Some(answer.next_run_in.map_or(due, |earlier| earlier.min(due)));
        }
        State::Running => {}
        State::Completed | State::Cancelled | State::Dead => answer.ended.push(job.id),
    }
}

fn first_state(run_at: WallTime, now: Now) -> State {
    if run_at > now.wall { State::Scheduled } else { State::Available }
}

fn note(ready: &mut BTreeSet<QueueName>, queue: &QueueName) {
    if !ready.contains(queue) {
        ready.insert(queue.clone());
    }
}
