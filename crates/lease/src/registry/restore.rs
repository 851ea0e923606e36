//! Workers from before us: of this registry when we start, of another server's when we take them over.

use model::{Instant, RegistryId, WorkerKey};

use super::entity::{Entity, Stage};
use super::io::{Input, Restored};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::Timer;
use crate::message::Leave;

impl Registry {
    /// The store says that these are ours and alive. Whom we know already stays as it is.
    pub(super) fn restore(&mut self, now: Instant, known: Vec<Restored>) {
        self.is_restored = true;
        for known in known {
            let key = known.key.clone();
            let behind = self.make_room(now, &key);
            if self.workers.contains_key(&key) {
                continue;
            }
            let worker = Entity::restored(now, &self.rules, known);
            self.timers.arm(worker.lease_timer, Timer::Lease, key.clone());
            self.workers.insert(key, Box::new(worker));
            self.count_alive(now, 1);
            self.active += 1;
            for input in behind {
                self.handle(now, input);
            }
        }
        self.handle_postponed(now);
    }

    /// Nothing more comes from there. Whoever is still unknown is a stranger.
    pub(super) fn take_over_ended(&mut self, now: Instant, from: RegistryId) {
        self.taking.remove(&from);
        self.handle_postponed(now);
    }

    /// True for one whom we do not know, and who may be among those that are being taken over.
    pub(super) fn may_be_about_to_know(&self, key: &WorkerKey) -> bool {
        !self.taking.is_empty() && !self.knows(key) && !self.rules.has(Mutation::LeaveOverlooksTakeOver)
    }

    /// Whoever was known to another server before it was known to us may hold what we know nothing of. So a first heartbeat
    /// that is not answered yet counts for nothing here, nor does somebody's word that this worker, a stranger to us then, is
    /// gone. Gives back what must be heard again.
    fn make_room(&mut self, now: Instant, key: &WorkerKey) -> Vec<Input> {
        let is_in_the_way = |worker: &Entity| match &worker.stage {
            Stage::Joining(_) => !self.rules.has(Mutation::JoiningIsNotRestored),
            Stage::Ended(ending) => ending.farewell.is_some() && worker.is_stranger(),
            Stage::Active(_) | Stage::Stopping => false,
        };
        if !self.workers.get(key).is_some_and(|worker| is_in_the_way(worker)) {
            return Vec::new();
        }
        let Some(worker) = self.workers.remove(key) else { return Vec::new() };
        match worker.stage {
            Stage::Joining(joining) => {
                self.count_alive(now, -1);
                if let Some(succession) = joining.succession {
                    self.give_up(succession);
                }
                let beat = Input::Heartbeat { ticket: joining.ticket, beat: joining.beat };
                std::iter::once(beat).chain(joining.behind).collect()
            }
            Stage::Ended(ending) => {
                let (nonce, stopped_for) = (worker.nonce, now.since(ending.stopped_by));
                let leave = Leave { all_stopped: true, stopped_for, ..Leave::default() };
                let tickets = ending.farewell.into_iter().flat_map(|farewell| farewell.tickets);
                tickets.map(|ticket| Input::Leave { ticket, key: key.clone(), nonce, leave }).collect()
            }
            Stage::Active(_) | Stage::Stopping => Vec::new(),
        }
    }
}
