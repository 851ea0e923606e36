//! Notices when the store kept renewals waiting: time during which holders could not be heard.

use std::sync::Mutex;
use std::time::Duration;

use model::Instant;

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
