//! The door for new workers: so many per second, and as many at once after a quiet second. Workers that are known never
//! come past it.

use std::time::Duration;

use model::Instant;

/// A bucket of places, kept as one number: when it will be full again. (The generic cell rate algorithm.)
#[derive(Debug)]
pub(super) struct Throttle {
    /// What one place costs; it grows back in this time.
    interval: Duration,
    /// When all places are free.
    full_at: Instant,
}

impl Throttle {
    /// A full bucket grows back in this time.
    const BURST: Duration = Duration::from_secs(1);

    /// So many places per second; at least one.
    pub(super) fn new(per_second: u32) -> Self {
        Throttle { interval: Self::BURST / per_second.max(1), full_at: Instant::ZERO }
    }

    /// Takes a place, or says how long until one is free.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + self.interval;
        let wait = full_at.since(now).saturating_sub(Self::BURST);
        if wait > Duration::ZERO {
            return Err(wait);
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(throttle: &mut Throttle, now: Instant) -> usize {
        std::iter::from_fn(|| throttle.take(now).ok()).count()
    }

    #[test]
    fn as_many_at_once_as_per_second_and_then_one_by_one() {
        for per_second in [1, 3, 7, 1_000] {
            let mut throttle = Throttle::new(per_second);
            let start = Instant::from_millis(5_000);
            assert_eq!(taken(&mut throttle, start), per_second as usize);
            let wait = throttle.take(start).expect_err("the bucket is empty");
            assert_eq!(taken(&mut throttle, start + wait - Duration::from_nanos(1)), 0, "{per_second}");
            assert_eq!(taken(&mut throttle, start + wait), 1, "{per_second}");
            assert_eq!(taken(&mut throttle, start + Duration::from_secs(3_600)), per_second as usize);
        }
    }

    #[test]
    fn odd_rates_neither_divide_by_zero_nor_throttle_without_need() {
        assert_eq!(taken(&mut Throttle::new(0), Instant::ZERO), 1);
        let mut fast = Throttle::new(u32::MAX);
        (0..10_000).for_each(|_| assert_eq!(fast.take(Instant::ZERO), Ok(())));
    }
}
