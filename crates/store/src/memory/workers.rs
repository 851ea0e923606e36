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

#[derive(Default)]
struct Worker {
    enlisted: Option<Enlist>,
    ended: Option<(HolderEnd, WallTime)>,
}

impl Workers {
    pub(super) fn is_terminal(&self, key: &WorkerKey) -> bool {
        self.end_of(key).is_some()
    }

    pub(super) fn registry_of(&self, key: &WorkerKey) -> Option<RegistryId> {
        self.enlisted(key)?.registry
    }

    pub(super) fn get(&self, key: &WorkerKey) -> Option<KnownWorker> {
        let Worker { enlisted, ended } = self.known.get(key)?;
        let worker = enlisted.clone().unwrap_or_else(|| Enlist {
            key: key.clone(),
            nonce: Nonce::default(),
            registry: None,
            grant: Duration::ZERO,
            name: String::new(),
        });
        Some(KnownWorker { worker, ended: *ended })
    }

    fn enlisted(&self, key: &WorkerKey) -> Option<&Enlist> {
        self.known.get(key)?.enlisted.as_ref()
    }

    fn end_of(&self, key: &WorkerKey) -> Option<HolderEnd> {
        Some(self.known.get(key)?.ended?.0)
    }

    fn set_end(&mut self, key: &WorkerKey, ended: Option<(HolderEnd, WallTime)>) {
        let worker = self.known.entry(key.clone()).or_default();
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
        if let Some(known) = self.workers.enlisted(&new.key) {
            let is_same = self.guard(Mutation::EnlistIgnoresNonce, known.nonce == new.nonce)
                && self.guard(Mutation::EnlistIgnoresRegistry, known.registry == new.registry);
            if !is_same {
                return EnlistAnswer::Taken;
            }
        }
        let shrinks = self.has(Mutation::EnlistShrinksGrant);
        match &mut self.workers.known.entry(new.key.clone()).or_default().enlisted {
            Some(known) if shrinks => known.grant = new.grant,
            Some(known) => known.grant = known.grant.max(new.grant),
            enlisted @ None => *enlisted = Some(new),
        }
        EnlistAnswer::Known
    }

    pub(super) fn roster(&self, registry: Option<RegistryId>) -> Vec<Enlist> {
        let workers = self.workers.known.values();
        let living =
            workers.filter(|worker| self.guard(Mutation::RosterShowsTerminal, worker.ended.is_none()));
        let ours = living
            .filter_map(|worker| worker.enlisted.as_ref())
            .filter(|worker| self.guard(Mutation::RosterShowsOthers, worker.registry == registry));
        ours.cloned().collect()
    }

    pub(super) fn retire(&mut self, now: Now, holder: &WorkerKey, end: HolderEnd) {
        let is_first = !self.workers.is_terminal(holder);
        if self.guard(Mutation::RetireRewritesEnd, is_first) {
            self.workers.set_end(holder, Some((end, now.wall)));
        }
    }

    pub(super) fn readmit(&mut self, holder: &WorkerKey) {
        let Some(worker) = self.workers.enlisted(holder) else {
            return;
        };
        let is_silent = self.workers.end_of(holder) == Some(HolderEnd::Silent);
        let may_return = self.guard(Mutation::ReadmitOfRegistry, worker.registry.is_none())
            && self.guard(Mutation::ReadmitWhateverTheEnd, is_silent)
            && self.guard(Mutation::ReadmitWhileHolding, !self.index.held.contains_key(holder));
        if may_return {
            self.workers.set_end(holder, None);
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
                let row = self.jobs.get(&hold.job);
                if row.is_some_and(|row| self.stands(&row.job, former, *hold)) {
                    self.change(hold.job, |row| {
                        row.job.holder = Some(successor.clone());
                        row.exclusive &= keeps_exclusive;
                    });
                }
            }
            if !self.has(Mutation::SucceedKeepsFormer) {
                self.retire(now, former, HolderEnd::Succeeded);
            }
        }
        // Asked of the rows and not noted above, so that a repeat answers as the first time.
        let has_gone_on = self.workers.end_of(former) == Some(HolderEnd::Succeeded);
        let is_held =
            |hold: &Hold| self.jobs.get(&hold.job).is_some_and(|row| self.stands(&row.job, successor, *hold));
        holds.iter().map(|hold| has_gone_on && is_held(hold)).collect()
    }

    /// Forgets at most `limit` terminal workers that ended at or before `until` and hold nothing, and says how many.
    pub(super) fn purge_workers(&mut self, until: WallTime, limit: usize) -> usize {
        let ended = self.workers.ended.iter();
        let past = ended.take_while(|(at, _)| self.guard(Mutation::PurgeForgetsWorkersAtOnce, *at <= until));
        let idle = past
            .filter(|(_, key)| self.guard(Mutation::PurgeForgetsHolders, !self.index.held.contains_key(key)));
        let gone: Vec<(WallTime, WorkerKey)> = idle.take(limit).cloned().collect();
        for entry in &gone {
            self.workers.ended.remove(entry);
            self.workers.known.remove(&entry.1);
        }
        gone.len()
    }

    fn may_succeed(&self, former: &WorkerKey, successor: &WorkerKey) -> bool {
        let workers = &self.workers;
        let both_enlisted = workers.enlisted(former).is_some() && workers.enlisted(successor).is_some();
        self.guard(Mutation::SucceedNotEnlisted, both_enlisted)
            && self.guard(Mutation::SucceedFromTerminal, !workers.is_terminal(former))
            && self.guard(Mutation::SucceedToTerminal, !workers.is_terminal(successor))
            && self.guard(Mutation::SucceedItself, former != successor)
    }
}
