//! The clock rule: why a worker always stops before its registry gives its work away.
//!
//! Both clocks are monotonic and may run at slightly different rates, by at most ρ. The worker counts its lease from the
//! moment *before* the heartbeat was sent and makes it shorter; the registry counts from the moment *after* it was
//! read and makes it longer. What the network took is on the safe side of both.

use std::time::Duration;

use model::Instant;

/// Heartbeats per lease. Three may be missed: the fourth still arrives before the lease of the last answered one ends.
pub const HEARTBEATS_PER_LEASE: u32 = 5;

/// The pause between the heartbeats of a worker with this lease.
pub fn heartbeat_interval(lease: Duration) -> Duration {
    lease / HEARTBEATS_PER_LEASE
}

/// Whether a worker with this lease may hold exclusive jobs, if it takes `stop_within` (kill wait and safety) to stop one
/// for certain: two heartbeats may be lost before a job must be told to stop.
pub fn fits_exclusive(lease: Duration, stop_within: Duration) -> bool {
    lease >= heartbeat_interval(lease) * 3 + stop_within
}

/// The shortest lease with which such a worker may hold exclusive jobs.
pub fn exclusive_lease_min(stop_within: Duration) -> Duration {
    stop_within * HEARTBEATS_PER_LEASE / (HEARTBEATS_PER_LEASE - 3)
}

/// How a worker makes sure that an exclusive job is gone by `hold_until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// K: from telling a job to stop to killing it.
    pub kill_wait: Duration,
    /// S: from killing it to `hold_until`; for the kernel to finish it off.
    pub safety: Duration,
}

impl Stopping {
    /// The defaults: 5 s and 1 s, which fit a lease of 15 s or more.
    pub const DEFAULT: Stopping =
        Stopping { kill_wait: Duration::from_secs(5), safety: Duration::from_secs(1) };

    /// From telling a job to stop to knowing that it has: K + S.
    pub fn within(self) -> Duration {
        self.kill_wait + self.safety
    }

    /// When exclusive jobs must be told to stop.
    pub fn stop_at(self, hold_until: Instant) -> Instant {
        hold_until - self.within()
    }

    /// When they must be killed.
    pub fn kill_at(self, hold_until: Instant) -> Instant {
        hold_until - self.safety
    }

    /// When whoever could not stop one must be ended with it.
    pub fn doom_at(self, hold_until: Instant) -> Instant {
        hold_until - self.safety / 2
    }
}

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
    fn an_exclusive_job_has_three_heartbeats_and_the_time_to_stop_it_in_a_lease() {
        let within = Stopping::DEFAULT.within();
        let shortest = exclusive_lease_min(within);
        assert_eq!((within, shortest), (Duration::from_secs(6), Duration::from_secs(15)));
        assert!(fits_exclusive(shortest, within));
        assert!(!fits_exclusive(shortest - Duration::from_millis(10), within));
        for millis in [1, 333, 2_400, 59_999] {
            let within = Duration::from_millis(millis);
            assert!(fits_exclusive(exclusive_lease_min(within), within), "{millis} ms");
        }
    }

    #[test]
    fn stopping_asks_then_kills_then_dooms_and_is_done_before_the_hold_is_over() {
        let hold = Instant::from_millis(20_000);
        let Stopping { kill_wait, safety } = Stopping::DEFAULT;
        let steps = [Stopping::stop_at, Stopping::kill_at, Stopping::doom_at]
            .map(|step| step(Stopping::DEFAULT, hold));
        assert_eq!(steps, [14_000, 19_000, 19_500].map(Instant::from_millis));
        assert_eq!((steps[0] + kill_wait, steps[1] + safety), (steps[1], hold));
    }

    #[test]
    fn an_expiry_never_moves_earlier() {
        let rate_error = RateError::ppm(0);
        let far = Instant::from_millis(60_000);
        assert_eq!(expires(far, Instant::from_millis(1), Duration::from_secs(1), rate_error), far);
    }
}
