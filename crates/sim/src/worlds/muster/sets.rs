//! The sets that one scheduler made, and who truly requires whom: the slow and obvious way, to compare labels with.

use std::collections::{BTreeMap, BTreeSet};

use muster::{Consensus, Member, Version};

/// The history of one scheduler's set, told by looking at it after every event.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// The members of each version, by how far it is from the first that was seen.
    sets: BTreeMap<i64, BTreeSet<Member>>,
    first: Option<Version>,
}

impl Sets {
    /// Something may have changed.
    pub(super) fn note(&mut self, consensus: &Consensus) {
        let version = consensus.version();
        let first = *self.first.get_or_insert(version);
        let now = version.ahead_of(first);
        let last = self.sets.last_key_value();
        if last.is_some_and(|(place, _)| *place == now) {
            return;
        }
        let members: BTreeSet<Member> = consensus.members().collect();
        let (place, mut set) = last.map_or((now - 1, BTreeSet::new()), |(place, set)| (*place, set.clone()));
        // Several changes in one event: those who went, then those who came, each a version of its own, in their order.
        let went: Vec<Member> = set.difference(&members).copied().collect();
        let came: Vec<Member> = members.difference(&set).copied().collect();
        let changes = went.into_iter().map(|it| (it, false)).chain(came.into_iter().map(|it| (it, true)));
        for (place, (member, is_there)) in (place + 1..).zip(changes) {
            if is_there {
                set.insert(member)
            } else {
                set.remove(&member)
            };
            self.sets.insert(place, set.clone());
        }
        self.sets.insert(now, members);
    }

    /// The members of a version, if it was one of this scheduler's.
    fn at(&self, version: Version) -> Option<&BTreeSet<Member>> {
        self.sets.get(&version.ahead_of(self.first?))
    }

    /// The highest version that this member requires, by itself or through others, when each holds what `held` says.
    pub(super) fn required(&self, member: Member, held: &BTreeMap<Member, Version>) -> Option<Version> {
        let mut highest = *held.get(&member)?;
        let mut seen = BTreeSet::from([member]);
        let mut next = vec![member];
        while let Some(member) = next.pop() {
            let Some(version) = held.get(&member).copied() else { continue };
            if version.is_newer_than(highest) {
                highest = version;
            }
            let members = self.at(version).into_iter().flatten();
            next.extend(members.copied().filter(|it| seen.insert(*it)));
        }
        Some(highest)
    }
}
