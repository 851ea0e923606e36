//! The clocks of a world: each process has a monotonic one that runs a little fast or slow, and all share a wall clock
//! that somebody may step.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use model::{Clock, Instant, WallTime};

use crate::rng::Rng;
use crate::time::Time;

/// Parts of a second in which rates are told.
const BILLION: u128 = 1_000_000_000;

/// One process's monotonic clock: what it shows at a moment of true time, and when it shows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriftingClock {
    /// What it shows at the beginning of the world.
    offset: u64,
    /// Nanoseconds it counts in a true second.
    rate: u128,
}

impl DriftingClock {
    /// A clock that shows true time.
    pub const TRUE: DriftingClock = DriftingClock { offset: 0, rate: BILLION };

    /// A clock that shows `offset` at the beginning and gains `drift_ppb` nanoseconds a second, or loses them.
    pub fn new(offset: Duration, drift_ppb: i64) -> Self {
        let rate = (BILLION as i64 + drift_ppb).max(1) as u128;
        DriftingClock { offset: offset.as_nanos() as u64, rate }
    }

    /// A clock that is wrong by at most `drift_max_ppm`; often by exactly that, because there the rules are tightest.
    pub fn drawn(rng: &mut Rng, drift_max_ppm: u32) -> Self {
        let worst = i64::from(drift_max_ppm) * 1_000;
        let drift = match rng.below(4) {
            0 => worst,
            1 => -worst,
            _ => rng.below(2 * worst as u64 + 1) as i64 - worst,
        };
        DriftingClock::new(rng.span(Duration::ZERO, Duration::from_secs(1_000_000)), drift)
    }

    /// From now on it shows a time that is later by this much.
    pub fn jump(&mut self, by: Duration) {
        self.offset = self.offset.saturating_add(by.as_nanos() as u64);
    }

    /// What it shows at this moment.
    pub fn shows(&self, time: Time) -> Instant {
        let counted = u128::from(time.as_nanos()) * self.rate / BILLION;
        Instant::from_nanos(self.offset.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX)))
    }

    /// The first moment at which it shows at least this; the beginning, if it always did.
    pub fn when(&self, shown: Instant) -> Time {
        let counted = u128::from(shown.as_nanos().saturating_sub(self.offset));
        let nanos = (counted * BILLION).div_ceil(self.rate);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The clock of something that reads the time by itself, such as a store. The world sets it before each call.
#[derive(Debug)]
pub struct SetClock {
    monotonic: DriftingClock,
    now: AtomicU64,
    /// By how much the wall clock is off, in milliseconds.
    wall_step: AtomicI64,
}

/// The date on which every world begins: 2027-01-15 08:00 UTC.
const EPOCH_MS: i64 = 1_800_000_000_000;

impl SetClock {
    /// A clock at the beginning of the world, whose monotonic part drifts like this.
    pub fn new(monotonic: DriftingClock) -> Self {
        SetClock { monotonic, now: AtomicU64::new(0), wall_step: AtomicI64::new(0) }
    }

    /// It is now `now`.
    pub fn set(&self, now: Time) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// From now on the wall clock is off by this much.
    pub fn step_wall(&self, by_ms: i64) {
        self.wall_step.store(by_ms, Ordering::Relaxed);
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now.load(Ordering::Relaxed))
    }
}

impl Clock for SetClock {
    fn monotonic(&self) -> Instant {
        self.monotonic.shows(self.time())
    }

    fn wall(&self) -> WallTime {
        let passed = (self.time().as_nanos() / 1_000_000) as i64;
        WallTime::from_millis(EPOCH_MS + passed + self.wall_step.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_to_the_nanosecond() {
        let mut rng = Rng::stream(3, 0, "clock");
        for _ in 0..2_000 {
            let clock = DriftingClock::drawn(&mut rng, 1_000);
            let time = Time::from_nanos(rng.bits() >> rng.between(14, 40));
            let shown = clock.shows(time);
            assert!(clock.when(shown) <= time, "it shows that now, so not later");
            assert!(clock.shows(clock.when(shown)) >= shown, "and at that moment it does show it");
            let before = Time::from_nanos(clock.when(shown).as_nanos().saturating_sub(1));
            assert!(before == Time::ZERO || clock.shows(before) < shown, "and at no earlier one");
        }
    }

    #[test]
    fn a_clock_gains_what_it_is_told_to() {
        let hour = Time::from_millis(3_600_000);
        let fast = DriftingClock::new(Duration::from_secs(5), 1_000_000);
        assert_eq!(fast.shows(hour), Instant::from_millis(5_000 + 3_600_000 + 3_600));
        let slow = DriftingClock::new(Duration::ZERO, -1_000_000);
        assert_eq!(slow.shows(hour), Instant::from_millis(3_600_000 - 3_600));
        assert_eq!(slow.when(Instant::from_millis(3_596_400)), hour);
    }

    #[test]
    fn the_wall_may_be_stepped_and_monotonic_time_does_not_notice() {
        let clock = SetClock::new(DriftingClock::TRUE);
        clock.set(Time::from_millis(10));
        assert_eq!(clock.wall(), WallTime::from_millis(EPOCH_MS + 10));
        clock.step_wall(-86_400_000);
        assert_eq!(clock.wall(), WallTime::from_millis(EPOCH_MS + 10 - 86_400_000));
        assert_eq!(clock.monotonic(), Instant::from_millis(10));
    }
}
