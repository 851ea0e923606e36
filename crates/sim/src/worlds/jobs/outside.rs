//! Everything in the world but the processes: what a process can touch while it turns.

use std::time::Duration;

use model::WorkerKey;

use super::books::Books;
use super::call::Call;
use super::database::{Asker, Database, Sent};
use super::event::{Event, Message};
use super::families::Families;
use super::guardian::GuardianId;
use super::pipe::Pipes;
use super::runs::Runs;
use super::server::Then;
use super::setup::Setup;
use super::stats::Stats;
use crate::faults::Phase;
use crate::law::{Verdict, Violation};
use crate::net::{ConnectionId, Net, Node, Side};
use crate::process::Next;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::time::Time;
use crate::trace::Trace;

/// The world around a process.
pub(super) struct Outside<'a> {
    pub(super) setup: Setup,
    pub(super) now: Time,
    pub(super) phase: Phase,
    pub(super) queue: Queue<Event>,
    pub(super) net: Net<Message>,
    pub(super) database: Database,
    pub(super) families: Families,
    pub(super) pipes: Pipes,
    pub(super) books: Books,
    pub(super) runs: Runs,
    pub(super) stats: Stats,
    pub(super) trace: Trace<'a>,
    /// How often the wall clock was stepped.
    pub(super) wall_steps: u64,
    /// Keys that ended during this turn without anybody's wish; judged when it is over.
    pub(super) declared: Vec<Declared>,
    /// Processes that were killed or ended during this turn; gone when it is over.
    pub(super) deaths: Vec<Death>,
    violation: Option<Violation>,
}

/// The end of a key that nobody asked for.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) key: WorkerKey,
    /// The lease that was granted last.
    pub(super) lease: Duration,
    pub(super) how: HowDeclared,
}

/// How a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HowDeclared {
    /// Its registry declared it inactive, by the clock.
    Expired,
    /// Its worker let it lapse, by the clock.
    Lapsed,
    /// Its worker was told so.
    Told,
}

/// The end of a process by another one's hand, or by its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    /// A guardian kills its worker.
    OfWorker(GuardianId),
    /// A worker kills its guardian.
    OfGuardian(GuardianId),
    /// A guardian has nothing left to guard.
    Exit(GuardianId),
}

impl<'a> Outside<'a> {
    pub(super) fn new(setup: Setup, trace: Trace<'a>) -> Self {
        let seed = setup.seed;
        Outside {
            now: Time::ZERO,
            phase: Phase::Faults,
            queue: Queue::new(),
            net: Net::new(setup.nodes(), Rng::stream(seed, 0, "net")),
            database: Database::new(&setup),
            families: Families::new(&setup),
            pipes: Pipes::new(&setup),
            books: Books::default(),
            runs: Runs::default(),
            stats: Stats::default(),
            trace,
            wall_steps: 0,
            declared: Vec::new(),
            deaths: Vec::new(),
            violation: None,
            setup,
        }
    }

    /// A law was asked. The first breach ends the run after the present event.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict
            && self.setup.only_law.is_none_or(|only| only == violation.law)
        {
            self.violation.get_or_insert(violation);
        }
    }

    /// The breach that was found, if any.
    pub(super) fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// A line for those who watch.
    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        self.trace.tell(self.now, text);
    }

    /// A server asks the store.
    pub(super) fn call(&mut self, asker: Asker, call: Call, then: Then) {
        let Sent { number, runs_at, answered_at } = self.database.call(self.now, asker, call, then);
        self.queue.push(runs_at, Event::StoreRuns(number));
        if let Some(at) = answered_at {
            self.queue.push(at, Event::StoreAnswers(number));
        }
    }

    /// A process opens a connection.
    pub(super) fn open(&mut self, from: Node, to: Node) -> ConnectionId {
        let connection = self.net.open(self.now, from, to);
        self.schedule_net();
        connection
    }

    /// A process sends on a connection.
    pub(super) fn send(&mut self, connection: ConnectionId, from: Side, message: Message) {
        self.net.send(self.now, connection, from, message);
        self.schedule_net();
    }

    /// A process closes its side of a connection.
    pub(super) fn close(&mut self, connection: ConnectionId, side: Side) {
        self.net.close(self.now, connection, side);
        self.schedule_net();
    }

    /// Puts what the network wants to be reminded of into the queue.
    pub(super) fn schedule_net(&mut self) {
        while let Some((at, wake)) = self.net.poll_wake() {
            self.queue.push(at, Event::Net(wake));
        }
    }

    /// Does what a process wants; true if it must turn now.
    pub(super) fn schedule(&mut self, node: Node, next: Next) -> bool {
        if let Next::Wake(at, number) = next {
            self.queue.push(at, Event::Wake(node, number));
        }
        next == Next::Turn
    }
}
