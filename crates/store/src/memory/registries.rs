//! Several servers on one store: `found`, `beat`, `take_over`, `resign`.

use std::collections::BTreeMap;

use model::{RegistryId, WorkerKey};

use super::mutation::Mutation;
use super::tables::Tables;
use crate::port::{Enlist, Peer, ServerInfo};

/// The registries of a shared store.
#[derive(Default)]
pub(super) struct Registries {
    /// The id given last; ids only grow.
    last: u32,
    living: BTreeMap<RegistryId, Peer>,
}

impl Tables {
    /// Whether this registry can still write. The only one of a store for one server always can.
    pub(super) fn is_living(&self, registry: RegistryId) -> bool {
        self.registries.as_ref().is_none_or(|registries| registries.living.contains_key(&registry))
    }

    pub(super) fn found(&mut self, server: ServerInfo) -> RegistryId {
        let reuses = self.has(Mutation::RegistryIdGivenAgain);
        let Some(registries) = &mut self.registries else {
            return RegistryId::ONLY;
        };
        registries.last = match registries.living.last_key_value() {
            Some((highest, _)) if reuses => highest.0 + 1,
            _ => registries.last + 1,
        };
        let registry = RegistryId(registries.last);
        registries.living.insert(registry, Peer { registry, server, beats: 0, resigned: false });
        registry
    }

    pub(super) fn beat(&mut self, registry: RegistryId) -> Option<Vec<Peer>> {
        let stays = self.has(Mutation::BeatDoesNotCount);
        let Some(registries) = &mut self.registries else {
            return Some(Vec::new());
        };
        registries.living.get_mut(&registry)?.beats += u64::from(!stays);
        Some(registries.living.values().cloned().collect())
    }

    pub(super) fn resign(&mut self, registry: RegistryId) {
        let registries = self.registries.as_mut();
        if let Some(peer) = registries.and_then(|registries| registries.living.get_mut(&registry)) {
            peer.resigned = true;
        }
    }

    pub(super) fn take_over(
        &mut self,
        from: RegistryId,
        beats_seen: u64,
        by: RegistryId,
    ) -> Option<Vec<Enlist>> {
        let taken = self.registries.as_ref()?.living.get(&from)?;
        let may_take = self.guard(Mutation::TakeOverWithoutBeatsCheck, taken.beats == beats_seen)
            && self.guard(Mutation::TakeOverByGoneRegistry, self.is_living(by))
            && self.guard(Mutation::TakeOverItself, from != by);
        if !may_take {
            return None;
        }
        let everybody = !self.has(Mutation::TakeOverLeavesTerminal);
        let moved: Vec<WorkerKey> = self.workers.move_all(from, by, everybody);
        let adopts = !self.has(Mutation::TakeOverCountsLosses);
        for key in &moved {
            self.follow(key, adopts);
        }
        if !self.has(Mutation::TakeOverLeavesRegistry) {
            self.registries.as_mut()?.living.remove(&from);
        }
        Some(moved.iter().filter_map(|key| self.workers.living(key)).cloned().collect())
    }

    /// Enters what a holder holds under the registry that it is in now.
    pub(super) fn follow(&mut self, holder: &WorkerKey, adopted: bool) {
        let registry = self.workers.registry_of(holder);
        for id in self.index.held_by(holder) {
            self.change(id, |row| {
                row.registry = registry;
                row.adopted |= adopted;
            });
        }
    }
}
