//! What must hold at every moment of every history.

use std::collections::{BTreeMap, BTreeSet};

use model::{Hold, Instant, WorkerKey};

use crate::message::{Stop, StopOrder};
use crate::registry::{Registry, WorkerState};

type Holding = (WorkerKey, Hold);

/// What the laws remember.
#[derive(Default)]
pub(super) struct Laws {
    expires: BTreeMap<WorkerKey, Instant>,
    /// Told to the worker in this life of the server, and still held by it.
    acknowledged: BTreeSet<Holding>,
    /// Told to the worker in any life, and still held by it.
    promised: BTreeSet<Holding>,
    taken_back: BTreeSet<Holding>,
    /// Let go of, and the registry heard it in this life.
    unbound: BTreeSet<Holding>,
    /// Whose holds were said to be known in this life, and who has ended in it.
    synced: BTreeSet<WorkerKey>,
    over: BTreeSet<WorkerKey>,
}

impl Laws {
    /// The registry tells a worker that this stands. Law: nobody has taken it back, and it was never let go of.
    pub(super) fn acknowledge(&mut self, key: &WorkerKey, hold: Hold, is_held: bool) {
        let it = (key.clone(), hold);
        assert!(!self.taken_back.contains(&it), "{it:?} is taken back and acknowledged");
        // The worker may be about to say that it has let go.
        if is_held {
            self.acknowledged.insert(it.clone());
            self.promised.insert(it);
        }
    }

    /// The registry tells a worker to stop these.
    pub(super) fn stopped(&mut self, key: &WorkerKey, stops: &[Stop]) {
        for stop in stops.iter().filter(|stop| stop.reason == StopOrder::Lost) {
            self.acknowledged.remove(&(key.clone(), stop.hold));
            self.promised.remove(&(key.clone(), stop.hold));
        }
    }

    /// The worker has it no more, under whichever of its keys it was told.
    pub(super) fn let_go(&mut self, hold: Hold) {
        self.acknowledged.retain(|(_, held)| *held != hold);
        self.promised.retain(|(_, held)| *held != hold);
    }

    /// The registry took a heartbeat that says that these were let go of.
    pub(super) fn unbound(&mut self, key: &WorkerKey, holds: Vec<Hold>) {
        self.unbound.extend(holds.into_iter().map(|hold| (key.clone(), hold)));
    }

    /// All that this worker holds is known. Law: that is said once, and not of one that is over.
    pub(super) fn synced(&mut self, key: &WorkerKey) {
        assert!(self.synced.insert(key.clone()), "{key:?} is synced twice");
        assert!(!self.over.contains(key), "{key:?} is synced after its end");
    }

    pub(super) fn is_synced(&self, key: &WorkerKey) -> bool {
        self.synced.contains(key)
    }

    /// The registry says that the worker is over.
    pub(super) fn judged(&mut self, key: &WorkerKey) {
        self.over.insert(key.clone());
        self.ended(key);
    }

    /// The worker is over.
    pub(super) fn ended(&mut self, key: &WorkerKey) {
        self.acknowledged.retain(|(whose, _)| whose != key);
        self.promised.retain(|(whose, _)| whose != key);
    }

    /// A verdict. Law: what was promised to a worker is not taken back before it was told, not even by the next life of
    /// the server.
    pub(super) fn taken_back(&mut self, key: &WorkerKey, hold: Hold) {
        let it = (key.clone(), hold);
        assert!(!self.promised.contains(&it), "{it:?} was promised and is taken back");
        self.taken_back.insert(it);
    }

    /// A verdict. Law: what is being taken back is not pushed.
    pub(super) fn pushed(&mut self, key: &WorkerKey, hold: Hold) {
        let it = (key.clone(), hold);
        assert!(!self.taken_back.contains(&it), "{it:?} is taken back and pushed");
    }

    /// A verdict came to nothing.
    pub(super) fn not_taken_back(&mut self, key: WorkerKey, hold: Hold) {
        self.taken_back.remove(&(key, hold));
    }

    /// A new life of the server.
    pub(super) fn restarted(&mut self) {
        self.expires.clear();
        self.acknowledged.clear();
        self.unbound.clear();
        self.synced.clear();
        self.over.clear();
    }

    /// The laws that hold at any moment.
    pub(super) fn check(&mut self, registry: &Registry) {
        for view in registry.workers().into_iter().filter(|view| view.state != WorkerState::Joining) {
            let before = self.expires.insert(view.key.clone(), view.expires);
            assert!(before.is_none_or(|before| before <= view.expires), "an expiry moves earlier: {view:?}");
        }
        for (key, hold) in &self.acknowledged {
            assert!(registry.is_bound(key, *hold), "{hold:?} was acknowledged to {key:?} and is forgotten");
        }
        for view in registry.workers() {
            for hold in registry.bound(&view.key, usize::MAX) {
                let comes_back = self.unbound.contains(&(view.key.clone(), hold));
                assert!(!comes_back, "{hold:?} was unbound by {:?} and comes back", view.key);
            }
        }
    }
}
