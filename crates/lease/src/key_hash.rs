//! How workers are found by their keys, and jobs at their worker: a quarter of a heartbeat's cost would otherwise be a general
//! hash.
//!
//! Words of eight bytes are folded in by a wide multiplication. A server's seed is its generation, which a client learns
//! only when it is connected: keys contrived to collide are good for one life of a server, and slow down their own
//! heartbeats. A worker's is its nonce, which no client learns.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use model::{Hold, Nonce};

/// An odd number with its bits well spread (from the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a worker has by its jobs, found in constant time. Nothing may depend on the order it iterates in.
pub(crate) type ByHold<V> = HashMap<Hold, V, KeyHash>;

/// Nothing yet, of the process with this nonce.
pub(crate) fn by_hold<V>(nonce: Nonce) -> ByHold<V> {
    HashMap::with_hasher(KeyHash::new(nonce.get()))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash {
    seed: u64,
}

#[derive(Debug)]
pub(crate) struct KeyHasher {
    state: u64,
}

impl KeyHash {
    pub(crate) fn new(seed: u64) -> Self {
        KeyHash { seed: seed.wrapping_mul(SPREAD) ^ SPREAD }
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { state: self.seed }
    }
}

impl KeyHasher {
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.state ^ word) * u128::from(SPREAD);
        // What is lost in one half is kept in the other; the rotation tells the order of words.
        self.state = ((wide >> 64) as u64 ^ wide as u64).rotate_left(23).wrapping_add(word);
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.fold(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.state ^= u64::from(byte);
    }

    fn finish(&self) -> u64 {
        let wide = u128::from(self.state) * u128::from(SPREAD);
        (wide >> 64) as u64 ^ wide as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::WorkerKey;

    use super::*;

    fn hash(seed: u64, key: &str) -> u64 {
        KeyHash::new(seed).hash_one(WorkerKey::new(key).unwrap())
    }

    #[test]
    fn keys_that_look_alike_have_hashes_that_do_not() {
        let keys = (0..100_000).map(|number| format!("worker-{number}-4711-9f3a5c2e81d04b76"));
        let hashes: Vec<u64> = keys.map(|key| hash(7, &key)).collect();
        let distinct: BTreeSet<u64> = hashes.iter().copied().collect();
        assert_eq!(distinct.len(), hashes.len());
        // A table looks at the lowest bits for the place and at the highest seven for the tag: both must spread.
        for part in [|hash: u64| hash & 0x7f, |hash: u64| hash >> 57] {
            let mut counts = [0_u32; 128];
            hashes.iter().for_each(|hash| counts[part(*hash) as usize] += 1);
            assert!(counts.iter().all(|count| (600..=1_000).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn every_byte_and_the_seed_count() {
        let key = "0123456789abcdefg";
        for place in 0..key.len() {
            let mut other = key.to_owned().into_bytes();
            other[place] ^= 1;
            assert_ne!(hash(7, key), hash(7, std::str::from_utf8(&other).unwrap()), "byte {place}");
        }
        assert_ne!(hash(7, key), hash(8, key));
        assert_ne!(hash(7, "a"), hash(7, "aa"));
    }
}
