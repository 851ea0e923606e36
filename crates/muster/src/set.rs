//! What names a set of workers: which scheduler made it, its place in that scheduler's history, and a hash of its members.

use model::splitmix::hash;
use model::{Generation, WorkerKey};

/// A member's part of a [`SetHash`]: 128 well mixed bits of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    low: u64,
    high: u64,
}

impl Identity {
    /// The identity of this worker. The same in every process and in every version of this program.
    pub fn of(key: &WorkerKey) -> Self {
        let (mut low, mut high) = (0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344_u64);
        for byte in key.as_str().bytes() {
            low = hash(low ^ u64::from(byte));
            high = hash(high.rotate_left(17) ^ u64::from(byte));
        }
        Identity { low, high }
    }
}

/// A hash of a set: the order of its members does not matter, and one member comes or goes in O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetHash {
    /// How many members.
    pub count: u32,
    /// Wrapping sum over the members.
    pub sum: u64,
    /// Exclusive or over the members.
    pub xor: u64,
}

impl SetHash {
    /// One member more.
    #[must_use]
    pub const fn with(self, member: Identity) -> Self {
        SetHash {
            count: self.count.wrapping_add(1),
            sum: self.sum.wrapping_add(member.low),
            xor: self.xor ^ member.high,
        }
    }

    /// One member less.
    #[must_use]
    pub const fn without(self, member: Identity) -> Self {
        SetHash {
            count: self.count.wrapping_sub(1),
            sum: self.sum.wrapping_sub(member.low),
            xor: self.xor ^ member.high,
        }
    }
}

/// A place in the history of one scheduler's set. Wraps around, so it is compared by distance and has no order of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Version(self.0.wrapping_add(1))
    }

    /// How much newer than `other`; negative if older. Right for versions that are less than 2^63 apart.
    pub const fn ahead_of(self, other: Version) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Whether it is newer than `other`.
    pub const fn is_newer_than(self, other: Version) -> bool {
        self.ahead_of(other) > 0
    }
}

/// One version of one scheduler's set of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId {
    /// The scheduler's life; compared for equality only.
    pub generation: Generation,
    /// Its place in that scheduler's history.
    pub version: Version,
    /// Its members.
    pub hash: SetHash,
}

/// What a worker does with an id that it is told: it keeps the newest one of the scheduler it belongs to.
///
/// A worker takes ids of no other scheduler than its own, and none that is older than what it has from that one; so an id from
/// before survives until its present scheduler has left its wait and says the first one.
pub fn keep(kept: Option<SetId>, scheduler: Generation, told: SetId) -> Option<SetId> {
    let is_newer = kept
        .is_none_or(|kept| kept.generation != told.generation || told.version.is_newer_than(kept.version));
    if told.generation == scheduler && is_newer { Some(told) } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity::of(&WorkerKey::new(name).unwrap())
    }

    fn id(generation: u64, version: u64) -> SetId {
        SetId { generation: Generation(generation), version: Version(version), hash: SetHash::default() }
    }

    #[test]
    fn members_come_and_go_in_any_order() {
        let (a, b, c) = (identity("a"), identity("b"), identity("c"));
        let all = SetHash::default().with(a).with(b).with(c);
        assert_eq!(all, SetHash::default().with(c).with(a).with(b));
        assert_eq!(all.without(b), SetHash::default().with(a).with(c));
        assert_ne!(all.without(b), all.without(c));
        assert_eq!(all.without(a).without(b).without(c), SetHash::default());
    }

    #[test]
    fn versions_compare_across_the_wrap() {
        let last = Version(u64::MAX);
        assert!(last.next().is_newer_than(last));
        assert!(!last.is_newer_than(last.next()));
        assert!(Version(5).is_newer_than(Version(u64::MAX - 5)));
        assert!(!last.is_newer_than(last));
    }

    #[test]
    fn a_worker_keeps_the_newest_id_of_its_own_scheduler() {
        let (old, new) = (Generation(1), Generation(2));
        assert_eq!(keep(None, new, id(2, 1)), Some(id(2, 1)));
        assert_eq!(keep(Some(id(1, 9)), new, id(2, 1)), Some(id(2, 1)), "another scheduler's is replaced");
        assert_eq!(keep(Some(id(1, 9)), old, id(2, 1)), Some(id(1, 9)), "not by one that is not its own");
        assert_eq!(keep(Some(id(2, 3)), new, id(2, 2)), Some(id(2, 3)), "never backward");
        assert_eq!(keep(Some(id(2, u64::MAX)), new, id(2, 0)), Some(id(2, 0)), "the wrap is forward");
    }
}
