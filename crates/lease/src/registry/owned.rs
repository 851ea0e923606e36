//! Whether this registry is ours for certain, when several servers use one store.
//!
//! Until then we judge; after that another server may have taken our workers over, and does. Ordinary jobs do not care: we go
//! on answering. What must not happen is that an exclusive job lives on our word while the other server gives it away. It
//! cannot:
//!
//! * An exclusive hold is extended only in an answer that was made up before [`until`](Owned). It counts from when the
//!   heartbeat was *sent*, and is never longer than the largest grant that the store knows. When the answer leaves, or arrives,
//!   does not matter.
//! * The other server's write is committed after `until` by anybody's clock (see [`ownership`](crate::ownership)), and it then
//!   waits for the largest grant, made longer, before it ends anybody it has not heard from. That is later.
//! * A bind that we acknowledged before `until` starts something only within such a hold.
//! * What we ask the store for after `until` (retirements, moves, larger grants) is refused if the registry is not ours.
//!
//! When it is ours again, nobody is ended for a silence that we could not have judged. That time is given for judging only: an
//! exclusive lease that did run out stays run out until the next heartbeat is taken.

use model::{Hold, Instant, WorkerKey};

use super::entity::Entity;
use super::io::Output;
use super::machine::{Outbox, Registry};
use super::mutation::Mutation;
use super::rules::Rules;
use super::stall::STALL_TOLERANCE;

/// Until when it is ours.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// `None` if nobody ever said: then it is ours as long as we live.
    until: Option<Instant>,
    /// Since when it has not been.
    lost_at: Option<Instant>,
    /// When it became ours again, if it had not been for longer than a hiccup.
    judging_since: Option<Instant>,
}

impl Owned {
    /// True while it is.
    pub(super) fn is_certain(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Silence from before this says nothing.
    pub(super) fn judging_since(&self) -> Option<Instant> {
        self.judging_since
    }

    fn set(&mut self, now: Instant, until: Instant) {
        if !self.is_certain(now) {
            self.lost_at = self.lost_at.or(self.until);
        }
        self.until = Some(until);
        if self.is_certain(now)
            && let Some(lost_at) = self.lost_at.take()
            && now.since(lost_at) > STALL_TOLERANCE
        {
            self.judging_since = Some(now);
        }
    }
}

impl Registry {
    /// It is ours until then. If it was not, what waited for that happens now.
    pub(super) fn owned_until(&mut self, now: Instant, until: Instant) {
        self.rules.owned.set(now, until);
        if !self.rules.is_ours(now) {
            return;
        }
        for due in std::mem::take(&mut self.overdue) {
            self.lease_due(now, due);
        }
        for key in std::mem::take(&mut self.outbox.withheld) {
            self.say_withheld(now, key);
        }
        self.handle_postponed(now);
    }

    /// Whoever cannot hear it now hears it with the answer to its next heartbeat.
    fn say_withheld(&mut self, now: Instant, key: WorkerKey) {
        let Registry { rules, workers, outbox, .. } = self;
        let Some(worker) = workers.get_mut(&key) else { return };
        if worker.owes_bound && worker.is_active() && worker.expires > now && worker.may_start(now, rules) {
            worker.owes_bound = false;
            let holds = worker.bindings.bound_by(&[], true);
            if !holds.is_empty() {
                outbox.push(Output::Bound { key, holds });
            }
        }
    }
}

impl Outbox {
    /// Of these binds that stand, leaves those that the worker may hear of now. It is owed the others.
    pub(super) fn withhold(
        &mut self,
        now: Instant,
        rules: &Rules,
        key: &WorkerKey,
        worker: &mut Entity,
        bound: &mut Vec<Hold>,
    ) {
        if worker.may_start(now, rules) || rules.has(Mutation::BindsWhenNotOurs) {
            return;
        }
        let found = bound.len();
        bound.retain(|hold| !worker.bindings.is_exclusive(*hold));
        if bound.len() == found || worker.owes_bound || rules.has(Mutation::WithheldIsForgotten) {
            return;
        }
        worker.owes_bound = true;
        if !rules.is_ours(now) {
            self.withheld.push(key.clone());
        }
    }
}
