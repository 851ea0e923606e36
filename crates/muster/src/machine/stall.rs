//! Our own stalls. There is always a deadline, so one that is met late means that we stood still, and that heartbeats and answers
//! waited unread through no fault of their senders: everybody gets that time back before anybody is judged. It is only about
//! health; the wait is by the workers' own clocks, which did not stand still. By those clocks the last healthcheck may have become
//! too old meanwhile, so that a worker refuses what we send it: everybody is checked at once.

use std::time::Duration;

use model::Instant;

use super::muster::Muster;

/// A stall up to this long is a hiccup: the ages that are too old are many times longer.
const STALL_TOLERANCE: Duration = Duration::from_secs(1);

impl Muster {
    /// It is this late. Notices whether we stood still until now.
    pub(super) fn advance(&mut self, now: Instant) {
        let awaited = self.next_deadline().map_or(now, |deadline| deadline.max(self.now));
        let late = now.since(awaited);
        self.now = self.now.max(now);
        if late <= STALL_TOLERANCE {
            return;
        }
        for worker in self.workers.values_mut() {
            let stamps = &mut worker.stamps;
            let check = worker.check.as_mut().map(|check| &mut check.sent);
            let ages = [&mut stamps.joined, &mut stamps.fetched, &mut stamps.heard, &mut stamps.checked];
            for stamp in ages.into_iter().filter_map(Option::as_mut).chain(check) {
                *stamp = *stamp + late;
            }
            worker.check_sent = None;
        }
    }
}
