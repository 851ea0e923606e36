//! A process that knows what every job knows: the key of its worker, its own fence, and where the servers are. It opens a
//! stream under that key with a nonce of its own, and says that the job has ended while it runs: to whichever server, again and
//! again, so that it is there first when a server comes back. It also heartbeats, in case somebody takes it for the worker.

use std::time::Duration;

use lease::digest::Digest;
use lease::ledger::{LeaveNote, Transmit};
use lease::message::{Heartbeat, Profile};
use model::{Hold, Nonce, Outcome, Report, WorkerKey};

use super::event::{Event, Message};
use super::setup::{SERVERS, Setup, server_node, worker_node};
use super::world::World;
use crate::faults::{Phase, until_next};
use crate::net::{ConnectionId, Side};
use crate::rng::Rng;

/// Tries that are under way at most.
const TRIES_MAX: usize = 8;
/// What no worker has: theirs are drawn below.
const NONCE: Nonce = Nonce::new(u64::MAX);

/// The usurper.
#[derive(Debug)]
pub(super) struct Usurper {
    /// Half of the worlds have one.
    is_there: bool,
    /// The mean pause between its tries.
    every: Duration,
    tries: Vec<Try>,
    rng: Rng,
}

/// A stream that it opened.
#[derive(Debug)]
struct Try {
    connection: ConnectionId,
    key: WorkerKey,
    hold: Hold,
}

impl Usurper {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut rng = Rng::stream(setup.seed, 0, "usurper");
        let is_there = rng.chance(0.5);
        let every = rng.span_of_any_size(Duration::from_millis(200), Duration::from_secs(20));
        Usurper { is_there, every, tries: Vec::new(), rng }
    }

    /// How long until it tries again, if it is there.
    pub(super) fn until_next(&mut self) -> Option<Duration> {
        self.is_there.then(|| until_next(&mut self.rng, self.every))
    }

    /// What it says when it was welcomed.
    fn says(&mut self, number: usize) -> Transmit {
        let Try { key, hold, .. } = &self.tries[number];
        let outcome = match self.rng.chance(0.5) {
            true => Outcome::HandedBack,
            false => Outcome::Completed { result: Default::default() },
        };
        let beat = Heartbeat {
            key: key.clone(),
            nonce: NONCE,
            token: None,
            lease: Duration::ZERO,
            binds: Vec::new(),
            unbinds: Vec::new(),
            change: 0,
            digest: Digest::default(),
            full: None,
            former: None,
            profile: None,
            free_slots: 1,
            lag: Duration::ZERO,
            sent_at: None,
            answered_at: None,
            starts_seen: u64::MAX,
            worker_set: None,
        };
        let leaves = self.rng.chance(0.2);
        Transmit {
            credits: self.rng.below(3) as u32,
            heartbeat: self.rng.chance(0.5).then_some((1, beat)),
            reports: vec![Report { hold: *hold, outcome }],
            leave: leaves.then(|| LeaveNote {
                key: key.clone(),
                nonce: NONCE,
                all_stopped: true,
                crashed: false,
            }),
            ..Transmit::default()
        }
    }
}

impl World<'_> {
    /// The usurper opens another stream, under the key of somebody who runs an exclusive job.
    pub(super) fn usurp(&mut self) {
        if self.outside.phase == Phase::Calm {
            return;
        }
        if let Some(pause) = self.usurper.until_next() {
            self.outside.queue.push(self.outside.now + pause, Event::Usurp);
        }
        self.note(&[18]);
        let live: Vec<(Hold, WorkerKey)> = self.outside.runs.all().collect();
        if live.is_empty() {
            return;
        }
        let rng = &mut self.usurper.rng;
        let (hold, key) = rng.pick(&live).clone();
        let server = server_node(rng.below(SERVERS as u64) as usize);
        // It is a job, on the machine of its worker; or has told somebody elsewhere.
        let own = self.outside.books.key(&key).worker;
        let other = rng.below(self.workers.len() as u64) as usize;
        let from = worker_node(if rng.chance(0.5) { own } else { other });
        self.outside.stats.usurpations += 1;
        self.outside.tell(|| format!("somebody says hello to node {} as {key}", server.0));
        let connection = self.outside.open(from, server);
        let profile = Profile { queues: self.outside.setup.queues.clone(), slots: 1, ..Profile::default() };
        let hello = Message::Hello { key: key.clone(), nonce: NONCE, profile };
        self.outside.send(connection, Side::Opener, hello);
        self.usurper.tries.push(Try { connection, key, hold });
        if self.usurper.tries.len() > TRIES_MAX {
            let oldest = self.usurper.tries.remove(0);
            self.outside.close(oldest.connection, Side::Opener);
        }
    }

    /// Something arrives at this connection, if it is the usurper's: whether it was.
    pub(super) fn is_usurpers(&mut self, connection: ConnectionId, message: Option<&Message>) -> bool {
        let Some(number) = self.usurper.tries.iter().position(|it| it.connection == connection) else {
            return false;
        };
        match message {
            Some(Message::Welcome { .. }) => {
                let said = self.usurper.says(number);
                self.outside.send(connection, Side::Opener, Message::Said(Box::new(said)));
            }
            Some(_) => {}
            None => _ = self.usurper.tries.remove(number),
        }
        true
    }
}
