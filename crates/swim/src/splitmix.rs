//! A seeded generator and hash (splitmix64), so that a failing number tells the whole story.

/// The generator.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(start: u64) -> Self {
        SplitMix(start)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..bound`; 0 if there is none.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: no division, and no bias that matters at these sizes.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A length of time in `0..span`.
    pub(crate) fn within(&mut self, span: std::time::Duration) -> std::time::Duration {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        std::time::Duration::from_nanos(((u128::from(self.next()) * u128::from(nanos)) >> 64) as u64)
    }
}

/// Spreads a number's bits over all 64.
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
