//! Registries in the eyes of the world: who has which, and what it means when one goes to another server.

use lease::registry::WorkerState;
use model::{RegistryId, WorkerKey};

use super::laws::{left_without_owner, two_owners};
use super::server::Server;
use super::setup::worker_node;
use super::world::World;

impl World<'_> {
    /// Whether the very life of a server that founded this registry lives and has it.
    fn is_tended(&self, registry: RegistryId) -> bool {
        let Some(book) = self.outside.books.registry(registry) else { return false };
        let server = &self.servers[book.server];
        server.process.is_up() && server.process.life() == book.life && server.registry_id() == Some(registry)
    }

    /// Whether the registry that this key is in has nobody who tends it.
    pub(super) fn is_orphan(&self, key: &WorkerKey) -> bool {
        self.outside.books.owner_of(key).is_some_and(|owner| !self.is_tended(owner))
    }

    /// Whether the key is over in the store, or by the word of the registry that it is in.
    pub(super) fn is_over_for_its_owner(&self, key: &WorkerKey) -> bool {
        let Some(owner) = self.outside.books.owner_of(key) else { return true };
        let server = self.owner_of(key).map(|server| &self.servers[server]);
        let server = server.filter(|server| server.registry_id() == Some(owner));
        let state = server.and_then(|server| server.state_of(key));
        matches!(state, Some(WorkerState::Ended(_) | WorkerState::Stopping))
    }

    /// The server whose registry this key is in.
    pub(super) fn owner_of(&self, key: &WorkerKey) -> Option<usize> {
        let owner = self.outside.books.key(key).registry?;
        self.outside.books.registry(owner).map(|book| book.server)
    }

    /// A beat is committed: its server sees all the others, and takes over what nobody has.
    pub(super) fn beaten(&mut self, registry: RegistryId) {
        let now = self.outside.now;
        let tended: Vec<bool> = {
            let ids: Vec<RegistryId> = self.outside.books.registries_mut().map(|(id, _)| id).collect();
            ids.into_iter().map(|id| self.is_tended(id)).collect()
        };
        let began = self.outside.books.registry(registry).map_or(now, |book| book.founded_at);
        let calm_since = self.chaos.trouble_of_servers().max(began);
        let mut verdict = Ok(());
        for ((id, book), is_tended) in self.outside.books.registries_mut().zip(tended) {
            if is_tended {
                book.tended_at = now;
            }
            let since = book.tended_at.max(calm_since);
            verdict = verdict.and(left_without_owner::check_in_time(id, since, now));
        }
        self.outside.judge(verdict);
    }

    /// A registry goes to another server.
    pub(super) fn taken_over(&mut self, from: RegistryId, by: RegistryId, workers: usize) {
        let now = self.outside.now;
        self.outside.tell(|| format!("registry {} goes to registry {} with {workers} workers", from.0, by.0));
        let is_tended = self.is_tended(from);
        let book = self.outside.books.registry(from);
        let server = book.map(|book| &self.servers[book.server]).filter(|_| is_tended);
        let owned_until = server.and_then(Server::owned_until);
        let calm_since = self.chaos.trouble_of_servers();
        let lost = book.filter(|book| !is_tended && book.tended_at > calm_since);
        let alone = lost.map(|book| now.since(book.tended_at).as_nanos() as u64);
        if let Some(owned_until) = owned_until {
            self.outside.stats.note_ownership_margin(two_owners::margin(now, owned_until));
            self.outside.judge(two_owners::check_take_over(from, now, owned_until));
        }
        if workers > 0 {
            self.outside.stats.take_overs += 1;
            self.outside.stats.take_over_times.extend(alone);
        }
        let moved = self.outside.books.taken_over(from, by);
        // Those whose server lives may well have been heard by it all the time.
        for node in moved.into_iter().filter(|_| !is_tended).map(worker_node) {
            self.chaos.was_alone(node, now);
        }
    }
}
