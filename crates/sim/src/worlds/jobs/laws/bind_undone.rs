//! **The promise:** what a registry has acknowledged as bound stays bound until the worker unbinds it, is told to stop
//! it, or ends. A full set that was taken before a job was bound says nothing about that job.

use std::collections::BTreeMap;

use lease::message::{Change, Heartbeat};
use lease::registry::Registry;
use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "bind_undone";

/// What one life of a registry has acknowledged: by worker, each hold with the change that bound it.
#[derive(Debug, Default)]
pub(in super::super) struct Acknowledged {
    bound: BTreeMap<WorkerKey, BTreeMap<Hold, u64>>,
    /// Early binds that are not answered yet.
    asked: BTreeMap<Hold, u64>,
}

/// The changes of a heartbeat, kept until it is answered.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Changes {
    binds: Vec<(Hold, u64)>,
    unbinds: Vec<Hold>,
    full: Option<Vec<Hold>>,
    change: u64,
}

impl Changes {
    /// What this heartbeat says.
    pub(in super::super) fn of(beat: &Heartbeat) -> Self {
        Changes {
            binds: beat.binds.iter().map(|bind| (bind.hold, bind.change)).collect(),
            unbinds: beat.unbinds.iter().map(|unbind| unbind.hold).collect(),
            full: beat.full.clone(),
            change: beat.change,
        }
    }
}

impl Acknowledged {
    /// A heartbeat with these changes was taken.
    pub(in super::super) fn heartbeat(&mut self, key: &WorkerKey, changes: &Changes, registry: &Registry) {
        let bound = self.bound.entry(key.clone()).or_default();
        if let Some(full) = &changes.full {
            bound.retain(|hold, change| *change > changes.change || full.contains(hold));
        }
        let full = changes.full.iter().flatten().map(|hold| (*hold, changes.change));
        for (hold, change) in full.chain(changes.binds.iter().copied()) {
            if registry.is_bound(key, hold) {
                bound.entry(hold).or_insert(change);
            }
        }
        bound.retain(|hold, _| !changes.unbinds.contains(hold));
    }

    /// A worker binds this without waiting for its next heartbeat.
    pub(in super::super) fn asked(&mut self, bind: Change) {
        self.asked.insert(bind.hold, bind.change);
    }

    /// The worker is told at once that this stands.
    pub(in super::super) fn early(&mut self, key: &WorkerKey, hold: Hold) {
        if let Some(change) = self.asked.remove(&hold) {
            self.bound.entry(key.clone()).or_default().insert(hold, change);
        }
    }

    /// The worker is told to stop this, or it was reported.
    pub(in super::super) fn forget(&mut self, key: &WorkerKey, hold: Hold) {
        if let Some(bound) = self.bound.get_mut(key) {
            bound.remove(&hold);
        }
    }

    /// The worker ended.
    pub(in super::super) fn ended(&mut self, key: &WorkerKey) {
        self.bound.remove(key);
    }

    /// Everything acknowledged to this worker must stand.
    pub(in super::super) fn check(&self, key: &WorkerKey, registry: &Registry) -> Verdict {
        let mut bound = self.bound.get(key).into_iter().flatten();
        bound.try_for_each(|(hold, change)| {
            holds(LAW, registry.is_bound(key, *hold), || {
                format!(
                    "{} was acknowledged to {key} as bound by change {change} and is not any more",
                    shown(*hold)
                )
            })
        })
    }
}
