//! The versions of the set, as far back as anyone may still hold one.
//!
//! Every change is one version. A member is in the sets from `first` to before its removal, and these spans *are* the
//! history: who is present carries its own, and who has gone is kept here for as long as its span reaches into a set that
//! somebody may hold. Nothing else has to be written down, and pruning is forgetting.

use std::collections::BTreeMap;

use super::state::Member;
use crate::set::{Identity, SetHash, Version};

/// A version, counted from the first one of this scheduler: ordered, where [`Version`] wraps around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Step(pub(super) u64);

/// A member that is gone, while labels may still be read through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Departed {
    /// The first set with it.
    pub(super) first: Step,
    /// The first set without it.
    pub(super) removed: Step,
    /// See [`labels`](super::labels).
    pub(super) label: Step,
}

/// The history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct History {
    start: Version,
    now: Step,
    hash: SetHash,
    /// The step of the latest addition.
    newest: Step,
    pub(super) departed: BTreeMap<Member, Departed>,
}

impl History {
    /// An empty set, at this version.
    pub(super) fn new(start: Version) -> Self {
        History {
            start,
            now: Step::default(),
            hash: SetHash::default(),
            newest: Step::default(),
            departed: BTreeMap::new(),
        }
    }

    /// One member more; the version that first contains it.
    pub(super) fn add(&mut self, identity: Identity) -> Step {
        self.hash = self.hash.with(identity);
        self.now.0 += 1;
        self.newest = self.now;
        self.now
    }

    /// One member less; the version that is the first without it.
    pub(super) fn remove(&mut self, identity: Identity) -> Step {
        self.hash = self.hash.without(identity);
        self.now.0 += 1;
        self.now
    }

    /// Forgets who has gone and is in no set from `floor` on, or whose label is older than that and so raises nobody's.
    pub(super) fn prune(&mut self, floor: Step) {
        self.departed.retain(|_, gone| gone.removed > floor && gone.label >= floor);
    }

    /// The present set.
    pub(super) fn now(&self) -> Step {
        self.now
    }

    /// The members of the present set.
    pub(super) fn hash(&self) -> SetHash {
        self.hash
    }

    /// The latest set that anybody was added to. Later ones are smaller.
    pub(super) fn newest(&self) -> Step {
        self.newest
    }

    /// The version of a step.
    pub(super) fn version(&self, step: Step) -> Version {
        Version(self.start.0.wrapping_add(step.0))
    }

    /// The step of a version, if it has come.
    pub(super) fn step(&self, version: Version) -> Option<Step> {
        let step = Step(version.0.wrapping_sub(self.start.0));
        (step <= self.now).then_some(step)
    }
}
