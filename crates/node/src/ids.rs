//! Fresh job ids: version 7, growing strictly within one server, so that jobs of one batch keep their order and new
//! rows land at the end of the table. In volatile queues the server numbers the jobs of callers that do not do so themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::{ClientId, Clock, JobId, WallTime};
use rand::Rng as _;

/// Where fresh ids come from.
pub(crate) struct IdSource {
    clock: Arc<dyn Clock>,
    last: Mutex<(WallTime, u32)>,
    /// In whose name the volatile jobs of callers are numbered that do not come back for them.
    unattended: ClientId,
    next_sequence: AtomicU64,
}

/// Bits of the counter that fit between version and variant bits: 12 and 14.
const COUNTER_MAX: u32 = (1 << 26) - 1;

impl IdSource {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let unattended = ClientId::unattended(clock.wall(), rand::random());
        IdSource {
            clock,
            last: Mutex::new((WallTime::from_millis(0), 0)),
            unattended,
            next_sequence: AtomicU64::new(0),
        }
    }

    /// For a job of a volatile queue that nobody comes back for.
    pub(crate) fn volatile(&self) -> JobId {
        self.unattended.job(self.next_sequence.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn fresh(&self) -> JobId {
        let now = self.clock.wall();
        let (at, counter) = {
            let mut last = self.last.lock().expect("no panic while holding the lock");
            *last = match *last {
                // The clock stands still or went back: stay at the later time and count on.
                (at, counter) if now <= at && counter < COUNTER_MAX => (at, counter + 1),
                (at, _) if now <= at => (WallTime::from_millis(at.as_millis() + 1), 0),
                _ => (now, 0),
            };
            *last
        };
        let mut bytes = [0u8; 10];
        rand::rng().fill_bytes(&mut bytes[4..]);
        bytes[0] = (counter >> 22) as u8;
        bytes[1] = (counter >> 14) as u8;
        bytes[2] = (counter >> 8) as u8 & 0x3f;
        bytes[3] = counter as u8;
        JobId::v7(at, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Instant;

    struct Stopped;

    impl Clock for Stopped {
        fn monotonic(&self) -> Instant {
            Instant::ZERO
        }

        fn wall(&self) -> WallTime {
            WallTime::from_millis(1_700_000_000_000)
        }
    }

    #[test]
    fn ids_grow_even_when_the_clock_stands_still() {
        let ids = IdSource::new(Arc::new(Stopped));
        let mut before = ids.fresh();
        for _ in 0..300_000 {
            let next = ids.fresh();
            assert!(next > before, "{next} must come after {before}");
            before = next;
        }
    }
}
