//! What is done about leases that are over: `expired`, `reap`, `reap_holder`, and `push` and `extend_leases` for holders
//! that live.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    Ending, Fence, Hold, HolderEnd, JobId, LOST_REASON, LeaseTime, RegistryId, WorkerKey, after_loss,
};

use super::clock::Now;
use super::index::Leases;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Next, Tables, due_again_in, is_over};
use crate::port::{Expired, Reaped, ToStop};
use crate::reason::poison_reason;
use crate::to_stop::is_timed_out;

impl Tables {
    pub(super) fn reap(&mut self, now: Now, seen: &Expired) -> Option<Reaped> {
        let row = self.jobs.get(seen.hold.job)?;
        let counted = !row.adopted;
        let lease_until = row.lease_until?;
        let may_reap = self.guard(Mutation::ReapWithoutFenceCheck, row.fence == seen.hold.fence)
            && self.guard(Mutation::ReapWithoutHolderCheck, row.holder.as_ref() == Some(&seen.holder))
            && self.guard(Mutation::ReapWithoutRegistryCheck, row.registry == seen.registry)
            && self.guard(Mutation::ReapWithoutSeenLeaseCheck, lease_until == seen.lease_until)
            && self.guard(Mutation::ReapWithoutLeaseCheck, is_over(lease_until, now));
        self.guard(Mutation::ReapBlindly, may_reap).then(|| self.lose(now, seen.hold.job, counted))
    }

    pub(super) fn push(&mut self, now: Now, seen: &Expired, by: Duration) -> bool {
        let until = now.lease + by;
        let row = self.jobs.get(seen.hold.job);
        let Some((lease_until, fence)) = row.and_then(|row| Some((row.lease_until?, row.fence))) else {
            return false;
        };
        let as_seen = self.guard(Mutation::PushWithoutFenceCheck, fence == seen.hold.fence)
            && self.guard(Mutation::PushWithoutSeenLeaseCheck, lease_until == seen.lease_until);
        let moves = as_seen && self.guard(Mutation::PushMovesEarlier, until > lease_until);
        if moves {
            self.change(seen.hold.job, |row| row.lease_until = Some(until));
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
        self.index.held_by(holder).into_iter().map(|id| self.lose(now, id, counted)).collect()
    }

    pub(super) fn extend_leases(&mut self, registry: RegistryId, by: Duration) -> u64 {
        let leases = self.leases_judged_by(registry, Mutation::ExtensionMovesOthers);
        let running: Vec<JobId> = leases.flat_map(|leases| leases.ends.iter()).map(|(_, id)| id).collect();
        for id in &running {
            self.change(*id, |row| row.lease_until = row.lease_until.map(|until| until + by));
        }
        running.len() as u64
    }

    pub(super) fn expired(&self, now: Now, registry: RegistryId, limit: usize) -> Vec<Expired> {
        let leases = self.leases_judged_by(registry, Mutation::ExpiredShowsOthers);
        let over = |leases: &'_ Leases| -> Vec<(LeaseTime, JobId)> {
            leases.ends.iter().take_while(|(until, _)| is_over(*until, now)).take(limit).collect()
        };
        let mut over: Vec<(LeaseTime, JobId)> = leases.flat_map(over).collect();
        over.sort_unstable();
        over.truncate(limit);
        over.iter()
            .map(|(lease_until, id)| {
                let row = &self.jobs[*id];
                let holder = row.holder.clone().expect("a running job has a holder");
                Expired {
                    hold: Hold { job: *id, fence: row.fence },
                    registry: row.registry,
                    holder,
                    beats_itself: self.heartbeat_timeout_of(row).is_some(),
                    exclusive: self.is_exclusive(row),
                    timed_out: self.is_timed_out(row, now),
                    lease_until: *lease_until,
                }
            })
            .collect()
    }

