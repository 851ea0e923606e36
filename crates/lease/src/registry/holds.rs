//! What happens to the holds of workers between their heartbeats: claims, early binds, cancellations, and what the rows
//! said.

use model::{Hold, Instant, Nonce, WorkerKey};

use super::bindings::{Findings, Standing};
use super::entity::{Stage, Sync};
use super::io::{HoldStanding, Output};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::{Due, Timer};
use crate::message::{Change, Stop, StopOrder};

/// Most processes whose order to drain is remembered; beyond that the oldest are forgotten, which may be given work again.
const DRAINED_MAX: usize = 1_000;

impl Registry {
    /// A worker binds without waiting for its next heartbeat.
    pub(super) fn bind(&mut self, now: Instant, key: &WorkerKey, nonce: Nonce, binds: Vec<Change>) {
        let Registry { rules, workers, outbox, .. } = self;
        let Some(worker) = workers.get_mut(key) else { return };
        if worker.nonce != nonce && !rules.has(Mutation::NonceIgnored) {
            return;
        }
        let lost = |bind: Change| Stop { hold: bind.hold, reason: StopOrder::Lost };
        let mut findings = Findings::default();
        match worker.stage {
            Stage::Active(sync) => {
                for bind in binds {
                    if rules.has(Mutation::RepeatedBindIgnored) && worker.bindings.is_repeat(bind) {
                        continue;
                    }
                    match worker.bindings.bind_early(bind) {
                        // Once its lease is over nothing may start. It repeats a bind that nobody answers.
                        Some(Standing::Held) if worker.expires > now => findings.bound.push(bind.hold),
                        Some(Standing::Held | Standing::Checking) => {}
                        // What is not in its set may be, once we know that.
                        None if sync == Sync::Awaited => {}
                        Some(Standing::Lost) | None => findings.stops.push(lost(bind)),
                    }
                }
            }
            Stage::Stopping => findings.stops.extend(binds.into_iter().map(lost)),
            Stage::Joining(_) | Stage::Ended(_) => return,
        }
        outbox.withhold(now, rules, key, worker, &mut findings.bound);
        outbox.tell(key, findings);
        outbox.check(key, worker);
    }

    /// The server claimed jobs for a worker. Without a record, as for a worker that we do not know yet, a bind is checked.
    pub(super) fn granted(
        &mut self,
        now: Instant,
        key: &WorkerKey,
        holds: Vec<Hold>,
        exclusive: &[Hold],
        last_start: u64,
    ) {
        if let Some(worker) = self.workers.get_mut(key)
            && matches!(worker.stage, Stage::Joining(_) | Stage::Active(_))
        {
            worker.bindings.record(now, holds, exclusive, last_start);
        }
    }

    /// Claims ended.
    pub(super) fn settled(&mut self, key: &WorkerKey, holds: &[Hold]) {
        if let Some(worker) = self.workers.get_mut(key) {
            worker.bindings.settle(holds);
        }
    }

    /// Someone cancelled a running job. If we do not know that this worker has it, the row tells when the worker binds it.
    pub(super) fn cancel(&mut self, key: WorkerKey, hold: Hold) {
        if let Some(worker) = self.workers.get_mut(&key)
            && let Some(stop) = worker.bindings.cancel(hold)
        {
            self.outbox.push(Output::Stop { key, stops: vec![stop] });
        }
    }

    /// An operator wants a worker to drain. It is the process that drains: its key may end before it hears of that.
    pub(super) fn drain(&mut self, key: &WorkerKey) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        worker.is_draining = true;
        let nonce = worker.nonce;
        // Those without a nonce cannot be told apart.
        if nonce == Nonce::default() || self.drained.contains(&nonce) {
            return;
        }
        if self.drained.len() == DRAINED_MAX {
            self.drained.pop_front();
        }
        self.drained.push_back(nonce);
    }

    /// The rows were asked.
    pub(super) fn checked(&mut self, now: Instant, key: WorkerKey, standings: Option<Vec<HoldStanding>>) {
        let Registry { rules, workers, outbox, timers, .. } = self;
        let Some(worker) = workers.get_mut(&key) else { return };
        let may_start = worker.is_active() && worker.expires > now;
        match standings.and_then(|standings| worker.bindings.checked(&standings)) {
            Some(mut findings) => {
                findings.bound.retain(|_| may_start);
                outbox.withhold(now, rules, &key, worker, &mut findings.bound);
                outbox.tell(&key, findings);
                outbox.check(&key, worker);
                worker.notice_sync();
                outbox.synced(&key, worker, rules);
            }
            None => {
                if let Some(until) = worker.bindings.check_failed(now) {
                    timers.arm(until, Timer::Check, key);
                }
            }
        }
    }

    /// The pause after a failed check is over.
    pub(super) fn check_due(&mut self, due: Due) {
        if let Some(worker) = self.workers.get_mut(&due.key) {
            worker.bindings.resume_checks(due.at);
            self.outbox.check(&due.key, worker);
        }
    }
}
