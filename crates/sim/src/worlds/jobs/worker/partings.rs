//! The keys of a worker that ended while jobs ran under them: once those have stopped, the servers are told, again and
//! again until the lease would be over anyway.

use std::time::Duration;

use lease::message::Leave;
use model::{Instant, Nonce, WorkerKey};

use super::super::event::Message;
use super::super::farewell::Farewells;
use super::super::outside::Outside;
use crate::net::ConnectionId;

/// The pause before another try.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The leaves that a living worker takes of keys that are over.
#[derive(Debug)]
pub(super) struct Partings {
    farewells: Farewells,
    open: Vec<Parting>,
}

#[derive(Debug)]
struct Parting {
    key: WorkerKey,
    nonce: Nonce,
    words: Leave,
    give_up_at: Instant,
    /// When to try again; `None` while a try is under way.
    retry_at: Option<Instant>,
}

impl Partings {
    pub(super) fn new(worker: usize) -> Self {
        Partings { farewells: Farewells::new(worker), open: Vec::new() }
    }

    /// Nothing that matters runs any more under this key, whose lease is not longer than this.
    pub(super) fn say(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
        key: WorkerKey,
        nonce: Nonce,
        (words, lease): (Leave, Duration),
    ) {
        let give_up_at = now + lease;
        self.open.push(Parting { key, nonce, words, give_up_at, retry_at: Some(now) });
        self.handle_deadline(outside, now);
    }

    pub(super) fn has(&self, connection: ConnectionId) -> bool {
        self.farewells.has(connection)
    }

    /// A server answered.
    pub(super) fn heard(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
        connection: ConnectionId,
        message: &Message,
    ) {
        let over = self.farewells.heard(outside, now, connection, message);
        self.settle(now, over);
    }

    /// A connection is gone.
    pub(super) fn broken(&mut self, outside: &mut Outside<'_>, now: Instant, connection: ConnectionId) {
        let over = self.farewells.broken(outside, now, connection);
        self.settle(now, over);
    }

    pub(super) fn handle_deadline(&mut self, outside: &mut Outside<'_>, now: Instant) {
        let over = self.farewells.handle_deadline(outside, now);
        self.settle(now, over);
        for parting in &mut self.open {
            if parting.retry_at.take_if(|at| *at <= now).is_some() {
                let stopped_at = parting.words.stopped_at.unwrap_or(now);
                let (key, stopped_for) = (parting.key.clone(), now.since(stopped_at));
                let leave = Leave { stopped_for, ..parting.words };
                self.farewells.take(outside, now, key, parting.nonce, leave);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let retries = self.open.iter().filter_map(|parting| parting.retry_at);
        retries.chain(self.farewells.next_deadline()).min()
    }

    /// The process is gone.
    pub(super) fn abandon(&mut self, outside: &mut Outside<'_>) {
        self.farewells.abandon(outside);
    }

    fn settle(&mut self, now: Instant, over: impl IntoIterator<Item = (WorkerKey, bool)>) {
        for (key, taken) in over {
            self.open.retain_mut(|parting| {
                let is_it = parting.key == key;
                if is_it {
                    parting.retry_at = Some(now + RETRY_AFTER);
                }
                !is_it || !taken && now + RETRY_AFTER < parting.give_up_at
            });
        }
    }
}
