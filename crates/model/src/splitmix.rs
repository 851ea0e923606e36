//! SplitMix64: numbers that look random and follow from a seed alone, so that a failing seed tells the whole story; and the mixing
//! inside it, by which a number's bits are spread over all 64.

use std::time::Duration;

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded generator. Not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number in `0..bound`; 0 if there is none.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: no division, and no bias that matters at these sizes.
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A place in a list of this length; 0 if it is empty.
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of them, or none if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }

    /// True this often.
    pub const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A length of time in `0..span`.
    pub fn within(&mut self, span: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Spreads a number's bits over all 64. 0 stays 0.
#[inline]
pub const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The first number of the sequence of this seed: a hash of it.
#[inline]
pub const fn hash(seed: u64) -> u64 {
    mix(seed.wrapping_add(GAMMA))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others who implement it get.
    #[test]
    fn it_is_splitmix64() {
        let mut sequence = SplitMix::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| sequence.next());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(hash(1_234_567), first[0]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_them() {
        let mut sequence = SplitMix::new(1);
        let mut seen = [0; 7];
        (0..700).for_each(|_| seen[sequence.index(7)] += 1);
        assert!(seen.iter().all(|count| (70..140).contains(count)), "{seen:?}");
        assert_eq!((sequence.below(0), sequence.pick::<u8>(&[])), (0, None));
        assert!((0..100).all(|_| sequence.within(Duration::from_nanos(3)) < Duration::from_nanos(3)));
    }
}
