//! What a holder does while it holds: `claim`, `renew`, `progress`.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use model::{Fence, Hold, JobId, QueueName, State, WorkerKey};

use super::clock::Now;
use super::index::Ticket;
use super::mutation::Mutation;
use super::tables::Tables;
use crate::port::{Claim, Claimed, Progress, Renewed};

impl Tables {
    pub(super) fn claim(&mut self, now: Now, claim: &Claim) -> Vec<Claimed> {
        let is_terminal = self.workers.is_terminal(&claim.holder);
        if !self.guard(Mutation::ClaimByTerminalHolder, !is_terminal) {
            return Vec::new();
        }
        // One head for each queue: the next to be claimed of all queues is always among them.
        let mut heads: BTreeSet<(Ticket, QueueName)> =
            claim.queues.iter().filter_map(|queue| Some((self.head(queue, claim)?, queue.clone()))).collect();
        let mut claimed = Vec::new();
        let mut bytes = 0;
        while claimed.len() < claim.limit
            && let Some(((_, _, id), queue)) = heads.pop_first()
        {
            let job = self.take(now, id, claim);
            bytes += job.bytes();
            claimed.push(job);
            if !self.guard(Mutation::ClaimIgnoresBytes, bytes < claim.bytes_max) {
                break;
            }
            if let Some((priority, run_at, id)) = self.head(&queue, claim) {
                let priority =
                    if self.has(Mutation::ClaimQueueByQueue) { Reverse(i16::MAX) } else { priority };
                heads.insert(((priority, run_at, id), queue));
            }
        }
        claimed
    }

    pub(super) fn renew(&mut self, now: Now, holder: &WorkerKey, hold: Hold, lease: Duration) -> Renewed {
        let standing = self.jobs.get(&hold.job).filter(|row| {
            let was_taken_away = row.job.state != State::Running && row.job.fence == hold.fence;
            self.stands(&row.job, holder, hold) || (was_taken_away && self.has(Mutation::RenewRevivesLost))
        });
        let Some(row) = standing else {
            return self.adopt(now, holder, hold, lease);
        };
        let (cancel, exclusive) = (row.job.cancel_requested, self.is_exclusive(row));
        let own = self.heartbeat_timeout_of(&row.job).filter(|_| !self.has(Mutation::RenewForgetsOwnLease));
        let lease = own.unwrap_or(lease);
        self.change(hold.job, |row| {
            row.granted = lease;
            row.adopted = false;
            row.job.lease_until = Some(now.lease + lease);
            // Both are so already; only the mutation above has something to write here.
            row.job.state = State::Running;
            row.job.holder.get_or_insert_with(|| holder.clone());
        });
        Renewed::Held { lease, cancel, exclusive }
    }

    pub(super) fn progress(&mut self, holder: &WorkerKey, progress: Progress) -> bool {
        let Some(row) = self.jobs.get(&progress.hold.job) else {
            return false;
        };
        let is_running = row.job.state == State::Running;
        let stands = self.stands(&row.job, holder, progress.hold);
        if !is_running || !self.guard(Mutation::ProgressWithoutFence, stands) {
            return false;
        }
        let keeps_losses = self.has(Mutation::ProgressKeepsLosses);
        let job = &mut self.jobs.get_mut(&progress.hold.job).expect("it was just found").job;
        // None of these is indexed.
        job.progress = progress.note.or_else(|| job.progress.take());
        job.checkpoint = progress.checkpoint.or_else(|| job.checkpoint.take());
        job.lost = if keeps_losses { job.lost } else { 0 };
        true
    }

    /// What a queue offers to this claim next.
    fn head(&self, queue: &QueueName, claim: &Claim) -> Option<Ticket> {
        let queue = self.index.queues.get(queue)?;
        let may_hold = claim.exclusive || !queue.settings.exclusive;
        let offers = self.guard(Mutation::ClaimFromPausedQueue, !queue.settings.paused)
            && self.guard(Mutation::ExclusiveIgnoredInClaim, may_hold);
        queue.head().filter(|_| offers)
    }

    /// Gives an available job to a holder.
    fn take(&mut self, now: Now, id: JobId, claim: &Claim) -> Claimed {
        let row = self.jobs.get(&id).expect("an indexed job exists");
        let job = &row.job;
        // What waits is not exclusive; only a mutation leaves it so.
        let exclusive = row.exclusive || self.is_exclusive_queue(&job.queue);
        let heartbeat_timeout = self.heartbeat_timeout_of(job);
        let lease = heartbeat_timeout.unwrap_or(claim.lease);
        let next =
            (job.fence.get() + 1).max(self.inherited.as_ref().map_or(0, |inherited| inherited.least_fence()));
        let follows_clock = !self.has(Mutation::FenceNotIncreased);
        let fence = Fence::new(if follows_clock { next.max(now.lease.as_micros()) } else { next });
        let registry = self.workers.registry_of(&claim.holder);
        let job = self.change(id, |row| {
            let job = &mut row.job;
            job.state = State::Running;
            job.fence = fence;
            job.attempt += 1;
            job.holder = Some(claim.holder.clone());
            job.lease_until = Some(now.lease + lease);
            job.started_at = Some(now.wall);
            row.granted = lease;
            row.exclusive = exclusive;
            row.registry = registry;
            if row.first == Fence::NONE {
                row.first = fence;
            }
        });
        let hold = Hold { job: id, fence };
        let claimed = Claimed {
            hold,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            content_type: job.content_type.clone(),
            priority: job.priority,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            lease,
            heartbeat_timeout,
            timeout: job.timeout,
            checkpoint: job.checkpoint.clone(),
            traceparent: job.traceparent.clone(),
            exclusive,
            waited: now.wall.since(job.run_at),
        };
        self.note_claim(hold, claimed.attempt);
        claimed
    }
}
