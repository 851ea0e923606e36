//! How workers end: their lease runs out, or they leave. The end is made durable by the store, which then takes back what
//! they held; that is asked for until it is done.

use model::{HolderEnd, Instant, Nonce, WorkerKey};

use super::bindings::Bindings;
use super::entity::{Ending, Entity, Farewell, Stage};
use super::io::{Input, Output, Retired, Ticket};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::{Due, Timer};
use crate::message::{Answer, InactiveReason, Leave};

/// Most ended workers that are remembered; beyond that the oldest are forgotten early.
const REMEMBERED_MAX: usize = 10_000;

impl Registry {
    /// A lease timer fired: the lease is over, or it was renewed meanwhile.
    pub(super) fn lease_due(&mut self, now: Instant, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        let end = match worker.stage {
            Stage::Active(_) => HolderEnd::Expired,
            Stage::Stopping => HolderEnd::Kicked,
            Stage::Joining(_) | Stage::Ended(_) => return,
        };
        if worker.lease_timer != due.at {
            return;
        }
        let judged_from = self.rules.judged_from(worker.expires, worker.durable_grant);
        if judged_from > now {
            worker.lease_timer = judged_from;
            return self.timers.arm(judged_from, Timer::Lease, due.key);
        }
        if self.rules.suspends_judgement(now) {
            return self.overdue.push(due);
        }
        // The move of its holds ends it, however long that takes. Should that come to nothing, the timer is set anew.
        if worker.is_active() && worker.successors > 0 && !self.rules.has(Mutation::FormerExpires) {
            return;
        }
        self.end(now, &due.key, end, None, None);
    }

    /// A worker goes.
    pub(super) fn leave(&mut self, now: Instant, ticket: Ticket, key: WorkerKey, nonce: Nonce, leave: Leave) {
        let Some(worker) = self.workers.get_mut(&key) else {
            if !leave.all_stopped {
                return self.outbox.leave_done(ticket);
            }
            // Each costs the store a look, whoever says so: they come through the same door as new workers.
            return match self.throttle.take(now) {
                Ok(()) => self.retire_stranger(now, key, nonce, leave, ticket),
                Err(retry_after) => self.outbox.push(Output::LeaveLater { ticket, retry_after }),
            };
        };
        if nonce != worker.nonce && !self.rules.has(Mutation::NonceIgnored) {
            return self.outbox.leave_done(ticket);
        }
        let is_idle = worker.is_synced() && worker.bindings.is_idle();
        let may_go = leave.all_stopped || is_idle || self.rules.has(Mutation::LeaveIgnoresRunningJobs);
        // Its word on the past is worth something only together with its word that all has stopped.
        let has_stopped = leave.all_stopped || leave.exclusive_stopped;
        let stopped_at = if has_stopped { worker.stopped_at(now, &self.rules, &leave) } else { now };
        let is_only_word = leave.exclusive_stopped && !leave.all_stopped;
        match &mut worker.stage {
            Stage::Ended(ending) => {
                if has_stopped && std::mem::take(&mut ending.owes_word) {
                    let (ended_at, volatile) = (ending.at, ending.had_volatile);
                    self.outbox.push(Output::LateWord { key, ended_at, stopped_at, volatile });
                }
                self.outbox.leave_done_with(ending, ticket);
            }
            // Nothing of it has been handed over, and it is not this word that does.
            _ if is_only_word => self.outbox.leave_done(ticket),
            Stage::Joining(joining) => {
                joining.behind.push(Input::Leave { ticket, key, nonce, leave });
            }
            Stage::Active(_) if may_go => {
                let end = if leave.crashed { HolderEnd::Crashed } else { HolderEnd::Left };
                self.end(now, &key, end, Some(stopped_at), Some(ticket));
            }
            Stage::Stopping if leave.all_stopped => {
                self.end(now, &key, HolderEnd::Kicked, Some(stopped_at), Some(ticket));
            }
            // It goes while jobs run: that is silence, and its lease decides.
            _ => self.outbox.leave_done(ticket),
        }
    }

    /// A worker ends like this: at once for answers, durably as soon as the store can. When it had stopped everything is
    /// `stopped_at`, or what its lease says.
    pub(super) fn end(
        &mut self,
        now: Instant,
        key: &WorkerKey,
        end: HolderEnd,
        stopped_at: Option<Instant>,
        ticket: Option<Ticket>,
    ) {
        let Some(worker) = self.workers.get(key) else { return };
        let ending = Ending {
            end,
            at: now,
            stopped_by: stopped_at.unwrap_or_else(|| worker.runs_until(&self.rules)),
            unproven: stopped_at.is_none() && worker.clock_rate().is_some_and(|rate| rate.is_off),
            owes_word: stopped_at.is_none()
                && worker.heard.is_some()
                && worker.bindings.has_bound_exclusive(),
            had_volatile: worker.bindings.has_bound_volatile(),
            farewell: Some(Farewell::for_ticket(ticket)),
        };
        self.close(now, key, ending);
        self.retire(key.clone());
    }

