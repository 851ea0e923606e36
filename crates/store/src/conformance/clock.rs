//! Time for tests: it moves when it is told to.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use model::{Clock, Instant, WallTime};

/// A clock that stands still until it is moved. Starts on 2026-01-01.
#[derive(Debug, Default)]
pub struct TestClock {
    elapsed_nanos: AtomicU64,
    wall_steps_ms: AtomicI64,
}

impl TestClock {
    /// The wall clock's first reading.
    pub const START: WallTime = WallTime::from_millis(1_767_225_600_000);
    /// The monotonic clock's first reading. Not zero, so that a store cannot take readings for spans.
    const BOOTED: Instant = Instant::from_millis(86_400_000);

    /// A clock at its start.
    pub fn new() -> Self {
        TestClock::default()
    }

    /// Lets time pass: moves both clocks.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).expect("no test lasts 500 years");
        self.elapsed_nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets the wall clock forward or back by this many milliseconds; no time passes.
    pub fn step_wall(&self, millis: i64) {
        self.wall_steps_ms.fetch_add(millis, Ordering::SeqCst);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_nanos.load(Ordering::SeqCst))
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Instant {
        Self::BOOTED + self.elapsed()
    }

    fn wall(&self) -> WallTime {
        let unstepped = Self::START + self.elapsed();
        WallTime::from_millis(unstepped.as_millis() + self.wall_steps_ms.load(Ordering::SeqCst))
    }
}
