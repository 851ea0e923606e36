//! A server of the world: a machine and its clock, which is wrong by at most ρ.

use model::splitmix::SplitMix;
use model::{Instant, RegistryId};

use super::super::{Bug, machine};
use super::RATE_ERROR;
use crate::ownership::Ownership;

/// A whole, in parts per million.
const WHOLE: u128 = 1_000_000;

pub(super) struct Server {
    pub(super) machine: Ownership,
    /// The registry that it had last.
    pub(super) registry: Option<RegistryId>,
    /// How often it was started before.
    pub(super) life: u32,
    pub(super) is_alive: bool,
    pub(super) frozen_until: u64,
    pub(super) cut_off_until: u64,
    /// When the beat was sent, by true time, whose answer was read last.
    pub(super) answered_beat_sent_at: u64,
    clock: Clock,
}

struct Clock {
    /// What it showed at the beginning.
    start: u64,
    /// In parts per million.
    rate: u128,
}

impl Clock {
    fn at(&self, now: u64) -> Instant {
        Instant::from_nanos(self.start + (u128::from(now) * self.rate / WHOLE) as u64)
    }
}

impl Server {
    pub(super) fn new(rng: &mut SplitMix, now: u64, life: u32, bug: Bug) -> Self {
        // The extremes show most.
        let rate = rng.pick(&[0, 0, RATE_ERROR, 2 * RATE_ERROR, 2 * RATE_ERROR]).copied().unwrap_or_default();
        let rate = WHOLE - u128::from(RATE_ERROR) + u128::from(rate);
        let clock = Clock { start: rng.below(1 << 40), rate };
        Server {
            machine: machine(clock.at(now), bug),
            registry: None,
            life,
            is_alive: true,
            frozen_until: 0,
            cut_off_until: 0,
            answered_beat_sent_at: 0,
            clock,
        }
    }

    /// What its clock shows.
    pub(super) fn clock(&self, now: u64) -> Instant {
        self.clock.at(now)
    }

    /// The first moment at which its clock shows this.
    pub(super) fn true_time(&self, at: Instant) -> u64 {
        let elapsed = u128::from(at.as_nanos().saturating_sub(self.clock.start));
        (elapsed * WHOLE).div_ceil(self.clock.rate) as u64
    }
}
