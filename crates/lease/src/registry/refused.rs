//! Refused marks: holds that a row was taken back for because their worker had not bound them. The worker may still be
//! about to bind one, and its row may not have moved yet; the mark makes that bind *lost*.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Hold, Instant};

/// A mark lives this long at least. By then the row has moved, so a bind is refused by the row itself.
const MARK_KEPT: Duration = Duration::from_secs(60);

/// The marks of one worker.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// When each may go.
    marks: BTreeMap<Hold, Instant>,
    /// The timer that counts.
    sweep_at: Option<Instant>,
}

impl Refused {
    /// Refuses this hold from now on. Says for when to set the timer, if none is set.
    pub(super) fn mark(&mut self, now: Instant, hold: Hold) -> Option<Instant> {
        self.marks.insert(hold, now + MARK_KEPT);
        if self.sweep_at.is_some() {
            return None;
        }
        self.sweep_at = Some(now + MARK_KEPT);
        self.sweep_at
    }

    /// The timer for `at` fired: drops what is old. Says for when to set it again, if marks are left.
    pub(super) fn sweep(&mut self, now: Instant, at: Instant) -> Option<Instant> {
        if self.sweep_at != Some(at) {
            return None;
        }
        self.marks.retain(|_, until| *until > now);
        self.sweep_at = (!self.marks.is_empty()).then(|| now + MARK_KEPT);
        self.sweep_at
    }

    /// True if a bind of it is lost.
    pub(super) fn contains(&self, hold: Hold) -> bool {
        self.marks.contains_key(&hold)
    }

    /// True when nothing is refused.
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::{Fence, JobId};

    use super::*;

    #[test]
    fn one_timer_at_a_time_and_a_stale_one_does_nothing() {
        let hold = |n: u8| Hold { job: JobId::from_bytes([n; 16]), fence: Fence::new(1) };
        let at = |secs: u64| Instant::from_millis(secs * 1_000);
        let mut refused = Refused::default();
        assert_eq!(refused.mark(at(0), hold(1)), Some(at(60)));
        assert_eq!(refused.mark(at(30), hold(2)), None);
        assert_eq!(refused.sweep(at(300), at(59)), None);
        assert!(refused.contains(hold(1)), "that was not its timer");
        assert_eq!(refused.sweep(at(60), at(60)), Some(at(120)));
        assert!(!refused.contains(hold(1)) && refused.contains(hold(2)));
        assert_eq!(refused.sweep(at(120), at(120)), None);
        assert!(refused.is_empty());
        assert_eq!(refused.mark(at(200), hold(1)), Some(at(260)));
    }
}
