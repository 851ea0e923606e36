//! Notices when the store kept holders waiting: time during which they could not be heard, or had not got what they claimed.
//!
//! [`RenewalHealth`] is about renewals that were refused. [`Waiting`] is about every call of a holder that the store has not answered
//! yet: on a disk that takes seconds for a commit, the lease of a job runs long before its worker hears of the job.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::poll;
use model::Instant;

use crate::api::Api;
use crate::event::{Event, Leases};

/// Shorter trouble than this is covered by the leases themselves.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Refusals further apart than this are two troubles: between them nobody was kept waiting.
const GAP_MAX: Duration = Duration::from_secs(2);

/// How renewals fare.
#[derive(Debug, Default)]
pub(crate) struct RenewalHealth {
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Not reported yet from here on.
    since: Instant,
    last_refusal: Instant,
}

impl RenewalHealth {
    /// Notes one renewal that began and ended at these times. Answers the trouble to report now, each piece once.
    pub(crate) fn observe(&self, began: Instant, ended: Instant, succeeded: bool) -> Option<Duration> {
        let mut trouble = self.trouble.lock().expect("no panic while holding the lock");
        let goes_on = trouble.filter(|trouble| began.since(trouble.last_refusal) <= GAP_MAX);
        let since = goes_on.map_or(began, |trouble| trouble.since);
        let lasted = ended.since(since);
        let report = (lasted > TOLERANCE).then_some(lasted);
        let reported_to = if report.is_some() { ended } else { since };
        *trouble = (!succeeded).then_some(Trouble { since: reported_to, last_refusal: ended });
        report
    }
}

/// The calls of holders that the store has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    /// When each began, in the order in which they did.
    since: BTreeMap<u64, Instant>,
    next: u64,
}

/// A call that waits, until this is dropped.
struct Call<'a> {
    waiting: &'a Waiting,
    number: u64,
}

impl Waiting {
    /// How long the oldest of them has been waiting, if that is longer than leases cover by themselves.
    pub(crate) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        let oldest = self.lock().since.first_key_value().map(|(_, since)| *since);
        oldest.map(|since| now.since(since)).filter(|waited| *waited > TOLERANCE)
    }

    fn begin(&self, now: Instant) -> Call<'_> {
        let mut calls = self.lock();
        let number = calls.next;
        calls.next += 1;
        calls.since.insert(number, now);
        Call { waiting: self, number }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.waiting.lock().since.remove(&self.number);
    }
}

impl Api {
    /// Waits for what a holder asks of the store. Nothing is taken back while that takes long, and all holders get that time
    /// back. `granted` says which leases an answer gave out.
    pub(crate) async fn heed<T>(&self, call: impl Future<Output = T>, granted: impl Fn(&T) -> Leases) -> T {
        let mut call = pin!(call);
        // A store in memory answers at once.
        if let std::task::Poll::Ready(answer) = poll!(call.as_mut()) {
            return answer;
        }
        let began = self.clock.monotonic();
        let waiting = self.waiting.begin(began);
        let answer = call.await;
        let waited = self.clock.monotonic().since(began);
        if waited > TOLERANCE {
            // The lease first: it says how long nothing is taken back after the stall.
            let leases = granted(&answer);
            if leases.clone().next().is_some() {
                self.tell(Event::LeasesGranted { leases }).await;
            }
            self.tell(Event::StoreStalled { for_: waited }).await;
        }
        // Not before the heart knows: who looks at the rows in between must find either of the two.
        drop(waiting);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn quick_renewals_are_no_trouble() {
        let health = RenewalHealth::default();
        assert_eq!(health.observe(at(0), at(900), true), None);
        assert_eq!(health.observe(at(900), at(950), false), None, "one refusal is no stall yet");
        assert_eq!(health.observe(at(1_000), at(1_010), true), None);
        assert_eq!(health.observe(at(9_000), at(9_010), true), None, "the refusal is forgotten");
    }

    #[test]
    fn silence_after_a_refusal_is_not_trouble() {
        let health = RenewalHealth::default();
        assert_eq!(health.observe(at(0), at(10), false), None);
        // Nobody asked for 45 s, so nobody was kept waiting.
        assert_eq!(health.observe(at(45_000), at(45_010), true), None);
        assert_eq!(health.observe(at(60_000), at(60_010), false), None);
        assert_eq!(health.observe(at(99_000), at(99_010), false), None);
    }

    #[test]
    fn a_slow_renewal_is_reported_whole() {
        let health = RenewalHealth::default();
        assert_eq!(health.observe(at(0), at(4_000), true), Some(Duration::from_secs(4)));
    }

    #[test]
    fn the_oldest_call_that_waits_says_how_long_the_store_has_stood_still() {
        let waiting = Waiting::default();
        assert_eq!(waiting.stalled_for(at(9_000)), None);
        let first = waiting.begin(at(1_000));
        let second = waiting.begin(at(2_500));
        assert_eq!(waiting.stalled_for(at(2_000)), None, "a hiccup");
        assert_eq!(waiting.stalled_for(at(4_000)), Some(Duration::from_secs(3)));
        drop(first);
        assert_eq!(waiting.stalled_for(at(4_000)), Some(Duration::from_millis(1_500)));
        drop(second);
        assert_eq!(waiting.stalled_for(at(99_000)), None);
    }

    #[test]
    fn refusals_add_up_and_each_piece_is_reported_once() {
        let health = RenewalHealth::default();
        let mut reported = Duration::ZERO;
        for beat in 0..20 {
            reported += health.observe(at(beat * 300), at(beat * 300 + 10), false).unwrap_or_default();
        }
        reported += health.observe(at(6_000), at(6_010), true).unwrap_or_default();
        assert!(
            reported >= Duration::from_secs(5) && reported <= Duration::from_millis(6_010),
            "{reported:?}"
        );
    }
}
