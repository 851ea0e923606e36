//! What is done about leases that are over: `expired`, `reap`, `reap_holder`, and `push` and `extend_leases` for holders
//! that live.

use std::time::Duration;

use model::{Ending, Hold, Job, JobId, LOST_REASON, LeaseTime, RegistryId, WorkerKey, after_loss};

use super::clock::Now;
use super::index::Leases;
use super::mutation::Mutation;
use super::tables::{Next, Tables, due_again_in, is_over};
use crate::port::{Expired, Reaped};
use crate::reason::poison_reason;

impl Tables {
    pub(super) fn reap(&mut self, now: Now, seen: &Expired) -> Option<Reaped> {
        let row = self.jobs.get(&seen.hold.job)?;
        let (job, counted) = (&row.job, !row.adopted);
        let lease_until = job.lease_until?;
        let may_reap = self.guard(Mutation::ReapWithoutFenceCheck, job.fence == seen.hold.fence)
            && self.guard(Mutation::ReapWithoutHolderCheck, job.holder.as_ref() == Some(&seen.holder))
            && self.guard(Mutation::ReapWithoutRegistryCheck, row.registry == seen.registry)
            && self.guard(Mutation::ReapWithoutSeenLeaseCheck, lease_until == seen.lease_until)
            && self.guard(Mutation::ReapWithoutLeaseCheck, is_over(lease_until, now));
        self.guard(Mutation::ReapBlindly, may_reap).then(|| self.lose(now, seen.hold.job, counted))
    }

    pub(super) fn push(&mut self, now: Now, seen: &Expired, by: Duration) -> bool {
        let until = now.lease + by;
        let job = self.jobs.get(&seen.hold.job).map(|row| &row.job);
        let Some((lease_until, fence)) = job.and_then(|job| Some((job.lease_until?, job.fence))) else {
            return false;
        };
        let as_seen = self.guard(Mutation::PushWithoutFenceCheck, fence == seen.hold.fence)
            && self.guard(Mutation::PushWithoutSeenLeaseCheck, lease_until == seen.lease_until);
        let moves = as_seen && self.guard(Mutation::PushMovesEarlier, until > lease_until);
        if moves {
            self.change(seen.hold.job, |row| row.job.lease_until = Some(until));
        }
        moves
    }

    pub(super) fn reap_holder(&mut self, now: Now, holder: &WorkerKey, counted: bool) -> Vec<Reaped> {
        if !self.guard(Mutation::ReapHolderNotTerminal, self.workers.is_terminal(holder)) {
            return Vec::new();
        }
        let counted = counted || self.has(Mutation::UncountedLossCounts);
        if !self.has(Mutation::AdoptedOutlivesHolder)
            && let Some(inherited) = &mut self.inherited
        {
            inherited.reap_holder(holder);
        }
        let held: Vec<JobId> = self.index.held.get(holder).into_iter().flatten().copied().collect();
        held.into_iter().map(|id| self.lose(now, id, counted)).collect()
    }

    pub(super) fn extend_leases(&mut self, registry: RegistryId, by: Duration) -> u64 {
        let leases = self.leases_judged_by(registry, Mutation::ExtensionMovesOthers);
        let running: Vec<JobId> = leases.flat_map(|leases| &leases.ends).map(|(_, id)| *id).collect();
        for id in &running {
            self.change(*id, |row| row.job.lease_until = row.job.lease_until.map(|until| until + by));
        }
        running.len() as u64
    }

    pub(super) fn expired(&self, now: Now, registry: RegistryId, limit: usize) -> Vec<Expired> {
        let leases = self.leases_judged_by(registry, Mutation::ExpiredShowsOthers);
        let over = |leases: &'_ Leases| -> Vec<(LeaseTime, JobId)> {
            leases.ends.iter().take_while(|(until, _)| is_over(*until, now)).take(limit).copied().collect()
        };
        let mut over: Vec<(LeaseTime, JobId)> = leases.flat_map(over).collect();
        over.sort_unstable();
        over.truncate(limit);
        over.iter()
            .map(|(lease_until, id)| {
                let row = &self.jobs[id];
                let job = &row.job;
                let holder = job.holder.clone().expect("a running job has a holder");
                Expired {
                    hold: Hold { job: *id, fence: job.fence },
                    registry: row.registry,
                    holder,
                    beats_itself: self.heartbeat_timeout_of(job).is_some(),
                    exclusive: self.is_exclusive(row),
                    lease_until: *lease_until,
                }
            })
            .collect()
    }

    pub(super) fn called_off(&self, registry: RegistryId) -> Vec<(WorkerKey, Hold)> {
        let leases = self.leases_judged_by(registry, Mutation::CalledOffShowsOthers);
        let jobs = leases.flat_map(|leases| &leases.ends).map(|(_, id)| &self.jobs[id].job);
        let jobs = jobs.filter(|job| self.guard(Mutation::CalledOffShowsAll, job.cancel_requested));
        let hold = |job: &Job| Hold { job: job.id, fence: job.fence };
        let mut called_off: Vec<(WorkerKey, Hold)> =
            jobs.filter_map(|job| Some((job.holder.clone()?, hold(job)))).collect();
        called_off.sort_unstable_by_key(|(_, hold)| *hold);
        called_off
    }

    /// The leases of those whose holder is in this registry, and of those whose holder is in none; of all others too if
    /// this bug is switched on.
    pub(super) fn leases_judged_by(
        &self,
        registry: RegistryId,
        of_others: Mutation,
    ) -> impl Iterator<Item = &Leases> {
        let is_judged = move |of: Option<RegistryId>| of.is_none_or(|of| of == registry);
        let all = self.index.leases.iter();
        all.filter(move |(of, _)| self.guard(of_others, is_judged(**of))).map(|(_, leases)| leases)
    }

    /// Takes a running job from its holder: the attempt does not count, the loss does if `counted`.
    fn lose(&mut self, now: Now, id: JobId, counted: bool) -> Reaped {
        let row = &self.jobs[&id];
        let (job, exclusive) = (&row.job, self.is_exclusive(row));
        let hold = Hold { job: id, fence: job.fence };
        let holder = job.holder.clone().expect("a running job has a holder");
        let lease_until = job.lease_until.expect("a running job has a lease");
        let lost = job.lost + u32::from(counted);
        let ending = if counted { self.after_loss(id, lost) } else { Ending::Again };
        let uncounted = u32::from(!self.has(Mutation::LossCountsAsAttempt));
        let job = self.release(now, id, Next::Offered(ending), |row| {
            let job = &mut row.job;
            row.taken = job.holder.take().map(|holder| (holder, hold.fence));
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
            exclusive,
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
