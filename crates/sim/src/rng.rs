//! Randomness that can be had again: a generator of its own for every (seed, node, purpose).
//!
//! A world that draws one number more for its network must not thereby change what its workload does, or no failure
//! could be narrowed down. So whoever needs randomness has a stream of its own.

use std::time::Duration;

use model::splitmix::SplitMix;

use crate::trace::Hash;

/// One stream of random numbers (xoshiro256++, seeded by SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of this purpose at this node in the world of this seed.
    pub fn stream(seed: u64, node: u64, purpose: &str) -> Self {
        let mut hash = Hash::default();
        hash.add(seed);
        hash.add(node);
        purpose.bytes().for_each(|byte| hash.add(u64::from(byte)));
        let mut seeds = SplitMix::new(hash.get());
        Rng { state: std::array::from_fn(|_| seeds.next()) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `0..bound`; `bound` is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `min..=max`.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// True this often, of one.
    pub fn chance(&mut self, often: f64) -> bool {
        ((self.bits() >> 11) as f64) < often * (1u64 << 53) as f64
    }

    /// A span between these, all alike.
    pub fn span(&mut self, min: Duration, max: Duration) -> Duration {
        Duration::from_nanos(self.between(min.as_nanos() as u64, max.as_nanos() as u64))
    }

    /// A span between these, short and long orders of magnitude alike.
    pub fn span_of_any_size(&mut self, min: Duration, max: Duration) -> Duration {
        let (min, max) = (min.as_nanos().max(1) as u64, max.as_nanos() as u64);
        let bits = self.between(u64::from(min.ilog2()), u64::from(max.ilog2()));
        let (low, high) = (1u64 << bits, (1u64 << bits) * 2 - 1);
        Duration::from_nanos(self.between(low.max(min), high.min(max)))
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_named_by_all_three() {
        let first = |seed, node, purpose| Rng::stream(seed, node, purpose).bits();
        assert_eq!(first(1, 2, "net"), first(1, 2, "net"));
        let others = [first(2, 2, "net"), first(1, 3, "net"), first(1, 2, "ten")];
        assert!(!others.contains(&first(1, 2, "net")));
    }

    #[test]
    fn numbers_fill_their_range_and_no_more() {
        let mut rng = Rng::stream(1, 0, "range");
        let mut seen = [0u32; 6];
        (0..6_000).for_each(|_| seen[rng.between(3, 5) as usize] += 1);
        assert_eq!(seen[..3], [0, 0, 0]);
        assert!(seen[3..].iter().all(|count| (1_800..2_200).contains(count)), "{seen:?}");
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }

    #[test]
    fn spans_of_any_size_are_not_all_long() {
        let mut rng = Rng::stream(1, 0, "spans");
        let (min, max) = (Duration::from_millis(1), Duration::from_secs(100));
        let spans: Vec<Duration> = (0..1_000).map(|_| rng.span_of_any_size(min, max)).collect();
        assert!(spans.iter().all(|span| (min..=max).contains(span)));
        let short = spans.iter().filter(|span| **span < Duration::from_millis(100)).count();
        assert!((250..550).contains(&short), "{short}");
    }
}
