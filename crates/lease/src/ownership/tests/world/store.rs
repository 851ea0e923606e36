//! The store of the world: all registries, what became of them, and when they beat.

use std::collections::BTreeMap;

use model::{Instant, RegistryId};

use crate::ownership::{Input, Output, Sighting};

#[derive(Default)]
pub(super) struct Store {
    registries: BTreeMap<RegistryId, Row>,
    founded: u32,
    taken_at: BTreeMap<RegistryId, u64>,
}

#[derive(Default)]
struct Row {
    /// When it beat.
    commits: Vec<u64>,
    resigned: bool,
}

impl Store {
    /// Carries out a call, and says what its caller is to hear.
    pub(super) fn commit(&mut self, now: u64, output: Output, sent: Instant) -> Input {
        match output {
            Output::Found => {
                self.founded += 1;
                let registry = RegistryId(self.founded);
                self.registries.insert(registry, Row { commits: vec![now], resigned: false });
                Input::Founded { sent, registry: Some(registry) }
            }
            Output::Beat { registry } => match self.registries.get_mut(&registry) {
                None => Input::Gone,
                Some(row) => {
                    row.commits.push(now);
                    Input::Beaten { sent, seen: self.sightings() }
                }
            },
            Output::TakeOver { from, beats, by } => {
                if self.may_take_over(from, beats, by) {
                    self.registries.remove(&from);
                    self.taken_at.insert(from, now);
                }
                Input::TakeOverDone { from }
            }
            other => panic!("{other:?} is no call"),
        }
    }

    /// Its server has gone.
    pub(super) fn resign(&mut self, registry: RegistryId) {
        if let Some(row) = self.registries.get_mut(&registry) {
            row.resigned = true;
        }
    }

    /// True if this take-over would be done now.
    pub(super) fn may_take_over(&self, from: RegistryId, beats: u64, by: RegistryId) -> bool {
        self.beats(from) == Some(beats) && self.registries.contains_key(&by)
    }

    /// Its counter, if it is there.
    pub(super) fn beats(&self, registry: RegistryId) -> Option<u64> {
        self.registries.get(&registry).map(|row| row.commits.len() as u64)
    }

    /// True if it did not beat in this time, or has resigned, or is not there any more.
    pub(super) fn stood_still(&self, registry: RegistryId, since: u64, until: u64) -> bool {
        let Some(row) = self.registries.get(&registry) else { return true };
        row.resigned || !row.commits.iter().any(|at| (since..until).contains(at))
    }

    /// When it was taken over.
    pub(super) fn taken_at(&self, registry: RegistryId) -> Option<u64> {
        self.taken_at.get(&registry).copied()
    }

    /// How many were taken over.
    pub(super) fn take_overs(&self) -> u64 {
        self.taken_at.len() as u64
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.registries.len()
    }

    fn sightings(&self) -> Vec<Sighting> {
        let sighting = |(registry, row): (&RegistryId, &Row)| Sighting {
            registry: *registry,
            beats: row.commits.len() as u64,
            resigned: row.resigned,
        };
        self.registries.iter().map(sighting).collect()
    }
}
