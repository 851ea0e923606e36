//! 64 bits that stand for a state.

use std::hash::{Hash, Hasher};

use model::splitmix::mix;

/// Odd numbers with their bits well spread (from the golden ratio and from π).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const BEGIN: u64 = 0x243f_6a88_85a3_08d3;

/// The fingerprint of a value: the same in every process. Never zero.
pub fn fingerprint<T: Hash>(value: &T) -> u64 {
    let mut folder = Folder { state: BEGIN, words: 0 };
    value.hash(&mut folder);
    folder.finish().max(1)
}

/// Folds words into 64 bits by wide multiplications; a multiplication alone would leave the low bits to the low bits.
struct Folder {
    state: u64,
    words: u64,
}

impl Folder {
    fn fold(&mut self, word: u64) {
        self.words += 1;
        let wide = u128::from(self.state ^ word) * u128::from(SPREAD);
        // What is lost in one half is kept in the other; the rotation tells the order of words.
        self.state = ((wide >> 64) as u64 ^ wide as u64).rotate_left(23).wrapping_add(word);
    }
}

impl Hasher for Folder {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.fold(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.fold(u64::from(byte));
    }

    fn write_u16(&mut self, number: u16) {
        self.fold(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.fold(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        mix(self.state ^ self.words.wrapping_mul(SPREAD))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn small_states_that_differ_have_different_fingerprints() {
        let mut seen = BTreeSet::new();
        let small = 0u8..6;
        for a in small.clone() {
            for b in small.clone() {
                for c in 0u64..200 {
                    for d in [None, Some(0u32), Some(1)] {
                        assert!(seen.insert(fingerprint(&([a, b], c, d))), "{a} {b} {c} {d:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_bit_is_used() {
        let prints = || (0u64..4_000).map(|number| fingerprint(&number));
        for bit in 0..64 {
            let ones = prints().filter(|print| print >> bit & 1 == 1).count();
            assert!((1_800..2_200).contains(&ones), "bit {bit}: {ones} of 4000");
        }
    }
}
