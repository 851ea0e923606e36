//! Heartbeats, and the store's word that a worker or a larger grant is durable.

use std::time::Duration;

use model::{HolderEnd, Instant, WorkerKey};

use super::entity::{Entity, Joining, Stage, Sync};
use super::io::{Enlisted, Output, Ticket};
use super::machine::{Outbox, Registry};
use super::mutation::Mutation;
use super::rules::Rules;
use super::timers::Timer;
use crate::digest::Digest;
use crate::message::{Answer, Heartbeat, InactiveReason, LaterReason};

/// When to come back before the store told who was alive.
const RESTORE_WAIT: Duration = Duration::from_millis(500);
/// When to come back after the store could not make a worker durable.
const TROUBLE_WAIT: Duration = Duration::from_secs(1);

impl Registry {
    /// A heartbeat was read. The first rule that fits answers it.
    pub(super) fn heartbeat(&mut self, now: Instant, ticket: Ticket, mut beat: Heartbeat) {
        if !self.is_restored {
            return self.outbox.answer(ticket, beat.key, later(RESTORE_WAIT, LaterReason::StoreTrouble));
        }
        if self.rules.has(Mutation::KnownWorkersThrottled)
            && let Err(wait) = self.throttle.take(now)
        {
            return self.outbox.answer(ticket, beat.key, later(wait, LaterReason::Throttled));
        }
        // Nearly every heartbeat names none.
        let former = if beat.former.is_some() { self.living_former(&beat) } else { None };
        let Registry { rules, workers, outbox, .. } = self;
        let Some(worker) = workers.get_mut(&beat.key) else {
            return self.first_heartbeat(now, ticket, beat, former);
        };
        let is_its = beat.nonce == worker.nonce || rules.has(Mutation::NonceIgnored);
        let may_succeed = former.is_some() && worker.may_succeed(&beat);
        let is_stranger = worker.is_stranger();
        match &mut worker.stage {
            // Somebody who never sent a heartbeat said that this key is over; the store is being asked what it held.
            Stage::Ended(ending) if !is_its && is_stranger && ending.farewell.is_some() => {
                outbox.answer(ticket, beat.key, later(TROUBLE_WAIT, LaterReason::StoreTrouble));
            }
            Stage::Ended(ending) if !rules.has(Mutation::EndedIsRevived) => {
                outbox.answer(ticket, beat.key, inactive(InactiveReason::Ended(ending.end)));
            }
            Stage::Stopping => {
                outbox.answer(ticket, beat.key, inactive(InactiveReason::Ended(HolderEnd::Kicked)));
            }
            _ if !is_its => outbox.answer(ticket, beat.key, inactive(InactiveReason::KeyTaken)),
            Stage::Joining(joining) => {
                // Whoever repeats himself has given up waiting for the first answer. One with another token is older.
                if joining.beat.token == beat.token {
                    joining.ticket = ticket;
                    joining.beat = beat;
                }
            }
            _ if beat.token != Some(worker.token) => {
                let answer = worker.mismatch(now, rules, &mut beat);
                outbox.answer(ticket, beat.key, answer);
            }
            _ if may_succeed => {
                // What the store is being told about this worker comes first.
                let key = beat.key.clone();
                worker.waiting = Some(Box::new((ticket, beat)));
                if worker.enlisting.is_none() {
                    self.take_waiting(now, &key);
                }
            }
            _ => match larger_grant(worker, rules, beat.lease) {
                None => {
                    // A repeat does not wait for the store again: it gets what is durable, the one before it no answer.
                    worker.waiting = None;
                    accept(worker, rules, outbox, now, ticket, &mut beat);
                }
                Some(grant) => {
                    // A slow store must not cost a live worker the lease that it asks to make longer.
                    worker.expires = rules.expires(worker.expires, now, worker.durable_grant);
                    enlist(&beat.key, worker, grant, outbox);
                    worker.waiting = Some(Box::new((ticket, beat)));
                }
            },
        }
    }

    /// A worker that goes on from a living former key, or from a life of ours that we have no record of, is not new: it does
    /// not wait at the door.
    fn first_heartbeat(
        &mut self,
        now: Instant,
        ticket: Ticket,
        mut beat: Heartbeat,
        former: Option<WorkerKey>,
    ) {
        let key = beat.key.clone();
        // Another server may know it, or its workers may be about to be ours.
        let is_ours = self.rules.is_ours(now) && self.taking.is_empty();
        if !is_ours && !self.rules.has(Mutation::EnlistsWhenNotOurs) {
            return self.outbox.answer(ticket, key, later(TROUBLE_WAIT, LaterReason::StoreTrouble));
        }
        let is_from_before = self.rules.is_from_before(beat.token);
        if beat.token.is_some() && !is_from_before {
            return self.outbox.answer(ticket, key, inactive(InactiveReason::Unknown));
        }
        if is_from_before && self.rules.has(Mutation::UnknownIsNew) {
            beat =
                Heartbeat { token: None, full: None, binds: Vec::new(), digest: Digest::default(), ..beat };
        }
        if former.is_none()
            && !is_from_before
            && let Err(wait) = self.throttle.take(now)
        {
            return self.outbox.answer(ticket, key, later(wait, LaterReason::Throttled));
        }
        let grant = self.rules.grant(beat.lease);
        // One from before names its former again when it knows our token.
        let former = former.filter(|_| !is_from_before);
        let succession = former.map(|former| self.await_successor(former));
        let is_draining = self.drained.contains(&beat.nonce);
        let joining = Joining::new(ticket, beat, succession);
        let mut worker = Box::new(Entity { is_draining, ..Entity::joining(now, &self.rules, joining) });
        enlist(&key, &mut worker, grant, &mut self.outbox);
        self.workers.insert(key, worker);
        self.count_alive(now, 1);
    }

