//! The memory store's two times: dates from the wall clock, leases and fences from a clock of its own.

use std::sync::Arc;

use model::{Clock, Instant, LeaseTime, WallTime};

/// The time of one verb.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// For dates: `run_at`, `finished_at` and the like.
    pub(super) wall: WallTime,
    /// For leases and fences.
    pub(super) lease: LeaseTime,
}

/// Starts at the wall clock and from then on follows monotonic time only.
pub(super) struct StoreClock {
    clock: Arc<dyn Clock>,
    started_wall: WallTime,
    started: Instant,
}

impl StoreClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        StoreClock { started_wall: clock.wall(), started: clock.monotonic(), clock }
    }

    pub(super) fn now(&self) -> Now {
        let running_for = self.clock.monotonic().since(self.started);
        Now { wall: self.clock.wall(), lease: lease_time(self.started_wall) + running_for }
    }
}

/// The lease clock's reading if it were set by the wall clock at this date.
pub(super) fn lease_time(wall: WallTime) -> LeaseTime {
    LeaseTime::from_micros(wall.as_millis().saturating_mul(1_000))
}
