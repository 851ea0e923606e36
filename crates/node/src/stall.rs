//! Notices when the store kept renewals waiting: time during which holders could not be heard.

use std::sync::Mutex;
use std::time::Duration;

use model::Instant;

/// Shorter trouble than this is covered by the leases themselves.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Since when renewals are in trouble.
#[derive(Debug, Default)]
pub(crate) struct RenewalHealth {
    troubled_since: Mutex<Option<Instant>>,
}

impl RenewalHealth {
    /// Notes one renewal that began and ended at these times. Answers the trouble to report now, each piece once.
    pub(crate) fn observe(&self, began: Instant, ended: Instant, succeeded: bool) -> Option<Duration> {
        let mut since = self.troubled_since.lock().expect("no panic while holding the lock");
        let start = since.unwrap_or(began);
        let trouble = ended.since(start);
        let report = (trouble > TOLERANCE).then_some(trouble);
        *since = match (succeeded, report) {
            (true, _) => None,
            (false, Some(_)) => Some(ended),
            (false, None) => Some(start),
        };
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
