//! The roll of workers that a server has while a registry is its own: the machine, and who waits for its answers.

use std::collections::BTreeMap;
use std::time::Duration;

use lease::message::Generation;
use lease::registry::{self, Registry, Ticket};
use model::{Instant, RegistryId};
use store::Enlist;

use super::super::laws::bind_undone::{Acknowledged, Changes};
use super::super::mutation::Mutation;
use super::super::setup::{LEASE_MAX, LEASE_MIN, Setup};
use crate::net::ConnectionId;

/// The lease of a worker that asks for none.
const LEASE_DEFAULT: Duration = Duration::from_secs(6);
/// How long ended workers are remembered.
const REMEMBER_ENDED: Duration = Duration::from_secs(60);

pub(super) struct Roll {
    pub(super) id: RegistryId,
    pub(super) registry: Registry,
    /// Until when it is ours for certain.
    pub(super) owned_until: Instant,
    /// Who waits for an answer of the registry.
    pub(super) tickets: BTreeMap<Ticket, Waiting>,
    pub(super) acknowledged: Acknowledged,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// `None` for an operator.
    pub(super) connection: Option<ConnectionId>,
    /// Of the heartbeat.
    pub(super) number: u64,
    pub(super) changes: Changes,
    /// It waits on a connection of its own.
    pub(super) is_call: bool,
    /// The registry did not know whose heartbeat it is.
    pub(super) is_stranger: bool,
    /// The store had the worker in this registry, or in none, when the heartbeat was read.
    pub(super) by_owner: bool,
}

impl Roll {
    /// A new registry, with nobody in it.
    pub(super) fn begin(now: Instant, id: RegistryId, setup: &Setup) -> Self {
        let terms = registry::Terms {
            registry: id,
            generation: generation(id),
            lease_default: LEASE_DEFAULT,
            lease_min: LEASE_MIN,
            lease_max: LEASE_MAX,
            rate_error: setup.rate_error(),
            verify_after: setup.verify_after,
            registrations_per_second: setup.registrations_per_second,
            remember_ended: REMEMBER_ENDED,
            durable: true,
            inherited_lease: Duration::ZERO,
        };
        let mut registry = match setup.mutation.and_then(Mutation::of_registry) {
            Some(mutation) => Registry::broken(terms, mutation),
            None => Registry::new(terms),
        };
        registry.handle(now, registry::Input::Restored(Vec::new()));
        Roll {
            id,
            registry,
            owned_until: now,
            tickets: BTreeMap::new(),
            acknowledged: Acknowledged::default(),
        }
    }

    pub(super) fn generation(&self) -> Generation {
        generation(self.id)
    }

    /// These workers are ours, by the word of the store. Those that are known already stay as they are.
    pub(super) fn restore(&mut self, now: Instant, workers: impl IntoIterator<Item = Enlist>) {
        let restored = workers.into_iter().map(|worker| registry::Restored {
            key: worker.key,
            nonce: worker.nonce,
            grant: worker.grant,
            name: worker.name,
        });
        self.registry.handle(now, registry::Input::Restored(restored.collect()));
    }
}

/// No two registries ever have the same id, so their ids tell the lives of servers apart.
fn generation(id: RegistryId) -> Generation {
    Generation(u64::from(id.0))
}