    /// The store made a worker or a larger grant durable, or did not.
    pub(super) fn enlisted(&mut self, now: Instant, key: WorkerKey, answer: Enlisted) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let Some(grant) = worker.enlisting.take() else { return };
        if answer == Enlisted::Known {
            worker.durable_grant = worker.durable_grant.max(grant);
        }
        let is_joining = matches!(worker.stage, Stage::Joining(_));
        match answer {
            // It may be known already, to the server whose workers we are about to get.
            Enlisted::Known if is_joining && !self.taking.is_empty() => {
                self.forget_joining(now, key, later(TROUBLE_WAIT, LaterReason::StoreTrouble));
            }
            Enlisted::Known if is_joining => self.joined(now, key),
            Enlisted::Terminal(end) if is_joining => {
                self.forget_joining(now, key, inactive(InactiveReason::Ended(end)));
            }
            Enlisted::Taken if is_joining => {
                self.forget_joining(now, key, inactive(InactiveReason::KeyTaken));
            }
            Enlisted::Elsewhere { address } if is_joining => {
                self.forget_joining(now, key, Answer::NotOwner { address });
            }
            Enlisted::Trouble if is_joining => {
                self.forget_joining(now, key, later(TROUBLE_WAIT, LaterReason::StoreTrouble));
            }
            Enlisted::Known | Enlisted::Trouble => self.take_waiting(now, &key),
            Enlisted::Terminal(end) => self.end_as_told(now, key, end),
            Enlisted::Taken => self.disown(now, key, inactive(InactiveReason::KeyTaken)),
            Enlisted::Elsewhere { address } => self.disown(now, key, Answer::NotOwner { address }),
        }
    }

    /// A heartbeat with the right token need not wait for the store any more.
    fn take_waiting(&mut self, now: Instant, key: &WorkerKey) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        let Some(waiting) = worker.waiting.take() else { return };
        let may_succeed = worker.may_succeed(&waiting.1);
        let (ticket, mut beat) = *waiting;
        if may_succeed && let Some(former) = self.living_former(&beat) {
            return self.rejoin(now, ticket, beat, former);
        }
        let Registry { rules, workers, outbox, .. } = self;
        let Some(worker) = workers.get_mut(key) else { return };
        accept(worker, rules, outbox, now, ticket, &mut beat);
    }

    /// Answers a first heartbeat: the worker lives from now on.
    pub(super) fn activate(&mut self, now: Instant, key: WorkerKey) {
        let Registry { rules, workers, outbox, timers, .. } = self;
        let Some(worker) = workers.get_mut(&key) else { return };
        let joining = match std::mem::replace(&mut worker.stage, Stage::Active(Sync::Done)) {
            Stage::Joining(joining) => joining,
            other => {
                worker.stage = other;
                return;
            }
        };
        let Joining { ticket, mut beat, behind, .. } = *joining;
        if rules.is_from_before(beat.token) {
            let answer = worker.receive(now, rules, &mut beat);
            outbox.answer(ticket, key.clone(), answer);
        } else {
            accept(worker, rules, outbox, now, ticket, &mut beat);
        }
        worker.lease_timer = worker.expires;
        timers.arm(worker.expires, Timer::Lease, key);
        self.active += 1;
        for input in behind {
            self.handle(now, input);
        }
    }

    /// A first heartbeat came to nothing: whoever waits is told, and it is as if it had never come.
    fn forget_joining(&mut self, now: Instant, key: WorkerKey, answer: Answer) {
        let Some(worker) = self.workers.remove(&key) else { return };
        self.count_alive(now, -1);
        let Stage::Joining(joining) = worker.stage else { return };
        if let Some(succession) = joining.succession {
            self.give_up(succession);
        }
        self.outbox.answer(joining.ticket, key, answer);
        for input in joining.behind {
            self.handle(now, input);
        }
    }
}

/// The grant that must be durable before this wish is answered, unless the store is being told one already.
fn larger_grant(worker: &mut Entity, rules: &Rules, wish: Duration) -> Option<Duration> {
    let grant = rules.grant(wish);
    if rules.has(Mutation::LargerGrantNotDurable) {
        worker.durable_grant = worker.durable_grant.max(grant);
    }
    (grant > worker.durable_grant && worker.enlisting.is_none()).then_some(grant)
}

fn accept(
    worker: &mut Entity,
    rules: &Rules,
    outbox: &mut Outbox,
    now: Instant,
    ticket: Ticket,
    beat: &mut Heartbeat,
) {
    let mut says_all = beat.full.is_some();
    let ack = worker.accept(now, rules, beat);
    outbox.check(&beat.key, worker);
    outbox.answer(ticket, beat.key.clone(), Answer::Ok(ack));
    if rules.is_ours(now) {
        says_all |= std::mem::take(&mut worker.owes_bound);
    }
    let mut bound = worker.bindings.bound_by(&beat.binds, says_all);
    outbox.withhold(now, rules, &beat.key, worker, &mut bound);
    if !bound.is_empty() {
        outbox.push(Output::Bound { key: beat.key.clone(), holds: bound });
    }
    outbox.synced(&beat.key, worker, rules);
}

fn enlist(key: &WorkerKey, worker: &mut Entity, grant: Duration, outbox: &mut Outbox) {
    worker.enlisting = Some(grant);
    let profile = worker.profile.clone();
    outbox.push(Output::Enlist { key: key.clone(), nonce: worker.nonce, grant, profile });
}

fn inactive(why: InactiveReason) -> Answer {
    Answer::Inactive { why }
}

fn later(retry_after: Duration, why: LaterReason) -> Answer {
    Answer::Later { retry_after, why }
}
