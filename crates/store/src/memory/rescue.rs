//! How jobs come back from holders that fell silent: `expired`, `reap`, `reap_holder`, `extend_leases`.

use std::time::Duration;

use model::{Ending, Hold, JobId, LOST_REASON, WorkerKey, after_loss};

use super::clock::Now;
use super::mutation::Mutation;
use super::tables::{Next, Tables, due_again_in, is_over};
use crate::port::{Expired, Reaped};
use crate::reason::poison_reason;

impl Tables {
    pub(super) fn reap(&mut self, now: Now, seen: &Expired) -> Option<Reaped> {
        let job = &self.jobs.get(&seen.hold.job)?.job;
        let lease_until = job.lease_until?;
        let as_seen = self.guard(Mutation::ReapWithoutFenceCheck, job.fence == seen.hold.fence)
            && self.guard(Mutation::ReapWithoutSeenLeaseCheck, lease_until == seen.lease_until);
        if !as_seen || !self.guard(Mutation::ReapWithoutLeaseCheck, is_over(lease_until, now)) {
            return None;
        }
        Some(self.lose(now, seen.hold.job, true))
    }

    pub(super) fn reap_holder(&mut self, now: Now, holder: &WorkerKey, counted: bool) -> Vec<Reaped> {
        let is_retired = self.retired.contains(holder);
        if !self.guard(Mutation::ReapHolderNotTerminal, is_retired) {
            return Vec::new();
        }
        let counted = counted || self.has(Mutation::UncountedLossCounts);
        let held: Vec<JobId> = self.index.held.get(holder).into_iter().flatten().copied().collect();
        held.into_iter().map(|id| self.lose(now, id, counted)).collect()
    }

    pub(super) fn extend_leases(&mut self, by: Duration) -> u64 {
        let running: Vec<JobId> = self.index.leases.iter().map(|(_, id)| *id).collect();
        for id in &running {
            self.change(*id, |row| row.job.lease_until = row.job.lease_until.map(|until| until + by));
        }
        running.len() as u64
    }

    pub(super) fn expired(&self, now: Now, limit: usize) -> Vec<Expired> {
        let over = self.index.leases.iter().take_while(|(until, _)| is_over(*until, now));
        over.take(limit)
            .map(|(lease_until, id)| {
                let job = &self.jobs[id].job;
                Expired {
                    hold: Hold { job: *id, fence: job.fence },
                    holder: job.holder.clone().expect("a running job has a holder"),
                    lease_until: *lease_until,
                }
            })
            .collect()
    }

    /// Takes a running job from its holder: the attempt does not count, the loss does if `counted`.
    fn lose(&mut self, now: Now, id: JobId, counted: bool) -> Reaped {
        let job = &self.jobs[&id].job;
        let hold = Hold { job: id, fence: job.fence };
        let holder = job.holder.clone().expect("a running job has a holder");
        let lease_until = job.lease_until.expect("a running job has a lease");
        let lost = job.lost + u32::from(counted);
        let ending = if counted { self.after_loss(id, lost) } else { Ending::Again };
        let uncounted = u32::from(!self.has(Mutation::LossCountsAsAttempt));
        let job = self.release(now, id, Next::Offered(ending), |job| {
            job.attempt = job.attempt.saturating_sub(uncounted);
            job.lost = lost;
            job.last_error = Some(match ending {
                Ending::Bury if !job.cancel_requested => poison_reason(lost),
                _ => LOST_REASON.to_owned(),
            });
        });
        Reaped {
            hold,
            holder,
            queue: job.queue.clone(),
            state: job.state,
            due_in: due_again_in(job, now),
            late: now.lease.since(lease_until),
        }
    }

    fn after_loss(&self, id: JobId, lost: u32) -> Ending {
        let job = &self.jobs[&id].job;
        let max_lost = if self.has(Mutation::LossNeverBuried) { u32::MAX } else { job.max_lost };
        match after_loss(lost, max_lost, self.policy_of(job), job.fence) {
            Ending::Later(_) if self.has(Mutation::LossWithoutBackoff) => Ending::Again,
            ending => ending,
        }
    }
}
