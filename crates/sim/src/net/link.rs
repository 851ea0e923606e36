//! One direction between two nodes: how long things take, what is lost, whether anything passes.

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Time;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    /// Never less.
    pub min: Duration,
    /// Usually not more.
    pub max: Duration,
    /// This often, of one, it takes longer.
    pub spikes: f64,
    /// But never longer than this.
    pub spike_max: Duration,
}

impl Delays {
    /// A local network on a good day.
    pub const CALM: Delays = Delays {
        min: Duration::from_micros(100),
        max: Duration::from_millis(2),
        spikes: 0.0,
        spike_max: Duration::ZERO,
    };

    pub(super) fn draw(&self, rng: &mut Rng) -> Duration {
        if self.spikes > 0.0 && rng.chance(self.spikes) {
            rng.span_of_any_size(self.max, self.spike_max.max(self.max))
        } else {
            rng.span(self.min, self.max)
        }
    }
}

/// What becomes of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// This often, of one, one is lost.
    pub lost: f64,
    /// This often, of one, one arrives twice.
    pub doubled: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) delays: Delays,
    pub(super) losses: Losses,
    blocks: u32,
    blocked_since: Time,
}

impl Link {
    pub(super) fn block(&mut self, now: Time) {
        if self.blocks == 0 {
            self.blocked_since = now;
        }
        self.blocks += 1;
    }

    /// How long nothing passed, when this was the last block.
    pub(super) fn unblock(&mut self, now: Time) -> Option<Duration> {
        self.blocks = self.blocks.saturating_sub(1);
        (self.blocks == 0).then(|| now.since(self.blocked_since))
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocks > 0
    }
}

impl Default for Link {
    fn default() -> Self {
        Link { delays: Delays::CALM, losses: Losses::default(), blocks: 0, blocked_since: Time::ZERO }
    }
}
