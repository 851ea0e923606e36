//! A worker: the process, and the session that lives and dies with it.

mod guard;
mod handlers;
mod link;
mod partings;
mod session;

pub(super) use self::handlers::{End, HandlerNews};
use self::session::Session;

use lease::guardian::FamilyId;
use model::{Hold, Nonce, WorkerKey};

use super::event::{Event, Message};
use super::guardian::GuardianId;
use super::outside::Outside;
use super::setup::{DOWN_MAX, Guard, worker_node};
use crate::clock::DriftingClock;
use crate::net::{ConnectionId, Node};
use crate::process::{Next, Process};
use crate::rng::Rng;

/// Everything that reaches a worker.
#[derive(Debug)]
pub(super) enum WorkerInput {
    /// A server said something.
    Heard(ConnectionId, Message),
    /// A connection is gone.
    Broken(ConnectionId),
    /// A handler has something to say.
    Handler(Hold, HandlerNews),
    /// The guardian says something, or is gone.
    Guardian(GuardianNews),
    /// SIGTERM.
    Drain,
}

/// What a worker hears of its guardian.
#[derive(Clone, Copy, Debug)]
pub(super) enum GuardianNews {
    /// A family is gone for certain, or was never started; how it ended.
    Ended(FamilyId, End),
    /// The guardian's process is gone.
    Lost,
}

/// A worker process.
pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) process: Process<WorkerInput>,
    pub(super) clock: DriftingClock,
    session: Option<Box<Session>>,
    rng: Rng,
    /// Keys that were drawn by all its lives; none is drawn twice.
    keys_drawn: u32,
}

impl Worker {
    pub(super) fn new(index: usize, outside: &Outside<'_>) -> Self {
        Worker {
            index,
            process: Process::new(),
            clock: outside.setup.workers[index].clock,
            session: None,
            rng: Rng::stream(outside.setup.seed, index as u64, "worker"),
            keys_drawn: 0,
        }
    }

    /// A new life, without memory: a new nonce and a new key.
    pub(super) fn start(&mut self, outside: &mut Outside<'_>) {
        self.process.start();
        let key = draw_key(self.index, &mut self.keys_drawn);
        outside.books.drew_key(&key, self.index, self.process.life());
        outside.tell(|| format!("worker {} starts as {key}", self.index));
        let nonce = Nonce::new(self.rng.bits());
        let guardian = self.guardian_id(outside);
        self.session = Some(Box::new(Session::new(self.index, key, nonce, guardian, outside)));
        self.turn(outside);
    }

    /// The process is gone, with everything that ran inside it. The kernel tells its guardian.
    pub(super) fn crash(&mut self, outside: &mut Outside<'_>) {
        if let Some(session) = self.session.take() {
            outside.books.key_mut(session.key()).died_at = Some(outside.now);
            session.die(outside);
        }
        self.process.crash();
        if let Some(guardian) = self.guardian_id(outside) {
            outside.report_death(guardian);
        }
    }

    /// One turn: deadlines come first, so that a process that was stopped finds out what it lost before it starts
    /// anything; then what can be learned is learned before a frame is made of it.
    pub(super) fn turn(&mut self, outside: &mut Outside<'_>) {
        let Some(session) = &mut self.session else { return };
        let now = self.clock.shows(outside.now);
        let life = self.process.life();
        let mut moment = session::Moment {
            outside,
            now,
            clock: self.clock,
            life,
            rng: &mut self.rng,
            keys_drawn: &mut self.keys_drawn,
        };
        session.handle_deadline(&mut moment);
        let mut handled = 0;
        while !session.is_gone()
            && let Some(input) = self.process.take()
        {
            handled += 1;
            session.hear(&mut moment, input);
        }
        if !session.is_gone() {
            session.transmit(&mut moment);
        }
        if session.is_gone() {
            return self.exit(outside);
        }
        let deadline = session.next_deadline().map(|at| self.clock.when(at));
        let next = self.process.rest(outside.now, handled, deadline);
        outside.schedule(self.node(), next);
    }

    /// Something arrives.
    pub(super) fn deliver(&mut self, outside: &mut Outside<'_>, input: WorkerInput) {
        let next = self.process.deliver(outside.now, input);
        self.go_on(outside, next);
    }

    /// Does what the process wants.
    pub(super) fn go_on(&mut self, outside: &mut Outside<'_>, next: Next) {
        if outside.schedule(self.node(), next) {
            self.turn(outside);
        }
    }

    pub(super) fn node(&self) -> Node {
        worker_node(self.index)
    }

    /// The guardian of its present life, if it has one.
    pub(super) fn guardian_id(&self, outside: &Outside<'_>) -> Option<GuardianId> {
        let is_guarded = outside.setup.workers[self.index].guard != Guard::Nobody;
        is_guarded.then(|| GuardianId { worker: self.index, life: self.process.life() })
    }

    /// The present key.
    pub(super) fn key(&self) -> Option<&WorkerKey> {
        self.session.as_ref().map(|session| session.key())
    }

    /// It has left, or cannot go on, and ends by itself; somebody starts it again.
    fn exit(&mut self, outside: &mut Outside<'_>) {
        outside.tell(|| format!("worker {} exits", self.index));
        self.crash(outside);
        outside.net.process_died(outside.now, self.node());
        outside.schedule_net();
        let again = outside.now + self.rng.span_of_any_size(std::time::Duration::from_millis(10), DOWN_MAX);
        outside.queue.push(again, Event::Start(self.node()));
    }
}

fn draw_key(index: usize, keys_drawn: &mut u32) -> WorkerKey {
    *keys_drawn += 1;
    WorkerKey::new(&format!("w{index}.{keys_drawn}")).expect("a valid key")
}
