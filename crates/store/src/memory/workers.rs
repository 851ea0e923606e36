//! Who may hold jobs: `enlist`, `roster`, `retire`, `readmit`, and `succeed`, by which one worker goes on as another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Hold, HolderEnd, Nonce, RegistryId, WallTime, WorkerKey};

use super::clock::Now;
use super::mutation::Mutation;
use super::tables::Tables;
use crate::port::{Enlist, EnlistAnswer, KnownWorker};

/// Everyone who was enlisted or retired. A holder that only ever claimed is not here.
#[derive(Default)]
pub(super) struct Workers {
    known: BTreeMap<WorkerKey, Worker>,
    /// The terminal ones by the time they ended.
    ended: BTreeSet<(WallTime, WorkerKey)>,
}

struct Worker {
    /// Only the key and the registry mean something if it was never enlisted.
    who: Enlist,
    is_enlisted: bool,
    ended: Option<(HolderEnd, WallTime)>,
}

impl Workers {
    pub(super) fn is_terminal(&self, key: &WorkerKey) -> bool {
        self.end_of(key).is_some()
    }

    /// The registry a holder is in: where it was enlisted, else the one that retired it.
    pub(super) fn registry_of(&self, key: &WorkerKey) -> Option<RegistryId> {
        Some(self.known.get(key)?.who.registry)
    }

    pub(super) fn get(&self, key: &WorkerKey) -> Option<KnownWorker> {
        self.known.get(key).map(|worker| KnownWorker { worker: worker.who.clone(), ended: worker.ended })
    }

    /// An enlisted worker that is not terminal.
    pub(super) fn living(&self, key: &WorkerKey) -> Option<&Enlist> {
        self.enlisted(key).filter(|_| !self.is_terminal(key))
    }

    /// Moves those of one registry to another, the terminal ones only if `everybody`, and answers who they are.
    pub(super) fn move_all(&mut self, from: RegistryId, by: RegistryId, everybody: bool) -> Vec<WorkerKey> {
        let theirs = self.known.iter_mut().filter(|(_, worker)| worker.who.registry == from);
        let moving = theirs.filter(|(_, worker)| everybody || worker.ended.is_none());
        moving
            .map(|(key, worker)| {
                worker.who.registry = by;
                key.clone()
            })
            .collect()
    }

    fn enlisted(&self, key: &WorkerKey) -> Option<&Enlist> {
        self.known.get(key).filter(|worker| worker.is_enlisted).map(|worker| &worker.who)
    }

    fn end_of(&self, key: &WorkerKey) -> Option<HolderEnd> {
        Some(self.known.get(key)?.ended?.0)
    }

    /// Sets the end of a holder, which is entered under this registry if it is not known.
    fn set_end(&mut self, key: &WorkerKey, ended: Option<(HolderEnd, WallTime)>, registry: RegistryId) {
        let worker = self.known.entry(key.clone()).or_insert_with(|| Worker {
            who: Enlist {
                key: key.clone(),
                nonce: Nonce::default(),
                registry,
                pings: false,
                grant: Duration::ZERO,
                name: String::new(),
            },
            is_enlisted: false,
            ended: None,
        });
        if let Some((_, before)) = std::mem::replace(&mut worker.ended, ended) {
            self.ended.remove(&(before, key.clone()));
        }
        if let Some((_, at)) = ended {
            self.ended.insert((at, key.clone()));
        }
    }
}

impl Tables {
    pub(super) fn enlist(&mut self, new: Enlist) -> EnlistAnswer {
        if let Some(end) = self.workers.end_of(&new.key)
            && !self.has(Mutation::EnlistIgnoresEnd)
        {
            return EnlistAnswer::Terminal(end);
        }
        if !self.guard(Mutation::EnlistByGoneRegistry, self.is_living(new.registry)) {
            return EnlistAnswer::Disowned;
        }
        let shrinks = self.has(Mutation::EnlistShrinksGrant);
        let Some(known) = self.workers.enlisted(&new.key) else {
            let key = new.key.clone();
            let ended = self.workers.known.get(&key).and_then(|retired| retired.ended);
            self.workers.known.insert(key.clone(), Worker { who: new, is_enlisted: true, ended });
            self.follow(&key, false);
            return EnlistAnswer::Known;
        };
        let is_same = self.guard(Mutation::EnlistIgnoresNonce, known.nonce == new.nonce)
            && self.guard(Mutation::EnlistIgnoresPings, known.pings == new.pings);
        if !is_same {
            return EnlistAnswer::Taken;
        }
        if !self.guard(Mutation::EnlistIgnoresRegistry, known.registry == new.registry) {
            return EnlistAnswer::Elsewhere(known.registry);
        }
        let grant = if shrinks { new.grant } else { known.grant.max(new.grant) };
        self.workers.known.get_mut(&new.key).expect("it was just found").who.grant = grant;
        EnlistAnswer::Known
    }