    pub(super) fn to_stop(&self, now: Now, holder: &WorkerKey) -> Vec<ToStop> {
        let rows = self.index.held_by(holder).into_iter().map(|id| &self.jobs[id]);
        let to_stop = rows.map(|row| ToStop {
            hold: Hold { job: row.id, fence: row.fence },
            cancel: row.cancel_requested,
            timed_out: self.is_timed_out(row, now),
            exclusive: self.is_exclusive(row),
        });
        let is_told = |job: &ToStop| self.guard(Mutation::ToStopShowsAll, job.cancel || job.timed_out);
        let mut to_stop: Vec<ToStop> = to_stop.filter(is_told).collect();
        to_stop.sort_unstable_by_key(|job| job.hold);
        to_stop
    }

    fn is_timed_out(&self, row: &Row, now: Now) -> bool {
        let began = match self.has(Mutation::TimeLimitSinceEnqueued) {
            true => Fence::new(row.enqueued_at.as_millis() * 1000),
            false => row.fence,
        };
        is_timed_out(began, row.rare().timeout, now.lease)
    }

    pub(super) fn called_off(&self, registry: RegistryId) -> Vec<(WorkerKey, Hold)> {
        let leases = self.leases_judged_by(registry, Mutation::CalledOffShowsOthers);
        let rows = leases.flat_map(|leases| leases.ends.iter()).map(|(_, id)| &self.jobs[id]);
        let rows = rows.filter(|row| self.guard(Mutation::CalledOffShowsAll, row.cancel_requested));
        let hold = |row: &Row| Hold { job: row.id, fence: row.fence };
        let mut called_off: Vec<(WorkerKey, Hold)> =
            rows.filter_map(|row| Some((row.holder.clone()?, hold(row)))).collect();
        called_off.sort_unstable_by_key(|(_, hold)| *hold);
        called_off
    }

    pub(super) fn unreaped(&self, registry: RegistryId) -> Vec<(WorkerKey, HolderEnd)> {
        let leases = self.leases_judged_by(registry, Mutation::UnreapedShowsOthers);
        let rows = leases.flat_map(|leases| leases.ends.iter()).map(|(_, id)| &self.jobs[id]);
        let ended = rows.filter_map(|row| {
            let known = self.workers.get(row.holder.as_ref()?)?;
            Some((known.worker.key, known.ended?.0))
        });
        ended.collect::<BTreeMap<_, _>>().into_iter().collect()
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
        let row = &self.jobs[id];
        let exclusive = self.is_exclusive(row);
        let hold = Hold { job: id, fence: row.fence };
        let holder = row.holder.clone().expect("a running job has a holder");
        let lease_until = row.lease_until.expect("a running job has a lease");
        let queue = self.queue_of(row).name.clone();
        let lost = row.lost + u32::from(counted);
        let ending = if counted { self.after_loss(row, lost) } else { Ending::Again };
        let uncounted = u32::from(!self.has(Mutation::LossCountsAsAttempt));
        let row = self.release(now, id, Next::Offered(ending), |row| {
            row.attempt = row.attempt.saturating_sub(uncounted);
            row.lost = lost;
            let taken = row.holder.take().map(|holder| (holder, hold.fence));
            let reason = match ending {
                Ending::Bury if !row.cancel_requested => poison_reason(lost),
                _ => LOST_REASON.to_owned(),
            };
            let rare = row.rare_mut();
            (rare.taken, rare.last_error) = (taken, Some(reason));
        });
        Reaped {
            hold,
            holder,
            queue,
            state: row.state,
            due_in: due_again_in(row, now),
            late: now.lease.since(lease_until),
            exclusive,
        }
    }

    fn after_loss(&self, row: &Row, lost: u32) -> Ending {
        let max_lost = if self.has(Mutation::LossNeverBuried) { u32::MAX } else { row.max_lost };
        match after_loss(lost, max_lost, self.policy_of(row), row.fence) {
            Ending::Later(_) if self.has(Mutation::LossWithoutBackoff) => Ending::Again,
            ending => ending,
        }
    }
}
