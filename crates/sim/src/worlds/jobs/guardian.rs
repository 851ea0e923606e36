//! A guardian: a process of its own beside each life of a worker that can stop its jobs for certain.
//!
//! Real is the machine; the pipe, the kernel and the way to the servers are models. It shares its worker's machine and
//! clock, and outlives it.

use std::collections::BTreeMap;

use lease::guardian::{self, FamilyId, Input, Order, Output};
use model::Instant;

use super::event::{Event, Message};
use super::families::Errand;
use super::farewell::Farewells;
use super::mutation::Mutation;
use super::outside::{Death, Outside};
use super::worker::{End, GuardianNews};
use crate::clock::DriftingClock;
use crate::net::ConnectionId;
use crate::process::{Next, Process};

/// Whose guardian: that of this life of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GuardianId {
    pub(super) worker: usize,
    pub(super) life: u32,
}

/// Everything that reaches a guardian.
#[derive(Debug)]
pub(super) enum GuardianInput {
    /// The worker says something.
    Said(Order),
    /// The worker wants this family started.
    Launch(FamilyId, Errand),
    /// The worker's process is gone.
    WorkerDied,
    /// The leader of a family exited, like this.
    LeaderExited(FamilyId, End),
    /// Nobody of a family is left.
    Emptied(FamilyId),
    /// A server answered.
    Heard(ConnectionId, Message),
    /// A connection is gone.
    Broken(ConnectionId),
}

/// A guardian process.
pub(super) struct Guardian {
    id: GuardianId,
    pub(super) process: Process<GuardianInput>,
    clock: DriftingClock,
    machine: guardian::Guardian,
    farewells: Farewells,
    /// What is to be started.
    errands: BTreeMap<FamilyId, Errand>,
    /// How leaders ended.
    ends: BTreeMap<FamilyId, End>,
}

impl Guardian {
    /// A guardian that has just been started.
    pub(super) fn start(id: GuardianId, outside: &Outside<'_>) -> Self {
        let mut process = Process::new();
        process.start();
        let machine = match outside.setup.mutation.and_then(Mutation::of_guardian) {
            Some(mutation) => guardian::Guardian::broken(mutation),
            None => guardian::Guardian::new(),
        };
        Guardian {
            id,
            process,
            clock: outside.setup.workers[id.worker].clock,
            machine,
            farewells: Farewells::new(id.worker),
            errands: BTreeMap::new(),
            ends: BTreeMap::new(),
        }
    }

    /// It is killed: its connections close. What becomes of those it guarded is up to the kernel.
    pub(super) fn die(mut self, outside: &mut Outside<'_>) {
        self.farewells.abandon(outside);
    }

    /// One turn: deadlines come first, so that one that was stopped ends what is over before it starts anything.
    pub(super) fn turn(&mut self, outside: &mut Outside<'_>) {
        let now = self.clock.shows(outside.now);
        self.machine.handle_deadline(now);
        self.act(outside, now);
        for (key, taken) in self.farewells.handle_deadline(outside, now) {
            self.input(outside, now, Input::LeaveAnswered { key, taken });
        }
        let mut handled = 0;
        while let Some(input) = self.process.take() {
            handled += 1;
            self.hear(outside, now, input);
        }
        let deadlines = [self.machine.next_deadline(), self.farewells.next_deadline()];
        let deadline = deadlines.into_iter().flatten().min().map(|at| self.clock.when(at));
        let next = self.process.rest(outside.now, handled, deadline);
        self.schedule(outside, next);
    }

    /// Something arrives.
    pub(super) fn deliver(&mut self, outside: &mut Outside<'_>, input: GuardianInput) {
        let next = self.process.deliver(outside.now, input);
        self.go_on(outside, next);
    }

    /// Does what the process wants.
    pub(super) fn go_on(&mut self, outside: &mut Outside<'_>, next: Next) {
        if self.schedule(outside, next) {
            self.turn(outside);
        }
    }

    /// Whether this connection is one of its own.
    pub(super) fn has(&self, connection: ConnectionId) -> bool {
        self.farewells.has(connection)
    }

    fn schedule(&self, outside: &mut Outside<'_>, next: Next) -> bool {
        if let Next::Wake(at, number) = next {
            outside.queue.push(at, Event::WakeGuardian(self.id, number));
        }
        next == Next::Turn
    }

    fn hear(&mut self, outside: &mut Outside<'_>, now: Instant, input: GuardianInput) {
        let input = match input {
            GuardianInput::Said(order) => Input::Said(order),
            GuardianInput::Launch(family, errand) => {
                let exclusive = errand.exclusive;
                self.errands.insert(family, errand);
                Input::Said(Order::Launch { family, exclusive })
            }
            GuardianInput::WorkerDied => Input::WorkerDied,
            GuardianInput::LeaderExited(family, end) => {
                self.ends.insert(family, end);
                Input::LeaderExited { family }
            }
            GuardianInput::Emptied(family) => Input::Emptied { family },
            GuardianInput::Heard(connection, message) => {
                match self.farewells.heard(outside, now, connection, &message) {
                    Some((key, taken)) => Input::LeaveAnswered { key, taken },
                    None => return,
                }
            }
            GuardianInput::Broken(connection) => match self.farewells.broken(outside, now, connection) {
                Some((key, taken)) => Input::LeaveAnswered { key, taken },
                None => return,
            },
        };
        self.input(outside, now, input);
    }

    fn input(&mut self, outside: &mut Outside<'_>, now: Instant, input: Input) {
        self.machine.handle(now, input);
        self.act(outside, now);
    }

    /// Does what the machine says, until it says nothing more.
    fn act(&mut self, outside: &mut Outside<'_>, now: Instant) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Launch { family } => {
                    let errand = self.errands.remove(&family).expect("what is launched was ordered");
                    let runs = outside.launch_family(self.id, family, errand);
                    if !runs {
                        outside.tell_worker(self.id, GuardianNews::Ended(family, End::Fails));
                    }
                    self.machine.handle(now, Input::Launched { family, runs });
                }
                Output::Refused { family } => {
                    self.errands.remove(&family);
                    outside.tell_worker(self.id, GuardianNews::Ended(family, End::Aborted));
                }
                Output::Terminate { family } => outside.terminate_family(family),
                Output::Kill { family } => outside.kill_family(family),
                Output::Ended { family } => {
                    let end = self.ends.remove(&family).expect("who is gone has exited");
                    outside.tell_worker(self.id, GuardianNews::Ended(family, end));
                }
                Output::KillWorker => outside.deaths.push(Death::OfWorker(self.id)),
                Output::Leave { key, nonce, leave } => {
                    self.farewells.take(outside, now, key, nonce, leave);
                }
                Output::Exit => outside.deaths.push(Death::Exit(self.id)),
            }
        }
    }
}
