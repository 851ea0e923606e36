//! Faults that go together. Apart, the trouble that makes two judges of a lease disagree is rare: a dozen faults must strike the
//! same worker in the right order, and whether that happens within a hundred worlds is luck. Worlds at the edge have it happen
//! on purpose, to a worker that runs an exclusive job.
//!
//! They strike from a stream of random numbers of their own: they do not change when other faults strike, or whom.

use std::time::Duration;

use model::{Hold, WorkerKey};

use super::event::{Event, Heal};
use super::setup::{LEASE_MAX, OWNED_FOR, SERVERS, Setup, server_node, worker_node};
use super::world::World;
use crate::faults::{Phase, until_next};
use crate::net::{Delays, Node};
use crate::rng::Rng;

/// The mean pause between them.
const EVERY: Duration = Duration::from_secs(30);
/// The longest that an answer takes on its way to a worker that is cut off next.
const ANSWER_MAX: Duration = Duration::from_secs(4);
/// Long enough for a heartbeat and its answer.
const LATE_FOR: Duration = Duration::from_secs(6);
/// A lease, the time it takes until somebody else owns it, and time to start its jobs again.
const CUT_FOR: Duration = LEASE_MAX.saturating_add(OWNED_FOR.saturating_mul(2));

/// What they are drawn from.
#[derive(Debug)]
pub(super) struct Corners {
    is_there: bool,
    rng: Rng,
}

impl Corners {
    pub(super) fn new(setup: &Setup) -> Self {
        Corners { is_there: setup.corners, rng: Rng::stream(setup.seed, 0, "corners") }
    }

    /// How long until the next one, if there are any.
    pub(super) fn until_next(&mut self) -> Option<Duration> {
        self.is_there.then(|| until_next(&mut self.rng, EVERY))
    }
}

impl World<'_> {
    /// One of them strikes.
    pub(super) fn corner(&mut self) {
        if self.outside.phase == Phase::Calm {
            return;
        }
        if let Some(pause) = self.corners.until_next() {
            self.outside.queue.push(self.outside.now + pause, Event::Corner);
        }
        self.note(&[19]);
        let live: Vec<(Hold, WorkerKey)> = self.outside.runs.all().collect();
        if live.is_empty() {
            return;
        }
        let (_, key) = self.corners.rng.pick(&live).clone();
        let worker = worker_node(self.outside.books.key(&key).worker);
        self.outside.stats.faults += 1;
        match self.corners.rng.below(3) {
            0 => self.answers_are_late(worker),
            dice => self.leave_alone_with_its_server(worker, &key, dice == 2),
        }
    }

    /// What servers tell a worker takes long; then it is cut off, as it believes with a fresh lease.
    fn answers_are_late(&mut self, worker: Node) {
        let now = self.outside.now;
        let min = self.corners.rng.span(ANSWER_MAX / 4, ANSWER_MAX);
        let delays = Delays { min, max: min + Delays::CALM.max, ..Delays::CALM };
        self.outside.tell(|| format!("what node {} is told takes {min:?}, and then it is cut off", worker.0));
        for server in (0..SERVERS).map(server_node) {
            self.outside.net.set_delays(server, worker, delays);
        }
        self.cut_off(server_node(0), worker, now + LATE_FOR);
        self.outside.queue.push(now + LATE_FOR, Event::Heal(Heal::CutOff(worker)));
    }

    /// The late answers have come. Nothing else passes for longer than a lease.
    pub(super) fn cut_off_at_last(&mut self, worker: Node) {
        for server in (0..SERVERS).map(server_node) {
            self.outside.net.set_delays(server, worker, Delays::CALM);
            if self.outside.phase == Phase::Faults {
                self.block(worker, server, CUT_FOR);
                self.block(server, worker, CUT_FOR);
            }
        }
    }

    /// A worker reaches only its own server, and that does not reach the store: another one takes it over that it has not heard
    /// of. What the store says about that may be lost.
    fn leave_alone_with_its_server(&mut self, worker: Node, key: &WorkerKey, loses_answers: bool) {
        let now = self.outside.now;
        let owner = self.outside.books.owner_of(key);
        let Some(own) = owner.and_then(|owner| self.outside.books.registry(owner)).map(|it| it.server) else {
            return;
        };
        let is_silent = self.corners.rng.chance(0.5);
        self.outside.tell(|| format!("node {} and server {own} are alone together", worker.0));
        for server in (0..SERVERS).filter(|server| *server != own).map(server_node) {
            self.block(worker, server, CUT_FOR);
            self.block(server, worker, CUT_FOR);
        }
        self.outside.database.cut(own, now + CUT_FOR, is_silent);
        self.chaos.cut(own, now, now + CUT_FOR);
        if loses_answers {
            let until = now + OWNED_FOR * 2;
            self.outside.database.lose_answers(until, 0.5);
            self.goes_on_in_the_dark(until);
        }
    }
}
