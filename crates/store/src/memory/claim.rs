//! What a holder does while it holds: `claim`, `renew`, `progress`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use model::{Fence, Hold, JobId, RegistryId, State, WorkerKey};

use super::clock::Now;
use super::index::{Queue, Ticket};
use super::mutation::Mutation;
use super::tables::Tables;
use crate::port::{Claim, Claimed, Progress, Renewed};

impl Tables {
    pub(super) fn claim(&mut self, now: Now, claim: &Claim) -> Vec<Claimed> {
        let is_terminal = self.workers.is_terminal(&claim.holder);
        if !self.guard(Mutation::ClaimByTerminalHolder, !is_terminal) || claim.limit == 0 {
            return Vec::new();
        }
        let registry = self.workers.registry_of(&claim.holder);
        // One head for each queue: the next to be claimed of all queues is always among them.
        let mut queues: Vec<u32> =
            claim.queues.iter().filter_map(|name| self.index.queues.number(name)).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.retain(|queue| self.offers(*queue, claim));
        let waiting: u64 =
            queues.iter().map(|queue| self.index.queues[*queue].counts[State::Available as usize]).sum();
        let head = |queue: u32| Some(Reverse((self.index.queues[queue].head()?, queue)));
        let mut heads: BinaryHeap<Reverse<(Ticket, u32)>> = queues.into_iter().filter_map(head).collect();
        let mut claimed = Vec::with_capacity(claim.limit.min(waiting as usize));
        let mut bytes = 0;
        while let Some(Reverse((head, queue))) = heads.pop() {
            let mut next = Some(head);
            while let Some(ticket) = next
                && self.guard(
                    Mutation::ClaimQueueByQueue,
                    heads.peek().is_none_or(|Reverse((other, _))| ticket <= *other),
                )
            {
                let (_, _, id) = ticket;
                let job = self.take(now, queue, id, claim, registry);
                self.note_claim(job.hold, job.attempt);
                bytes += job.bytes();
                claimed.push(job);
                let has_enough_bytes = !self.guard(Mutation::ClaimIgnoresBytes, bytes < claim.bytes_max);
                if has_enough_bytes || claimed.len() == claim.limit {
                    return claimed;
                }
                next = self.index.queues[queue].head();
            }
            heads.extend(next.map(|ticket| Reverse((ticket, queue))));
        }
        claimed
    }

    pub(super) fn renew(&mut self, now: Now, holder: &WorkerKey, hold: Hold, lease: Duration) -> Renewed {
        let standing = self.jobs.get(hold.job).filter(|row| {
            let was_taken_away = row.state != State::Running && row.fence == hold.fence;
            self.stands(row, holder, hold) || (was_taken_away && self.has(Mutation::RenewRevivesLost))
        });
        let Some(row) = standing else {
            return self.adopt(now, holder, hold, lease);
        };
        let (cancel, exclusive) = (row.cancel_requested, self.is_exclusive(row));
        let own = self.heartbeat_timeout_of(row).filter(|_| !self.has(Mutation::RenewForgetsOwnLease));
        let lease = own.unwrap_or(lease);
        self.change(hold.job, |row| {
            row.granted = lease;
            row.adopted = false;
            row.lease_until = Some(now.lease + lease);
            // Both are so already; only the mutation above has something to write here.
            row.state = State::Running;
            row.holder.get_or_insert_with(|| holder.clone());
        });
        Renewed::Held { lease, cancel, exclusive }
    }

    pub(super) fn progress(&mut self, holder: &WorkerKey, progress: Progress) -> bool {
        let Some(row) = self.jobs.get(progress.hold.job) else {
            return false;
        };
        let is_running = row.state == State::Running;
        let stands = self.stands(row, holder, progress.hold);
        if !is_running || !self.guard(Mutation::ProgressWithoutFence, stands) {
            return false;
        }
        let keeps_losses = self.has(Mutation::ProgressKeepsLosses);
        let row = self.jobs.get_mut(progress.hold.job).expect("it was just found");
        // None of these is indexed.
        row.lost = if keeps_losses { row.lost } else { 0 };
        let rare = row.rare_mut();
        rare.progress = progress.note.or_else(|| rare.progress.take());
        rare.checkpoint = progress.checkpoint.or_else(|| rare.checkpoint.take());
        row.count_in(&mut self.bytes);
        true
    }

    /// Whether a queue offers anything to this claim.
    fn offers(&self, queue: u32, claim: &Claim) -> bool {
        let settings = &self.index.queues[queue].settings;
        let may_hold = claim.exclusive || !settings.exclusive;
        self.guard(Mutation::ClaimFromPausedQueue, !settings.paused)
            && self.guard(Mutation::ExclusiveIgnoredInClaim, may_hold)
    }

    /// Gives an available job of this queue to a holder.
    #[inline]
    fn take(
        &mut self,
        now: Now,
        queue: u32,
        id: JobId,
        claim: &Claim,
        registry: Option<RegistryId>,
    ) -> Claimed {
        let follows_clock = !self.has(Mutation::FenceNotIncreased);
        let least_fence = self.inherited.as_ref().map_or(0, |inherited| inherited.least_fence());
        let least_fence = if follows_clock { least_fence.max(now.lease.as_micros()) } else { least_fence };
        let Queue { name, settings, .. } = &self.index.queues[queue];
        let (queue, is_exclusive, queue_timeout) =
            (name.clone(), settings.exclusive, settings.heartbeat_timeout);
        let row = self.change(id, |row| {
            row.state = State::Running;
            row.fence = Fence::new((row.fence.get() + 1).max(least_fence));
            row.attempt += 1;
            row.holder = Some(claim.holder.clone());
            row.granted = row.rare().heartbeat_timeout.or(queue_timeout).unwrap_or(claim.lease);
            row.lease_until = Some(now.lease + row.granted);
            row.started_at = Some(now.wall);
            // What waits is not exclusive; only a mutation leaves it so.
            row.exclusive |= is_exclusive;
            row.registry = registry;
            if row.first == Fence::NONE {
                row.first = row.fence;
            }
        });
        let hold = Hold { job: id, fence: row.fence };
        let rare = row.rare();
        // Made where it is returned: it is large.
        Claimed {
            hold,
            queue,
            kind: row.kind.clone(),
            payload: row.payload.clone(),
            content_type: row.content_type(),
            priority: row.priority,
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            lease: row.granted,
            heartbeat_timeout: rare.heartbeat_timeout.or(queue_timeout),
            timeout: rare.timeout,
            checkpoint: rare.checkpoint.clone(),
            traceparent: rare.traceparent.clone(),
            exclusive: row.exclusive,
            waited: now.wall.since(row.run_at),
        }
    }
}
