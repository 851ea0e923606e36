//! A server: the process, and the heart that lives and dies with it.

mod claims;
mod duties;
mod heart;
mod rescue;
mod sessions;
mod strays;
mod talk;

pub(super) use self::duties::Then;
use self::heart::Heart;

use lease::registry::{Registry, WorkerState};
use model::{Instant, JobId, RegistryId, WorkerKey};
use store::EnqueueBatch;

use super::call::{Call, Reply};
use super::database::Unavailable;
use super::event::Message;
use super::laws;
use super::mutation::Mutation;
use super::outside::Outside;
use super::setup::server_node;
use crate::clock::DriftingClock;
use crate::net::{ConnectionId, Node};
use crate::process::{Next, Process};

/// Everything that reaches a server.
#[derive(Debug)]
pub(super) enum ServerInput {
    /// A worker said something.
    Heard(ConnectionId, Message),
    /// A connection is gone.
    Broken(ConnectionId),
    /// The store answered.
    Answered(Then, Result<Reply, Unavailable>),
    /// A client enqueues.
    Enqueue(EnqueueBatch),
    /// A client cancels.
    Cancel(JobId),
    /// An operator drives a job again.
    Redrive(JobId),
    /// An operator wants a worker gone.
    Kick(WorkerKey),
    /// An operator wants a worker to drain.
    Drain(WorkerKey),
}

/// A server process.
pub(super) struct Server {
    pub(super) index: usize,
    pub(super) registry: RegistryId,
    pub(super) process: Process<ServerInput>,
    clock: DriftingClock,
    heart: Option<Box<Heart>>,
    looks_at_timers_first: bool,
}

/// What a heart can touch during one turn.
pub(super) struct Moment<'t, 'a> {
    pub(super) outside: &'t mut Outside<'a>,
    /// By the server's own clock.
    pub(super) now: Instant,
    server: usize,
    life: u32,
}

impl Moment<'_, '_> {
    /// Asks the store.
    pub(super) fn call(&mut self, call: Call, then: Then) {
        self.outside.call(self.server, self.life, call, then);
    }
}

impl Server {
    pub(super) fn new(index: usize, outside: &Outside<'_>) -> Self {
        let setup = &outside.setup.servers[index];
        Server {
            index,
            registry: setup.registry,
            process: Process::new(),
            clock: setup.clock,
            heart: None,
            looks_at_timers_first: outside.setup.mutation == Some(Mutation::TimersBeforeInbox),
        }
    }

    /// A new life, without memory; what it must know it reads from the store.
    pub(super) fn start(&mut self, outside: &mut Outside<'_>) {
        self.process.start();
        outside.tell(|| format!("server {} starts, life {}", self.index, self.process.life()));
        outside.database.take_over(self.index, self.process.life());
        self.heart = Some(Box::new(Heart::new(self.index, self.process.life(), &outside.setup)));
        self.turn(outside);
    }

    pub(super) fn crash(&mut self) {
        self.process.crash();
        self.heart = None;
    }

    /// One turn: what waits in the inbox is heard before anyone is judged by the clock.
    pub(super) fn turn(&mut self, outside: &mut Outside<'_>) {
        let Some(heart) = &mut self.heart else { return };
        let now = self.clock.shows(outside.now);
        let mut moment = Moment { outside, now, server: self.index, life: self.process.life() };
        if self.looks_at_timers_first {
            heart.handle_deadline(&mut moment);
        }
        check_waiting(&self.process, self.clock, heart, moment.outside);
        let mut handled = 0;
        while let Some(input) = self.process.take() {
            handled += 1;
            heart.hear(&mut moment, input);
        }
        heart.handle_deadline(&mut moment);
        let deadline = heart.next_deadline().map(|at| self.clock.when(at));
        let next = self.process.rest(outside.now, handled, deadline);
        outside.schedule(self.node(), next);
    }

    /// Something arrives.
    pub(super) fn deliver(&mut self, outside: &mut Outside<'_>, input: ServerInput) {
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
        server_node(self.index)
    }

    /// The registry, while the process lives.
    pub(super) fn registry(&self) -> Option<&Registry> {
        self.heart.as_ref().map(|heart| heart.registry())
    }

    /// A worker in the eyes of this server's registry.
    pub(super) fn state_of(&self, key: &WorkerKey) -> Option<WorkerState> {
        self.registry()?.worker(key).map(|view| view.state)
    }
}

/// Those who were just declared inactive must not have a heartbeat waiting that came in time.
fn check_waiting(
    process: &Process<ServerInput>,
    clock: DriftingClock,
    heart: &Heart,
    outside: &mut Outside<'_>,
) {
    for place in 0..outside.declared.len() {
        let key = outside.declared[place].key.clone();
        let Some(view) = heart.registry().worker(&key) else { continue };
        let arrived = process.waiting().find_map(|(arrived, input)| {
            let ServerInput::Heard(_, Message::Said(said)) = input else { return None };
            let (_, beat) = said.heartbeat.as_ref()?;
            (beat.key == key && beat.token == Some(view.token)).then_some(*arrived)
        });
        let expires = clock.when(view.expires);
        outside.judge(laws::inactive_with_heartbeat_waiting::check(&key, expires, arrived));
    }
}
