//! A worker whose key lapsed by its own clock, and that goes on under a new one before we gave its work away: its holds
//! move with it, in one commit that also retires the former key. Until that is decided its first heartbeat is unanswered.

use model::{Hold, HolderEnd, Instant, WorkerKey};

use super::backoff::Backoff;
use super::entity::{Entity, Joining, Stage};
use super::io::Output;
use super::machine::Registry;
use super::timers::{Due, Timer};

/// A move of holds from a former key.
#[derive(Debug)]
pub(super) struct Succession {
    former: WorkerKey,
    turn: Turn,
    backoff: Backoff,
}

#[derive(Debug)]
enum Turn {
    /// The store was asked to move these, in this order.
    UnderWay(Vec<Hold>),
    /// The store failed.
    PausedUntil(Instant),
}

impl Registry {
    /// A new worker is durable: moves the holds of its former key, if that is still alive, and answers.
    pub(super) fn joined(&mut self, now: Instant, key: WorkerKey) {
        match self.living_former(&key) {
            Some(former) => self.succeed(key, former, Backoff::default()),
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
        // What moved is this worker's as if it had just been granted; what did not is refused whenever it is bound.
        for (hold, moved) in asked.into_iter().zip(moved) {
            if moved {
                worker.bindings.record([hold]);
            } else if let Some(at) = worker.bindings.refuse(now, hold) {
                self.timers.arm(at, Timer::Unmark, key.clone());
            }
        }
        if self.workers.get(&former).is_some_and(|worker| worker.is_active()) {
            self.end(now, &former, HolderEnd::Succeeded, None);
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
        let (former, backoff) = (succession.former.clone(), succession.backoff);
        if self.workers.get(&former).is_some_and(|worker| worker.is_active()) {
            self.succeed(due.key, former, backoff);
        } else {
            self.activate(now, due.key);
        }
    }

    /// Asks the store to move everything that the first heartbeat says is held.
    fn succeed(&mut self, key: WorkerKey, former: WorkerKey, backoff: Backoff) {
        let Some(joining) = self.workers.get_mut(&key).and_then(|worker| joining_of(worker)) else { return };
        let mut holds = joining.beat.full.clone().unwrap_or_default();
        // One answer for each: a hold that is named twice must not move and not move.
        holds.sort_unstable();
        holds.dedup();
        let turn = Turn::UnderWay(holds.clone());
        joining.succession = Some(Succession { former: former.clone(), turn, backoff });
        if let Some(worker) = self.workers.get_mut(&former) {
            worker.has_successor = true;
        }
        self.outbox.push(Output::Succeed { former, key, holds });
    }

    /// The former key of a joining worker, if it is alive and was the same process.
    fn living_former(&mut self, key: &WorkerKey) -> Option<WorkerKey> {
        let former = joining_of(self.workers.get_mut(key)?)?.beat.former.clone()?;
        let worker = self.workers.get(&former.key)?;
        (worker.is_active() && worker.nonce == former.nonce).then_some(former.key)
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
