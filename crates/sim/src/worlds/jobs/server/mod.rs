//! A server: the process, and the heart that lives and dies with it.

mod charge;
mod claims;
mod duties;
mod heart;
mod rescue;
mod roll;
mod sessions;
mod strays;
mod talk;

pub(super) use self::duties::Then;
use self::heart::Heart;

use std::time::Duration;

use lease::registry::{Registry, WorkerState};
use model::{Instant, JobId, RegistryId, WorkerKey};
use store::EnqueueBatch;

use super::call::{Call, Reply};
use super::database::{Asker, Unavailable};
use super::event::{Event, Message};
use super::laws;
use super::mutation::Mutation;
use super::outside::Outside;
use super::setup::server_node;
use crate::clock::DriftingClock;
use crate::net::{ConnectionId, Node};
use crate::process::{Next, Process};
use crate::time::Time;

/// How long a server that goes waits for the store to take note of it.
pub(super) const RESIGN_MAX: Duration = Duration::from_secs(2);

/// Everything that reaches a server.
#[derive(Debug)]
pub(super) enum ServerInput {
    /// A worker said something.
    Heard(ConnectionId, Message),
    /// A connection is gone.
    Broken(ConnectionId),
    /// The store answered what was asked while the server had this registry.
    Answered(Option<RegistryId>, Then, Result<Reply, Unavailable>),
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
    /// SIGTERM; it is started again so long after it has gone.
    Stop(Duration),
}

/// A server process.
pub(super) struct Server {
    pub(super) index: usize,
    pub(super) process: Process<ServerInput>,
    clock: DriftingClock,
    heart: Option<Box<Heart>>,
    looks_at_timers_first: bool,
    /// When it is started again after it has gone by itself.
    back_after: Duration,
}

/// What a heart can touch during one turn.
pub(super) struct Moment<'t, 'a> {
    pub(super) outside: &'t mut Outside<'a>,
    /// By the server's own clock.
    pub(super) now: Instant,
    server: usize,
    life: u32,
    /// The registry that is the server's own.
    registry: Option<RegistryId>,
}

impl Moment<'_, '_> {
    /// Asks the store.
    pub(super) fn call(&mut self, call: Call, then: Then) {
        let asker = Asker { server: self.server, life: self.life, registry: self.registry };
        self.outside.call(asker, call, then);
    }
}

impl Server {
    pub(super) fn new(index: usize, outside: &Outside<'_>) -> Self {
        let setup = &outside.setup.servers[index];
        Server {
            index,
            process: Process::new(),
            clock: setup.clock,
            heart: None,
            looks_at_timers_first: outside.setup.mutation == Some(Mutation::TimersBeforeInbox),
            back_after: Duration::ZERO,
        }
    }

    /// A new life, without memory, and a registry of its own as soon as the store has made one.
    pub(super) fn start(&mut self, outside: &mut Outside<'_>) {
        self.process.start();
        outside.tell(|| format!("server {} starts, life {}", self.index, self.process.life()));
        let now = self.clock.shows(outside.now);
        self.heart = Some(Box::new(Heart::new(self.index, self.process.life(), now, &outside.setup)));
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
        let registry = heart.registry_id();
        let mut moment = Moment { outside, now, server: self.index, life: self.process.life(), registry };
        if self.looks_at_timers_first {
            heart.handle_deadline(&mut moment);
        }
        check_waiting(&self.process, self.clock, heart, moment.outside);
        let mut handled = 0;
        while let Some(input) = self.process.take() {
            handled += 1;
            if let ServerInput::Stop(back_after) = input {
                self.back_after = back_after;
            }
            heart.hear(&mut moment, input);
        }
        heart.handle_deadline(&mut moment);
        if heart.is_gone(now) {
            return self.exit(outside);
        }
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

    /// The registry, while the process lives and has one.
    pub(super) fn registry(&self) -> Option<&Registry> {
        self.heart.as_ref()?.registry()
    }

    /// Which registry is its own, as far as it knows.
    pub(super) fn registry_id(&self) -> Option<RegistryId> {
        self.heart.as_ref()?.registry_id()
    }

    /// Until when its registry is its own, as far as it knows, by true time.
    pub(super) fn owned_until(&self) -> Option<Time> {
        self.heart.as_ref()?.owned_until().map(|until| self.clock.when(until))
    }

    /// A worker in the eyes of this server's registry.
    pub(super) fn state_of(&self, key: &WorkerKey) -> Option<WorkerState> {
        self.registry()?.worker(key).map(|view| view.state)
    }

    /// It has gone by itself; somebody starts it again.
    fn exit(&mut self, outside: &mut Outside<'_>) {
        outside.tell(|| format!("server {} exits", self.index));
        self.crash();
        outside.net.process_died(outside.now, self.node());
        outside.schedule_net();
        outside.queue.push(outside.now + self.back_after, Event::Start(self.node()));
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
        let Some(view) = heart.registry().and_then(|registry| registry.worker(&key)) else { continue };
        let arrived = process.waiting().find_map(|(arrived, input)| {
            let ServerInput::Heard(_, Message::Said(said)) = input else { return None };
            let (_, beat) = said.heartbeat.as_ref()?;
            (beat.key == key && beat.token == Some(view.token)).then_some(*arrived)
        });
        let expires = clock.when(view.expires);
        outside.judge(laws::inactive_with_heartbeat_waiting::check(&key, expires, arrived));
    }
}
