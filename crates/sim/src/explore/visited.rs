//! What was visited: the fingerprint of each state beside that of the state it was first reached from.
//!
//! Two plain arrays with open addressing, cut into shards that are locked one by one, so that threads hardly ever meet.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The shard is chosen by the upper bits of a fingerprint, the place in it by the lower ones.
const SHARD_BITS: u32 = 8;
/// No fingerprint is zero.
const EMPTY: u64 = 0;
/// What comes before the first state.
pub(super) const NOBODY: u64 = 0;

pub(super) struct Visited {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    prints: Vec<u64>,
    parents: Vec<u64>,
    len: usize,
}

impl Visited {
    pub(super) fn new() -> Self {
        let shard = || Mutex::new(Shard::default());
        Visited { shards: std::iter::repeat_with(shard).take(1 << SHARD_BITS).collect() }
    }

    /// Notes that this state was reached from that one; false if it had been reached before.
    pub(super) fn insert(&self, print: u64, parent: u64) -> bool {
        self.shard(print).insert(print, parent)
    }

    /// The fingerprints from the first state to this one.
    pub(super) fn path_to(&self, print: u64) -> Vec<u64> {
        let mut path = vec![print];
        loop {
            let last = path[path.len() - 1];
            match self.shard(last).parent(last) {
                NOBODY => break,
                parent => path.push(parent),
            }
        }
        path.reverse();
        path
    }

    fn shard(&self, print: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(print >> (64 - SHARD_BITS)) as usize];
        // Nothing in here can panic half-way; a thread that did, elsewhere, ends the search anyway.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn insert(&mut self, print: u64, parent: u64) -> bool {
        if (self.len + 1) * 4 > self.prints.len() * 3 {
            self.grow();
        }
        let place = self.place_of(print);
        if self.prints[place] == print {
            return false;
        }
        self.prints[place] = print;
        self.parents[place] = parent;
        self.len += 1;
        true
    }

    fn parent(&self, print: u64) -> u64 {
        let place = self.place_of(print);
        assert_eq!(self.prints[place], print, "a path leads through visited states only");
        self.parents[place]
    }

    /// Where it is, or would be.
    fn place_of(&self, print: u64) -> usize {
        let mask = self.prints.len() - 1;
        let mut place = print as usize & mask;
        while self.prints[place] != EMPTY && self.prints[place] != print {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let size = (self.prints.len() * 2).max(64);
        let prints = std::mem::replace(&mut self.prints, vec![EMPTY; size]);
        let parents = std::mem::replace(&mut self.parents, vec![NOBODY; size]);
        for (print, parent) in prints.into_iter().zip(parents).filter(|(print, _)| *print != EMPTY) {
            let place = self.place_of(print);
            self.prints[place] = print;
            self.parents[place] = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::fingerprint;

    #[test]
    fn each_is_new_once_and_knows_where_it_came_from() {
        let visited = Visited::new();
        let print = |number: u64| fingerprint(&number);
        assert!(visited.insert(print(0), NOBODY));
        for number in 1..50_000 {
            assert!(visited.insert(print(number), print(number / 2)));
            assert!(!visited.insert(print(number), print(7)));
        }
        let path: Vec<u64> = [0, 1, 3, 6, 12, 25].map(print).to_vec();
        assert_eq!(visited.path_to(print(25)), path);
    }
}
