//! What this server is in charge of: its own registry of workers, and where the others' are.

use std::sync::{Arc, PoisonError, RwLock};

use lease::ownership::{Input, Output, Ownership, Sighting, Terms};
use model::{Instant, RegistryId};
use store::{Peer, ServerInfo, StoreError};

use crate::Past;

/// The present state of ownership, for whoever must know. Written by the heart alone.
#[derive(Default)]
pub(crate) struct Charge {
    state: RwLock<State>,
    note: Option<Arc<dyn Fn(RegistryId) + Send + Sync>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    registry: Option<RegistryId>,
    /// The servers there were when they were seen last.
    peers: Vec<Peer>,
    /// When the store was asked that told of them; `None` if our present registry has not asked yet.
    seen_at: Option<Instant>,
    /// Beats have failed since then.
    is_failing: bool,
    /// The registry of our last life, until somebody has dealt with it.
    last: Option<RegistryId>,
}

impl Charge {
    pub(crate) fn new(past: Past) -> Charge {
        let Past { last, note } = past;
        Charge { state: RwLock::new(State { last, ..State::default() }), note }
    }

    /// The registry of our last life, if it is among these and was ours by name and address; told once.
    pub(crate) fn take_last(&self, peers: &[Peer], ours: &ServerInfo) -> Option<RegistryId> {
        let last = self.write(|state| state.last.take())?;
        peers.iter().any(|peer| peer.registry == last && peer.server == *ours).then_some(last)
    }

    /// Our registry. An error while there is none: it is being founded, or was taken from us just now.
    pub(crate) fn registry(&self) -> Result<RegistryId, StoreError> {
        let registry = self.read(|state| state.registry);
        registry.ok_or_else(|| {
            StoreError::Unavailable("this server has no registry of workers at the moment".to_owned())
        })
    }

    pub(crate) fn is_ours(&self, registry: RegistryId) -> bool {
        self.read(|state| state.registry == Some(registry))
    }

    /// Where workers of this registry are heard, if we know.
    pub(crate) fn address_of(&self, registry: RegistryId) -> Option<String> {
        let find = |state: &State| {
            let peer = state.peers.iter().find(|peer| peer.registry == registry)?;
            Some(peer.server.address.clone()).filter(|address| !address.is_empty())
        };
        self.read(find)
    }

    /// The other servers, as last seen.
    pub(crate) fn others(&self) -> Vec<Peer> {
        self.read(|state| {
            let others = state.peers.iter().filter(|peer| Some(peer.registry) != state.registry);
            others.cloned().collect()
        })
    }

    pub(crate) fn set_registry(&self, registry: Option<RegistryId>) {
        if let (Some(note), Some(registry)) = (&self.note, registry) {
            note(registry);
        }
        // How long nothing was heard of the store is counted anew with each registry.
        self.write(|state| (state.registry, state.seen_at) = (registry, None));
    }

    /// Everyone, and when the store was asked; `None` before it was, on behalf of our present registry.
    pub(crate) fn seen(&self) -> Option<(Vec<Peer>, Instant)> {
        self.read(|state| Some((state.peers.clone(), state.seen_at?)))
    }

    /// Notes who was seen. Whether someone we knew is gone: its last news may not have reached us.
    pub(crate) fn set_peers(&self, peers: Vec<Peer>, seen_at: Instant) -> bool {
        self.write(|state| {
            let is_there = |peer: &Peer| peers.iter().any(|other| other.registry == peer.registry);
            let is_one_gone = !state.peers.iter().all(is_there);
            (state.peers, state.seen_at, state.is_failing) = (peers, Some(seen_at), false);
            is_one_gone
        })
    }

    /// A beat failed. Whether it is the first in a row.
    pub(crate) fn begins_to_fail(&self) -> bool {
        self.write(|state| !std::mem::replace(&mut state.is_failing, true))
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The heart's side of it: the machine, or nothing on a store that is ours alone.
pub(crate) struct Keeper(Option<Ownership>);

impl Keeper {
    pub(crate) fn new(is_shared: bool, now: Instant) -> Keeper {
        Keeper(is_shared.then(|| Ownership::new(now, Terms::DEFAULT)))
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        if let Some(machine) = &mut self.0 {
            machine.handle(now, input);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(Ownership::next_deadline)
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if let Some(machine) = &mut self.0 {
            machine.handle_deadline(now);
        }
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.0.as_mut().and_then(Ownership::poll_output)
    }
}

/// What the machine must know of the servers that were seen.
pub(crate) fn sightings(peers: &[Peer]) -> Vec<Sighting> {
    let sighting =
        |peer: &Peer| Sighting { registry: peer.registry, beats: peer.beats, resigned: peer.resigned };
    peers.iter().map(sighting).collect()
}
