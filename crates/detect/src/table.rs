//! The table of last pings: shards of members, each with the time of its last ping.
//!
//! A ping of a known member takes a read lock of one shard and writes one number, so pings never wait for each other.
//! Only who comes or goes takes a shard's write lock, for a moment. Newcomers wait in their shard until the next check
//! fetches them, which is in time, since nobody can be dead before a whole timeout.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use model::{Instant, WorkerKey};

/// What a ping did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinged {
    /// It was the first one: the member is watched from now on.
    Registered,
    /// The member was known, and is taken to be alive for another timeout.
    Known,
    /// The member is not known, and there is no room for another.
    Full,
}

/// A member, from its first ping until it leaves or falls silent; if it comes back, that is another one.
#[derive(Debug)]
pub(crate) struct Member {
    key: WorkerKey,
    /// Nanoseconds, or [`LEFT`].
    last_ping: AtomicU64,
}

/// In the place of a last ping: not a member any more.
const LEFT: u64 = u64::MAX;

impl Member {
    pub(crate) fn key(&self) -> &WorkerKey {
        &self.key
    }

    /// `None` once it left.
    pub(crate) fn last_ping(&self) -> Option<Instant> {
        let nanos = self.last_ping.load(Ordering::Relaxed);
        (nanos != LEFT).then_some(Instant::from_nanos(nanos))
    }

    /// Two pings may overtake each other on their way here; the later one counts.
    fn heard(&self, now: Instant) {
        self.last_ping.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    fn leave(&self) {
        self.last_ping.store(LEFT, Ordering::Relaxed);
    }
}

/// A member as an element of a set, found by its key.
#[derive(Debug)]
struct Entry(Arc<Member>);

impl Borrow<WorkerKey> for Entry {
    fn borrow(&self) -> &WorkerKey {
        &self.0.key
    }
}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Entry {}

/// Keys come from outside, so the set keeps its random hash: nobody can choose keys that make it slow. Each shard has
/// cache lines of its own, or the reader counts of neighbours would slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Members>);

#[derive(Debug, Default)]
struct Members {
    known: HashSet<Entry>,
    /// Known or left, and not fetched by a check yet.
    newcomers: Vec<Arc<Member>>,
}

/// Enough that threads seldom meet in one.
const SHARDS: usize = 256;

/// What became of a member that was silent at a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was removed: it is dead.
    Dead,
    /// It pinged since, and stays.
    Alive,
    /// It left since.
    Left,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Shard]>,
    /// Members that exist, those included that left and that no check has dropped yet: what is bounded is memory.
    places: AtomicUsize,
    places_max: usize,
}

impl Table {
    pub(crate) fn new(places_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Table { shards, places: AtomicUsize::new(0), places_max }
    }

    pub(crate) fn ping(&self, key: &WorkerKey, now: Instant) -> Pinged {
        let shard = self.shard(key);
        if let Some(Entry(member)) = shard.read().known.get(key) {
            member.heard(now);
            return Pinged::Known;
        }
        let mut members = shard.write();
        // Another first ping may have come in between.
        if let Some(Entry(member)) = members.known.get(key) {
            member.heard(now);
            return Pinged::Known;
        }
        if !self.take_place() {
            return Pinged::Full;
        }
        let member = Arc::new(Member { key: key.clone(), last_ping: AtomicU64::new(now.as_nanos()) });
        members.newcomers.push(Arc::clone(&member));
        members.known.insert(Entry(member));
        Pinged::Registered
    }

    /// True if it was known. Its place is free when the next check that looks at it has dropped it.
    pub(crate) fn remove(&self, key: &WorkerKey) -> bool {
        let left = self.shard(key).write().known.take(key);
        if let Some(Entry(member)) = &left {
            member.leave();
        }
        left.is_some()
    }

    /// Removes a member that was silent since `last_ping`, unless it pinged meanwhile: that is seen for certain here,
    /// where the shard is locked and no ping can be half-way.
    pub(crate) fn bury(&self, member: Arc<Member>, last_ping: Instant) -> Fate {
        let mut members = self.shard(&member.key).write();
        match member.last_ping() {
            None => {
                self.free_places(1);
                Fate::Left
            }
            Some(seen) if seen == last_ping => {
                members.known.remove(&member.key);
                member.leave();
                self.free_places(1);
                Fate::Dead
            }
            Some(_) => {
                members.newcomers.push(member);
                Fate::Alive
            }
        }
    }

    /// Keeps a member that a check has taken out but did not judge.
    pub(crate) fn keep(&self, member: Arc<Member>) {
        self.shard(&member.key).write().newcomers.push(member);
    }

    /// Those who came since this was last called.
    pub(crate) fn newcomers(&self) -> impl Iterator<Item = Arc<Member>> {
        self.shards.iter().flat_map(|shard| std::mem::take(&mut shard.write().newcomers))
    }

    /// So many that had left were dropped.
    pub(crate) fn free_places(&self, count: usize) {
        self.places.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn last_ping(&self, key: &WorkerKey) -> Option<Instant> {
        self.shard(key).read().known.get(key).and_then(|Entry(member)| member.last_ping())
    }

    /// Everyone, and when each was last heard, in no order.
    pub(crate) fn members(&self) -> Vec<(WorkerKey, Instant)> {
        let mut all = Vec::with_capacity(self.count());
        let seen = |Entry(member): &Entry| Some((member.key.clone(), member.last_ping()?));
        for shard in &self.shards {
            all.extend(shard.read().known.iter().filter_map(seen));
        }
        all
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().known.len()).sum()
    }

    fn take_place(&self) -> bool {
        let one_more = |places| (places < self.places_max).then_some(places + 1);
        self.places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Chosen by a cheap hash: somebody who contrives keys for one shard makes pings wait for each other in there, no
    /// more.
    fn shard(&self, key: &WorkerKey) -> &Shard {
        let hash = key.as_str().as_bytes().chunks(8).fold(0_u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

impl Shard {
    fn read(&self) -> RwLockReadGuard<'_, Members> {
        self.0.read().expect(NO_PANIC)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Members> {
        self.0.write().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "nothing that is done while a shard is locked panics";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_ping_that_was_overtaken_does_not_turn_the_time_back() {
        let table = Table::new(1);
        let key = WorkerKey::new("w").expect("a good key");
        for at in [5, 7, 6] {
            table.ping(&key, Instant::from_millis(at));
        }
        assert_eq!(table.last_ping(&key), Some(Instant::from_millis(7)));
    }

    #[test]
    fn keys_that_differ_anywhere_spread_over_the_shards() {
        let table = Table::new(0);
        for make in [|n: usize| format!("worker-{n:04}"), |n| format!("{n:04}.a-long-and-common-ending")] {
            let mut sizes = BTreeMap::new();
            for number in 0..SHARDS * 4 {
                let shard: *const Shard = table.shard(&WorkerKey::new(&make(number)).expect("a good key"));
                *sizes.entry(shard).or_insert(0) += 1;
            }
            let fullest = sizes.values().max().expect("some are used");
            assert!(sizes.len() > SHARDS / 2 && *fullest < 24, "{} used, {fullest} in one", sizes.len());
        }
    }
}
