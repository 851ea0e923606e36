//! Three kinds of time, kept apart by type so that they cannot be mixed up.
//!
//! * [`Instant`] is monotonic and counts suspend. Machines and timers use it.
//! * [`WallTime`] is what people mean by a date. `run_at` is compared with it; it may step in either direction.
//! * [`LeaseTime`] is a store's own clock for leases and fences. It never runs backwards, not even over a restart.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in monotonic time, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The arbitrary start itself.
    pub const ZERO: Instant = Instant(0);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The instant `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis * 1_000_000)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A date: milliseconds since 1970-01-01 UTC, by the machine's wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// The date `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        WallTime(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub const fn since(self, earlier: WallTime) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(if millis > 0 { millis as u64 } else { 0 })
    }
}

impl Add<Duration> for WallTime {
    type Output = WallTime;

    fn add(self, span: Duration) -> WallTime {
        WallTime(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for WallTime {
    type Output = WallTime;

    fn sub(self, span: Duration) -> WallTime {
        WallTime(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// A point on a store's lease clock, in microseconds. Starts near the epoch's microseconds, never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseTime(i64);

impl LeaseTime {
    /// The point `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        LeaseTime(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub const fn since(self, earlier: LeaseTime) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if micros > 0 { micros as u64 } else { 0 })
    }
}

impl Add<Duration> for LeaseTime {
    type Output = LeaseTime;

    fn add(self, span: Duration) -> LeaseTime {
        LeaseTime(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for LeaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}µs", self.0)
    }
}

/// Where time comes from. Drivers hold one; core machines are told the time instead.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time that counts suspend.
    fn monotonic(&self) -> Instant;

    /// The wall clock, which may step.
    fn wall(&self) -> WallTime;
}
