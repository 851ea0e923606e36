//! Small numbers for large things: a model has few workers, so members, sets and set ids fit into a few bits each.

use std::collections::BTreeMap;

use model::{Generation, WorkerKey};
use muster::{Identity, SetHash, SetId, Version};

/// The most slots in which workers live.
pub(super) const SLOTS_MAX: usize = 3;
/// The most instances of workers in all slots together: a set of them is a byte.
pub(super) const MEMBERS_MAX: usize = 8;

/// A worker's instance: the one in slot `number % slots`, after `number / slots` others.
pub(super) type Instance = u8;

/// A set of instances, one bit each.
pub(super) type Instances = u8;

/// Whether the set has this one.
pub(super) fn has(set: Instances, instance: Instance) -> bool {
    set >> instance & 1 == 1
}

/// A set id, or none: three bits of generation, five of version, eight for its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(u16);

impl Id {
    /// No id.
    pub(super) const NONE: Id = Id(0);
    /// What stands where nothing has been said yet, not even that there is no id.
    pub(super) const UNSAID: Id = Id(u16::MAX);

    fn new(generation: u64, version: u64, members: Instances) -> Self {
        assert!((1..7).contains(&generation) && version < 32, "a small model: {generation} {version}");
        Id((generation as u16) << 13 | (version as u16) << 8 | u16::from(members))
    }

    pub(super) fn generation(self) -> u8 {
        (self.0 >> 13) as u8
    }

    pub(super) fn version(self) -> u8 {
        (self.0 >> 8 & 31) as u8
    }

    pub(super) fn members(self) -> Instances {
        self.0 as u8
    }

    /// The same with other members.
    pub(super) fn with_members(self, members: Instances) -> Self {
        if self == Id::NONE || self == Id::UNSAID { self } else { Id(self.0 & 0xff00 | u16::from(members)) }
    }
}

/// What the small numbers stand for.
pub(super) struct Codes {
    identities: Vec<Identity>,
    hashes: Vec<SetHash>,
    sets: BTreeMap<SetHash, Instances>,
}

impl Codes {
    /// For so many instances.
    pub(super) fn new(instances: usize) -> Self {
        assert!(instances <= MEMBERS_MAX, "{instances} instances do not fit");
        let key = |number| WorkerKey::new(&format!("instance-{number}")).expect("a valid key");
        let identities: Vec<Identity> = (0..instances).map(|number| Identity::of(&key(number))).collect();
        let hash = |set: Instances| {
            let members = (0..instances as u8).filter(|instance| has(set, *instance));
            members.fold(SetHash::default(), |hash, member| hash.with(identities[usize::from(member)]))
        };
        let all = (1u16 << instances) - 1;
        let hashes: Vec<SetHash> = (0..=all).map(|set| hash(set as Instances)).collect();
        let sets = (0..=all).zip(&hashes).map(|(set, hash)| (*hash, set as Instances)).collect();
        Codes { identities, hashes, sets }
    }

    pub(super) fn identity(&self, instance: Instance) -> Identity {
        self.identities[usize::from(instance)]
    }

    /// The code of a set id.
    pub(super) fn code(&self, id: Option<SetId>) -> Id {
        id.map_or(Id::NONE, |id| {
            let members = self.sets.get(&id.hash).expect("every set is one of instances of this model");
            Id::new(id.generation.0, id.version.0, *members)
        })
    }

    /// The set id of a code.
    pub(super) fn set_id(&self, id: Id) -> Option<SetId> {
        (id != Id::NONE).then(|| SetId {
            generation: Generation(u64::from(id.generation())),
            version: Version(u64::from(id.version())),
            hash: self.hashes[usize::from(id.members())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        let codes = Codes::new(6);
        assert_eq!(codes.code(None), Id::NONE);
        for (generation, version, members) in [(1, 0, 0), (3, 31, 0b10_1010), (6, 7, 0b11_1111)] {
            let id = Id::new(generation, version, members);
            assert_eq!(
                (id.generation(), id.version(), id.members()),
                (generation as u8, version as u8, members)
            );
            assert_eq!(codes.code(codes.set_id(id)), id);
            assert!(id != Id::NONE && id != Id::UNSAID);
        }
    }
}
