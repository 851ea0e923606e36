//! The clock rule: why a worker always stops before its registry gives its work away.
//!
//! Both clocks are monotonic and may run at slightly different rates, by at most ρ. The worker counts its lease from the
//! moment *before* the heartbeat was sent and makes it shorter; the registry counts from the moment *after* it was
//! read and makes it longer. What the network took is on the safe side of both.

use std::time::Duration;

use model::Instant;

/// The assumed clock-rate error, ρ, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateError(u32);

impl RateError {
    /// 0.1 %: far beyond what a quartz does wrong, and a lease of 20 s loses only 20 ms to it.
    pub const DEFAULT: RateError = RateError(1_000);

    /// This many parts per million.
    pub const fn ppm(parts: u32) -> Self {
        RateError(parts)
    }

    fn of(self, span: Duration) -> Duration {
        Duration::from_nanos((span.as_nanos() * u128::from(self.0) / 1_000_000) as u64)
    }

    /// A span that is surely over for others when it is over for us.
    pub fn longer(self, span: Duration) -> Duration {
        span + self.of(span)
    }

    /// A span that is surely not over for others when it is over for us.
    pub fn shorter(self, span: Duration) -> Duration {
        span - self.of(span)
    }
}

/// Until when a worker may act on a lease that was granted to a heartbeat sent at `sent_at`.
pub fn hold_until(sent_at: Instant, lease: Duration, rate_error: RateError) -> Instant {
    sent_at + rate_error.shorter(lease)
}

/// Before when a registry must not give work away, after a heartbeat that had been read by `now`. Never earlier than
/// what was promised before.
pub fn expires(before: Instant, now: Instant, lease: Duration, rate_error: RateError) -> Instant {
    before.max(now + rate_error.longer(lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_stops_first_whatever_the_clocks_do_within_the_bound() {
        let rate_error = RateError::ppm(1_000);
        let lease = Duration::from_secs(20);
        let hold = hold_until(Instant::ZERO, lease, rate_error);
        let expiry = expires(Instant::ZERO, Instant::ZERO, lease, rate_error);
        // The slowest worker clock beside the fastest server clock: 19.98 s take 19.9999 s, 20.02 s take just over 20.
        let worst_hold = hold.as_nanos() as f64 / 0.999;
        let worst_expiry = expiry.as_nanos() as f64 / 1.001;
        assert!(worst_hold <= worst_expiry + 1.0, "{worst_hold} {worst_expiry}");
        assert_eq!(hold, Instant::from_millis(19_980));
        assert_eq!(expiry, Instant::from_millis(20_020));
    }

    #[test]
    fn an_expiry_never_moves_earlier() {
        let rate_error = RateError::ppm(0);
        let far = Instant::from_millis(60_000);
        assert_eq!(expires(far, Instant::from_millis(1), Duration::from_secs(1), rate_error), far);
    }
}