    pub(super) fn roster(&self, registry: RegistryId) -> Vec<Enlist> {
        let workers = self.workers.known.values().filter(|worker| worker.is_enlisted);
        let living =
            workers.filter(|worker| self.guard(Mutation::RosterShowsTerminal, worker.ended.is_none()));
        let ours = living
            .map(|worker| &worker.who)
            .filter(|worker| self.guard(Mutation::RosterShowsOthers, worker.registry == registry));
        ours.cloned().collect()
    }

    pub(super) fn retire(&mut self, now: Now, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> bool {
        let known_in = self.workers.registry_of(holder);
        let may_judge = self
            .guard(Mutation::RetireWithoutRegistryCheck, known_in.is_none_or(|registry| registry == by))
            && self.guard(Mutation::RetireByGoneRegistry, known_in.is_some() || self.is_living(by));
        if may_judge {
            let is_first = !self.workers.is_terminal(holder);
            if self.guard(Mutation::RetireRewritesEnd, is_first) {
                self.workers.set_end(holder, Some((end, now.wall)), by);
            }
            if known_in.is_none() {
                self.follow(holder, false);
            }
        }
        may_judge
    }

    pub(super) fn readmit(&mut self, holder: &WorkerKey, registry: RegistryId) {
        let Some(worker) = self.workers.enlisted(holder) else {
            return;
        };
        let is_silent = self.workers.end_of(holder) == Some(HolderEnd::Silent);
        let may_return = self.guard(Mutation::ReadmitWithLease, worker.pings)
            && self.guard(Mutation::ReadmitByAnotherRegistry, worker.registry == registry)
            && self.guard(Mutation::ReadmitWhateverTheEnd, is_silent)
            && self.guard(Mutation::ReadmitWhileHolding, self.index.held.get(holder).is_none());
        if may_return {
            self.workers.set_end(holder, None, registry);
        }
    }

    pub(super) fn succeed(
        &mut self,
        now: Now,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: &[Hold],
    ) -> Vec<bool> {
        let keeps_exclusive = !self.has(Mutation::SucceedForgetsExclusive);
        if self.may_succeed(former, successor) {
            for hold in holds {
                let row = self.jobs.get(hold.job);
                if row.is_some_and(|row| self.stands(row, former, *hold)) {
                    let registry = self.workers.registry_of(successor);
                    self.change(hold.job, |row| {
                        row.holder = Some(successor.clone());
                        row.registry = registry;
                        row.adopted = false;
                        row.exclusive &= keeps_exclusive;
                    });
                }
            }
            if !self.has(Mutation::SucceedKeepsFormer) {
                let by = self.workers.registry_of(former).unwrap_or_default();
                self.retire(now, former, HolderEnd::Succeeded, by);
            }
        }
        // Asked of the rows and not noted above, so that a repeat answers as the first time.
        let has_gone_on = self.workers.end_of(former) == Some(HolderEnd::Succeeded);
        let is_held =
            |hold: &Hold| self.jobs.get(hold.job).is_some_and(|row| self.stands(row, successor, *hold));
        holds.iter().map(|hold| has_gone_on && is_held(hold)).collect()
    }

    /// Forgets at most `limit` terminal workers that ended at or before `until` and hold nothing, and says how many.
    pub(super) fn purge_workers(&mut self, until: WallTime, limit: usize) -> usize {
        let ended = self.workers.ended.iter();
        let past = ended.take_while(|(at, _)| self.guard(Mutation::PurgeForgetsWorkersAtOnce, *at <= until));
        let idle = past
            .filter(|(_, key)| self.guard(Mutation::PurgeForgetsHolders, self.index.held.get(key).is_none()));
        let gone: Vec<(WallTime, WorkerKey)> = idle.take(limit).cloned().collect();
        for entry in &gone {
            self.workers.ended.remove(entry);
            self.workers.known.remove(&entry.1);
        }
        gone.len()
    }

    fn may_succeed(&self, former: &WorkerKey, successor: &WorkerKey) -> bool {
        let workers = &self.workers;
        let registry_of = |key| workers.enlisted(key).map(|worker| worker.registry);
        let are_apart =
            matches!((registry_of(former), registry_of(successor)), (Some(one), Some(other)) if one != other);
        let both_enlisted = workers.enlisted(former).is_some() && workers.enlisted(successor).is_some();
        self.guard(Mutation::SucceedNotEnlisted, both_enlisted)
            && self.guard(Mutation::SucceedAcrossRegistries, !are_apart)
            && self.guard(Mutation::SucceedFromTerminal, !workers.is_terminal(former))
            && self.guard(Mutation::SucceedToTerminal, !workers.is_terminal(successor))
            && self.guard(Mutation::SucceedItself, former != successor)
    }
}
