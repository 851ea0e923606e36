//! How long to wait for a store that failed: 100 ms, doubled each time, at most 5 s. Without jitter, since one server
//! has one store and asks it again with a single call of each kind.

use std::time::Duration;

/// Counts failures in a row, and says how long to wait after each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The delay after the first failure.
    const DELAY_MIN: Duration = Duration::from_millis(100);
    /// No delay is longer.
    const DELAY_MAX: Duration = Duration::from_secs(5);

    /// One more failure: how long to wait now.
    pub fn next_delay(&mut self) -> Duration {
        let delay = Self::DELAY_MIN.saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        delay.min(Self::DELAY_MAX)
    }

    /// A success: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_maximum_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        let mut next = || backoff.next_delay().as_millis();
        assert_eq!(
            [next(), next(), next(), next(), next(), next(), next(), next()],
            [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
        );
        (0..100).for_each(|_| assert_eq!(next(), 5_000));
        backoff.reset();
        assert_eq!(backoff.next_delay(), Backoff::DELAY_MIN);
    }
}
