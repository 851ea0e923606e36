//! A worker whose key lapsed by its own clock, and that goes on under a new one before we gave its work away: its holds
//! move with it, in one commit that also retires the former key. Until that is decided its first heartbeat is unanswered.

use model::{Backoff, Hold, HolderEnd, Instant, WorkerKey};

use super::entity::{Entity, Joining, Stage};
use super::io::{Output, Ticket};
use super::machine::Registry;
use super::timers::{Due, Timer};
use crate::message::Heartbeat;

/// A move of holds from a former key.
#[derive(Debug)]
pub(super) struct Succession {
    former: WorkerKey,
    turn: Turn,
    backoff: Backoff,
}

#[derive(Debug)]
enum Turn {
    /// The new key is not durable yet.
    Waiting,
    /// The store was asked to move these, in this order.
    UnderWay(Vec<Hold>),
    /// The store failed.
    PausedUntil(Instant),
}

impl Registry {
    /// The former key that this heartbeat names, if it is alive and was the same process.
    pub(super) fn living_former(&self, beat: &Heartbeat) -> Option<WorkerKey> {
        let former = beat.former.as_ref().filter(|former| former.key != beat.key)?;
        let worker = self.workers.get(&former.key)?;
        (worker.is_active() && worker.nonce == former.nonce).then(|| former.key.clone())
    }

    /// A new key goes on from this living one, which cannot expire from now on.
    pub(super) fn await_successor(&mut self, former: WorkerKey) -> Succession {
        if let Some(worker) = self.workers.get_mut(&former) {
            worker.successors += 1;
        }
        Succession { former, turn: Turn::Waiting, backoff: Backoff::default() }
    }

    /// The new key came to nothing: if no other waits for the former's holds, its expiry counts again.
    pub(super) fn give_up(&mut self, succession: Succession) {
        let former = succession.former;
        let Some(worker) = self.workers.get_mut(&former) else { return };
        worker.successors = worker.successors.saturating_sub(1);
        if worker.is_active() && worker.successors == 0 {
            worker.lease_timer = worker.expires;
            self.timers.arm(worker.expires, Timer::Lease, former);
        }
    }

    /// A known worker names a living former: we restarted after the new key was durable and before the holds moved. They
    /// move now, as if the worker were still joining, and only then is its heartbeat accepted.
    pub(super) fn rejoin(&mut self, now: Instant, ticket: Ticket, beat: Heartbeat, former: WorkerKey) {
        let key = beat.key.clone();
        let succession = self.await_successor(former);
        let Some(worker) = self.workers.get_mut(&key) else { return };
        worker.stage = Stage::Joining(Box::new(Joining::new(ticket, beat, Some(succession))));
        self.active -= 1;
        self.joined(now, key);
    }

    /// A new key is durable: moves the holds of its former key, if that is still alive, and answers.
    pub(super) fn joined(&mut self, now: Instant, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let former = succession_of(worker).map(|succession| succession.former.clone());
        match former.filter(|former| self.workers.get(former).is_some_and(|worker| worker.is_active())) {
            Some(former) => self.succeed(key, former),
            // What it says it holds is checked against the rows, as after any bind.
            None => self.activate(now, key),
        }
    }

    /// The store moved the holds, or could not.
    pub(super) fn succeeded(&mut self, now: Instant, key: WorkerKey, moved: Option<Vec<bool>>) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let Some(succession) = succession_of(worker) else { return };
        let Turn::UnderWay(asked) = &mut succession.turn else { return };
        let Some(moved) = moved.filter(|moved| moved.len() == asked.len()) else {
            let until = now + succession.backoff.next_delay();
            succession.turn = Turn::PausedUntil(until);
            return self.timers.arm(until, Timer::Succeed, key);
        };
        let (asked, former) = (std::mem::take(asked), succession.former.clone());
        let exclusiveness = self.exclusiveness(&former, &asked);
        let Some(worker) = self.workers.get_mut(&key) else { return };
        for ((hold, moved), is_exclusive) in asked.into_iter().zip(moved).zip(exclusiveness) {
            match (moved, is_exclusive) {
                // It is this worker's as if it had just been granted. The worker has it already: whatever its number
                // was, it was seen.
                (true, Some(true)) => worker.bindings.record(now, vec![hold], &[hold], 0),
                (true, Some(false)) => worker.bindings.record(now, vec![hold], &[], 0),
                // As after a restart: without a record its row is asked.
                (true, None) => {}
                // It is refused whenever it is bound.
                (false, _) => {
                    if let Some(at) = worker.bindings.refuse(now, hold) {
                        self.timers.arm(at, Timer::Unmark, key.clone());
                    }
                }
            }
        }
        // A former that was kicked meanwhile ends as that.
        if let Some(worker) = self.workers.get(&former).filter(|worker| worker.is_active()) {
            // Its own clock ended its lease before its successor was heard of.
            let stopped_at = worker.runs_until(&self.rules).min(now);
            self.end(now, &former, HolderEnd::Succeeded, Some(stopped_at), None);
        }
        self.activate(now, key);
    }

    /// The pause after a failed move is over. The former may have ended meanwhile, by a kick.
    pub(super) fn succeed_due(&mut self, now: Instant, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        let Some(succession) = succession_of(worker) else { return };
        if !matches!(succession.turn, Turn::PausedUntil(until) if until == due.at) {
            return;
        }
        self.joined(now, due.key);
    }

    /// What is known of whether these holds of the former are exclusive.
    fn exclusiveness(&self, former: &WorkerKey, holds: &[Hold]) -> Vec<Option<bool>> {
        let worker = self.workers.get(former);
        let of = |hold: &Hold| worker.and_then(|worker| worker.bindings.exclusiveness(*hold));
        holds.iter().map(of).collect()
    }

    /// Asks the store to move everything that the heartbeat says is held.
    fn succeed(&mut self, key: WorkerKey, former: WorkerKey) {
        let Some(joining) = self.workers.get_mut(&key).and_then(|worker| joining_of(worker)) else { return };
        let Some(succession) = &mut joining.succession else { return };
        let mut holds = joining.beat.full.clone().unwrap_or_default();
        // One answer for each: a hold that is named twice must not move and not move.
        holds.sort_unstable();
        holds.dedup();
        succession.turn = Turn::UnderWay(holds.clone());
        self.outbox.push(Output::Succeed { former, key, holds });
    }
}

fn joining_of(worker: &mut Entity) -> Option<&mut Joining> {
    match &mut worker.stage {
        Stage::Joining(joining) => Some(joining),
        _ => None,
    }
}

fn succession_of(worker: &mut Entity) -> Option<&mut Succession> {
    joining_of(worker)?.succession.as_mut()
}
