//! Doubt about what was waiting in our buffers while this process did not run.
//!
//! A worker that was stopped for a minute wakes up to assignments whose leases ended long ago, and must not start them.
//! Arrival times say nothing about them. But the stream keeps order: what arrives after the answer to a beat that was
//! sent after waking up was sent after it too. So a beat goes out at once; until its answer, every assignment counts as
//! having arrived when the sleep began, and no credits are given, so that what is handed back does not come again.

use model::Instant;

#[derive(Debug, Default)]
pub(super) struct Doubt {
    raised: Option<Raised>,
}

#[derive(Debug)]
struct Raised {
    asleep_since: Instant,
    /// The first beat sent after waking up.
    barrier: Option<u64>,
}

impl Doubt {
    pub(super) fn raise(&mut self, asleep_since: Instant) {
        // A second sleep before the first is settled: the older date is the safe one, the barrier must be new.
        let asleep_since =
            self.raised.as_ref().map_or(asleep_since, |known| known.asleep_since.min(asleep_since));
        self.raised = Some(Raised { asleep_since, barrier: None });
    }

    pub(super) fn beat_sent(&mut self, number: u64) {
        if let Some(raised) = &mut self.raised {
            raised.barrier.get_or_insert(number);
        }
    }

    pub(super) fn answered(&mut self, number: u64) {
        if self.raised.as_ref().and_then(|raised| raised.barrier).is_some_and(|barrier| barrier <= number) {
            self.raised = None;
        }
    }

    pub(super) fn settle(&mut self) {
        self.raised = None;
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised.is_some()
    }

    /// The earliest time at which something read `now` can have arrived.
    pub(super) fn arrival(&self, now: Instant) -> Instant {
        self.raised.as_ref().map_or(now, |raised| raised.asleep_since)
    }
}
