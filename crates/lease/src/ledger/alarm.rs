//! One deadline, which rings once and then stays due until someone acts on it.
//!
//! What is due may have to wait for a stream that can take a frame. Naming its deadline again meanwhile would make the
//! driver turn in circles.

use model::Instant;

#[derive(Debug, Default)]
pub(super) struct Alarm {
    at: Option<Instant>,
    has_rung: bool,
}

impl Alarm {
    /// Due at this time, whatever was set before.
    pub(super) fn set(&mut self, at: Instant) {
        *self = Alarm { at: Some(at), has_rung: false };
    }

    /// Due at this time, or earlier if it was so before.
    pub(super) fn set_by(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |known| known.min(at)));
    }

    pub(super) fn clear(&mut self) {
        *self = Alarm::default();
    }

    pub(super) fn handle_deadline(&mut self, now: Instant) {
        if self.at.take_if(|at| *at <= now).is_some() {
            self.has_rung = true;
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.has_rung || self.at.is_some_and(|at| at <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.at
    }
}
