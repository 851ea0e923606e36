//! The machine's clocks. Everything that reads the time for real goes through [`SystemClock`]; tests put another
//! [`Clock`] in its place.

use model::{Clock, Instant, WallTime};
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME (monotonic, counts suspend) and CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic(&self) -> Instant {
        let now = clock_gettime(ClockId::Boottime);
        Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn wall(&self) -> WallTime {
        let now = clock_gettime(ClockId::Realtime);
        WallTime::from_millis(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run_forward() {
        let clock = SystemClock;
        let (start, wall) = (clock.monotonic(), clock.wall());
        assert!(clock.monotonic() >= start);
        assert!(wall.as_millis() > 1_700_000_000_000, "the epoch is 1970");
    }
}
