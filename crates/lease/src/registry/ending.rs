//! How workers end: their lease runs out, they leave, they are kicked. The end is made durable by the store, which then
//! takes back what they held; that is asked for until it is done.

use model::{HolderEnd, Instant, Nonce, WorkerKey};

use super::bindings::Bindings;
use super::entity::{Entity, Farewell, Stage};
use super::io::{Input, Output, Ticket};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::{Due, Timer};
use crate::message::{Answer, InactiveReason};

/// Most ended workers that are remembered; beyond that the oldest are forgotten early.
const REMEMBERED_MAX: usize = 10_000;

impl Registry {
    /// A lease timer fired: the lease is over, or it was renewed meanwhile.
    pub(super) fn lease_due(&mut self, now: Instant, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        if !worker.is_active() || worker.lease_timer != due.at {
            return;
        }
        if worker.expires > now {
            worker.lease_timer = worker.expires;
            return self.timers.arm(worker.expires, Timer::Lease, due.key);
        }
        // The move of its holds ends it, however long that takes. Should that come to nothing, the timer is set anew.
        if worker.successors > 0 && !self.rules.has(Mutation::FormerExpires) {
            return;
        }
        self.end(now, &due.key, HolderEnd::Expired, None);
    }

    /// A worker goes.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        ticket: Ticket,
        key: WorkerKey,
        nonce: Option<Nonce>,
        all_stopped: bool,
    ) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return match nonce {
                None if all_stopped => self.retire_stranger(key, ticket),
                _ => self.outbox.leave_done(ticket),
            };
        };
        let ignores_nonce = self.rules.has(Mutation::NonceIgnored);
        if nonce.is_some_and(|nonce| nonce != worker.nonce && !ignores_nonce) {
            return self.outbox.leave_done(ticket);
        }
        let is_idle = worker.is_synced() && worker.bindings.is_idle();
        let may_go = all_stopped || is_idle || self.rules.has(Mutation::LeaveIgnoresRunningJobs);
        match &mut worker.stage {
            Stage::Ended { farewell: Some(farewell), .. } => farewell.tickets.push(ticket),
            Stage::Joining(joining) if nonce.is_some() => {
                joining.behind.push(Input::Leave { ticket, key, nonce, all_stopped });
            }
            Stage::Active(_) if nonce.is_some() && may_go => {
                self.end(now, &key, HolderEnd::Left, Some(ticket));
            }
            // It goes while jobs run: that is silence, and its lease decides.
            _ => self.outbox.leave_done(ticket),
        }
    }

    /// An operator wants a worker gone.
    pub(super) fn kick(&mut self, now: Instant, ticket: Ticket, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(&key) else { return self.outbox.leave_done(ticket) };
        match &mut worker.stage {
            Stage::Joining(joining) => joining.behind.push(Input::Kick { ticket, key }),
            Stage::Active(_) => self.end(now, &key, HolderEnd::Kicked, Some(ticket)),
            Stage::Ended { farewell: Some(farewell), .. } => farewell.tickets.push(ticket),
            Stage::Ended { farewell: None, .. } => self.outbox.leave_done(ticket),
        }
    }

    /// An active worker ends like this: at once for answers, durably as soon as the store can.
    pub(super) fn end(&mut self, now: Instant, key: &WorkerKey, end: HolderEnd, ticket: Option<Ticket>) {
        let farewell = Farewell { tickets: ticket.into_iter().collect(), ..Farewell::default() };
        self.close(now, key, end, Some(Box::new(farewell)));
        self.retire(key.clone());
    }

    /// The store says that an active worker has ended already.
    pub(super) fn end_as_told(&mut self, now: Instant, key: WorkerKey, end: HolderEnd) {
        self.close(now, &key, end, None);
        self.remember(now, key);
    }

    /// The store says that an active worker's key belongs to somebody else: it is not ours to judge or to remember.
    pub(super) fn disown(&mut self, now: Instant, key: WorkerKey) {
        let Some(worker) = self.workers.remove(&key) else { return };
        self.active -= 1;
        self.count_alive(now, -1);
        if let Some(waiting) = worker.waiting {
            let why = InactiveReason::KeyTaken;
            self.outbox.answer(waiting.0, key.clone(), Answer::Inactive { why });
        }
        self.outbox.push(Output::Ended { key, end: HolderEnd::Kicked });
    }

    /// The store carried out a retirement, or could not.
    pub(super) fn retired(&mut self, now: Instant, key: WorkerKey, done: bool) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let Stage::Ended { farewell, .. } = &mut worker.stage else { return };
        if done {
            let Some(farewell) = farewell.take() else { return };
            farewell.tickets.into_iter().for_each(|ticket| self.outbox.leave_done(ticket));
            return self.remember(now, key);
        }
        let Some(farewell) = farewell else { return };
        if !self.rules.has(Mutation::RetireAskedOnce) {
            let retry_at = now + farewell.backoff.next_delay();
            farewell.retry_at = Some(retry_at);
            self.timers.arm(retry_at, Timer::Retire, key);
        }
    }

    /// The pause after a failed retirement is over.
    pub(super) fn retire_due(&mut self, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        if let Stage::Ended { farewell: Some(farewell), .. } = &mut worker.stage
            && farewell.retry_at.take_if(|at| *at == due.at).is_some()
        {
            self.retire(due.key);
        }
    }

    /// Forgets whom nobody will ask about any more.
    pub(super) fn forget_ended(&mut self, now: Instant) {
        while self.remembered.front().is_some_and(|(at, _)| *at <= now) {
            self.forget_oldest();
        }
    }

    /// A holder that never heartbeat is gone. It is entered as ended, so that a repeat of its leave is recognised.
    fn retire_stranger(&mut self, key: WorkerKey, ticket: Ticket) {
        let mut stranger = Entity::stranger(&self.rules, HolderEnd::Left);
        if let Stage::Ended { farewell: Some(farewell), .. } = &mut stranger.stage {
            farewell.tickets.push(ticket);
        }
        self.workers.insert(key.clone(), Box::new(stranger));
        self.retire(key);
    }

    fn close(&mut self, now: Instant, key: &WorkerKey, end: HolderEnd, farewell: Option<Box<Farewell>>) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.stage = Stage::Ended { end, farewell };
        worker.enlisting = None;
        worker.bindings = Bindings::new(self.rules.mutation);
        if let Some(waiting) = worker.waiting.take() {
            let why = InactiveReason::Ended(end);
            self.outbox.answer(waiting.0, key.clone(), Answer::Inactive { why });
        }
        self.outbox.push(Output::Ended { key: key.clone(), end });
        self.active -= 1;
        self.count_alive(now, -1);
    }

    fn retire(&mut self, key: WorkerKey) {
        let Some(Stage::Ended { end, .. }) = self.workers.get(&key).map(|worker| &worker.stage) else {
            return;
        };
        self.outbox.push(Output::Retire { key, end: *end, counted: *end == HolderEnd::Expired });
    }

    fn remember(&mut self, now: Instant, key: WorkerKey) {
        self.remembered.push_back((now + self.rules.terms.remember_ended, key));
        if self.remembered.len() > REMEMBERED_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.remembered.pop_front() {
            self.workers.remove(&key);
        }
    }
}
