//! Who may speak for a worker's key on a stream. A key is no secret: every job has it in its environment. The nonce is, and
//! only the process that drew both knows it.

use model::{Nonce, WorkerKey};

use super::entity::Stage;
use super::machine::Registry;
use super::mutation::Mutation;

/// Whether the process with this nonce may speak for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// It is the worker.
    Worker,
    /// It is not: another process has this key. Nothing it says may be believed.
    Impostor,
    /// Nobody has this key yet, as far as is known here. Only a heartbeat may be taken until the registry has taken one.
    Unknown,
}

impl Speaker {
    /// The same by a record of which process has the key, if there is one.
    pub fn by_record(nonce: Nonce, on_record: Option<Nonce>) -> Speaker {
        match on_record {
            None => Speaker::Unknown,
            Some(known) if known == nonce => Speaker::Worker,
            Some(_) => Speaker::Impostor,
        }
    }
}

impl Registry {
    /// Whether this process may speak for this key, as far as this registry knows. Where workers outlive a registry, their
    /// store must be asked about those that are unknown here.
    pub fn speaker(&self, key: &WorkerKey, nonce: Nonce) -> Speaker {
        let Some(worker) = self.workers.get(key) else { return Speaker::Unknown };
        if self.rules.has(Mutation::NonceIgnored) {
            return Speaker::Worker;
        }
        // Until the store has taken the first heartbeat, or the word of somebody who never sent one, its nonce is only a claim.
        let is_settled = match &worker.stage {
            Stage::Joining(_) | Stage::Ended(_) => !worker.is_stranger(),
            Stage::Active(_) | Stage::Stopping => true,
        };
        Speaker::by_record(nonce, is_settled.then_some(worker.nonce))
    }
}