    /// The store says that an active worker has ended already.
    pub(super) fn end_as_told(&mut self, now: Instant, key: WorkerKey, end: HolderEnd) {
        self.close(
            now,
            &key,
            Ending {
                end,
                at: now,
                stopped_by: now,
                unproven: false,
                owes_word: false,
                had_volatile: false,
                farewell: None,
            },
        );
        self.remember(now, key);
    }

    /// The store says that an active worker's key belongs to somebody else: it is not ours to judge or to remember. If it waits
    /// for an answer, it gets this one.
    pub(super) fn disown(&mut self, now: Instant, key: WorkerKey, answer: Answer) {
        let Some(worker) = self.workers.remove(&key) else { return };
        self.active -= 1;
        self.count_alive(now, -1);
        if let Some(waiting) = worker.waiting {
            self.outbox.answer(waiting.0, key.clone(), answer);
        }
        self.outbox.push(Output::Ended { key: key.clone(), end: HolderEnd::Kicked });
        // Somebody else's to wait for.
        self.outbox.push(Output::Gone { key });
    }

    /// The store carried out a retirement, or could not.
    pub(super) fn retired(&mut self, now: Instant, key: WorkerKey, answer: Retired) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let is_stranger = worker.is_stranger();
        let Stage::Ended(ending) = &mut worker.stage else { return };
        // Our own workers are asked for again: if their end is refused for good, our registry is gone, and we hear of that.
        let is_over = answer == Retired::Done || answer == Retired::Refused && is_stranger;
        if is_over {
            let Some(farewell) = ending.farewell.take() else { return };
            farewell.tickets.into_iter().for_each(|ticket| self.outbox.leave_done(ticket));
            match answer {
                Retired::Done => self.remember(now, key),
                // It was never ours to end: as if nothing had been said.
                _ => _ = self.workers.remove(&key),
            }
            return;
        }
        let Some(farewell) = &mut ending.farewell else { return };
        if !self.rules.has(Mutation::RetireAskedOnce) {
            let retry_at = now + farewell.backoff.next_delay();
            farewell.retry_at = Some(retry_at);
            self.timers.arm(retry_at, Timer::Retire, key);
        }
    }

    /// The pause after a failed retirement is over.
    pub(super) fn retire_due(&mut self, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        if let Stage::Ended(ending) = &mut worker.stage
            && let Some(farewell) = &mut ending.farewell
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
    fn retire_stranger(&mut self, now: Instant, key: WorkerKey, nonce: Nonce, leave: Leave, ticket: Ticket) {
        let ending = Ending {
            end: HolderEnd::Left,
            at: now,
            stopped_by: now - leave.stopped_for,
            unproven: false,
            owes_word: false,
            had_volatile: false,
            farewell: Some(Farewell::for_ticket(Some(ticket))),
        };
        let stranger = Entity::stranger(&self.rules, nonce, ending);
        self.workers.insert(key.clone(), Box::new(stranger));
        self.retire(key);
    }

    fn close(&mut self, now: Instant, key: &WorkerKey, ending: Ending) {
        self.dismiss(key, ending.end);
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.stage = Stage::Ended(Box::new(ending));
        worker.bindings = Bindings::new(self.rules.mutation);
        self.count_alive(now, -1);
        self.outbox.push(Output::Gone { key: key.clone() });
    }

    /// An active worker has no business here any more: whoever waits is told, its session ends.
    pub(super) fn dismiss(&mut self, key: &WorkerKey, end: HolderEnd) {
        let Some(worker) = self.workers.get_mut(key).filter(|worker| worker.is_active()) else { return };
        worker.enlisting = None;
        if let Some(waiting) = worker.waiting.take() {
            let why = InactiveReason::Ended(end);
            self.outbox.answer(waiting.0, key.clone(), Answer::Inactive { why });
        }
        self.outbox.push(Output::Ended { key: key.clone(), end });
        self.active -= 1;
    }

    fn retire(&mut self, key: WorkerKey) {
        let Some(worker) = self.workers.get(&key) else { return };
        let Stage::Ended(ending) = &worker.stage else { return };
        let (end, stopped_by, unproven) = (ending.end, ending.stopped_by, ending.unproven);
        let stranger = worker.is_stranger().then_some(worker.nonce);
        let counted = matches!(end, HolderEnd::Expired | HolderEnd::Crashed);
        self.outbox.push(Output::Retire { key, stranger, end, counted, stopped_by, unproven });
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
