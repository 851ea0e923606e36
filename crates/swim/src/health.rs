//! Doubt in ourselves: the worse our own probes and our own clock do, the more time we give others (Lifeguard's local
//! health).

use std::time::Duration;

/// The most that one late deadline or one lag can add.
const LAG_POINTS_MAX: u32 = 3;

/// A score between 0 (well) and the configured maximum.
#[derive(Debug)]
pub(crate) struct Health {
    score: u32,
    max: u32,
}

impl Health {
    pub(crate) fn new(max: u32) -> Self {
        Health { score: 0, max }
    }

    pub(crate) fn worse_by(&mut self, points: u32) {
        self.score = self.score.saturating_add(points).min(self.max);
    }

    pub(crate) fn better(&mut self) {
        self.score = self.score.saturating_sub(1);
    }

    /// We were late: a point for each `unit`, up to three.
    pub(crate) fn late_by(&mut self, late: Duration, unit: Duration) {
        let points = late.as_nanos() / unit.as_nanos().max(1);
        self.worse_by(u32::try_from(points).unwrap_or(u32::MAX).min(LAG_POINTS_MAX));
    }

    pub(crate) fn score(&self) -> u32 {
        self.score
    }

    /// A time of ours, stretched by our doubt.
    pub(crate) fn stretch(&self, span: Duration) -> Duration {
        span * (1 + self.score)
    }
}
