//! The pipe between a worker and its guardian: nothing is lost, everything keeps its order and takes a moment. What the
//! kernel tells a guardian comes by another way and may overtake it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::Event;
use super::guardian::{GuardianId, GuardianInput};
use super::outside::Outside;
use super::setup::Setup;
use super::worker::GuardianNews;
use crate::rng::Rng;
use crate::time::Time;

/// The longest that something takes, on a machine that is not frozen.
const TAKES_MAX: Duration = Duration::from_millis(3);

/// All pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    /// When the last thing arrives that was sent to the guardian, and to the worker.
    last: BTreeMap<GuardianId, [Time; 2]>,
    rng: Rng,
}

impl Pipes {
    pub(super) fn new(setup: &Setup) -> Self {
        Pipes { last: BTreeMap::new(), rng: Rng::stream(setup.seed, 0, "pipes") }
    }

    /// Nobody is left at one end.
    pub(super) fn close(&mut self, guardian: GuardianId) {
        self.last.remove(&guardian);
    }

    fn takes(&mut self) -> Duration {
        self.rng.span_of_any_size(Duration::from_micros(5), TAKES_MAX)
    }

    fn arrives(&mut self, now: Time, guardian: GuardianId, end: usize) -> Time {
        let at = now + self.takes();
        let last = &mut self.last.entry(guardian).or_default()[end];
        *last = at.max(*last);
        *last
    }
}

impl Outside<'_> {
    /// A worker says something to its guardian.
    pub(super) fn tell_guardian(&mut self, guardian: GuardianId, input: GuardianInput) {
        let at = self.pipes.arrives(self.now, guardian, 0);
        self.queue.push(at, Event::ToGuardian(guardian, Box::new(input)));
    }

    /// A guardian says something to its worker.
    pub(super) fn tell_worker(&mut self, guardian: GuardianId, news: GuardianNews) {
        let at = self.pipes.arrives(self.now, guardian, 1);
        self.queue.push(at, Event::FromGuardian(guardian, news));
    }

    /// The kernel tells a guardian that its worker is dead.
    pub(super) fn report_death(&mut self, guardian: GuardianId) {
        let at = self.now + self.pipes.takes();
        self.queue.push(at, Event::ToGuardian(guardian, Box::new(GuardianInput::WorkerDied)));
    }
}
