//! How long to wait before the next try to connect: doubling with jitter, so that a thousand workers do not come back
//! in the same instant.

use std::time::Duration;

/// The first wait, and the shortest ever: a server that accepts and drops at once is not hammered.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait: a server that comes back has its workers again within this.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Doubles from 100 ms to 5 s; each wait is between half of that and all of it.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next wait; `random` in `0.0..1.0` places it within its range.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let full = WAIT_MIN.saturating_mul(1 << self.failures.min(10)).min(WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + random / 2.0)
    }

    /// It worked: the next wait is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_seconds() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.next(0.0).as_millis(), 2500);
        backoff.reset();
        assert_eq!(backoff.next(0.0).as_millis(), 50);
    }
}
