//! Taking leave by a call of its own: one server after the other is told that a key is over, until one takes note of it.
//! A guardian does so for its dead worker, a worker for a key that was ended while jobs ran.

use std::time::Duration;

use lease::message::Leave;
use model::{Instant, Nonce, WorkerKey};

use super::event::{LeaveAnswer, Message};
use super::outside::Outside;
use super::setup::{SERVERS, server_node, worker_node};
use crate::net::{ConnectionId, Side};

/// How long a server may take to answer before the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The leaves that one process is taking.
#[derive(Debug)]
pub(super) struct Farewells {
    /// On which machine.
    worker: usize,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    key: WorkerKey,
    nonce: Nonce,
    leave: Leave,
    server: usize,
    /// How many servers may still be asked.
    tries: usize,
    connection: ConnectionId,
    give_up_at: Instant,
}

impl Farewells {
    pub(super) fn new(worker: usize) -> Self {
        Farewells { worker, calls: Vec::new() }
    }

    /// Begins to tell the servers; one leave of a key at a time.
    pub(super) fn take(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
        key: WorkerKey,
        nonce: Nonce,
        leave: Leave,
    ) {
        // One that does not own the worker names the one that does, which may have been asked before.
        let call = Call {
            key,
            nonce,
            leave,
            server: self.worker % SERVERS,
            tries: SERVERS + 1,
            connection: ConnectionId(0),
            give_up_at: now,
        };
        self.ask(outside, now, call);
    }

    /// Whether this connection is one of ours.
    pub(super) fn has(&self, connection: ConnectionId) -> bool {
        self.calls.iter().any(|call| call.connection == connection)
    }

    /// A server answered: whose leave is over, and whether it was taken.
    pub(super) fn heard(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
        connection: ConnectionId,
        message: &Message,
    ) -> Option<(WorkerKey, bool)> {
        let Message::LeaveAnswered(answer) = message else { unreachable!("servers answer the call") };
        let call = self.end_call(outside, connection)?;
        match answer {
            LeaveAnswer::Taken => Some((call.key, true)),
            LeaveAnswer::NotOwner(Some(server)) => self.ask(outside, now, Call { server: *server, ..call }),
            LeaveAnswer::NotOwner(None) => self.ask_next(outside, now, call),
        }
    }

    /// A connection is gone: whose leave is over without success, if nobody is left to ask.
    pub(super) fn broken(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
        connection: ConnectionId,
    ) -> Option<(WorkerKey, bool)> {
        let call = self.end_call(outside, connection)?;
        self.ask_next(outside, now, call)
    }

    /// Gives up on servers that do not answer: whose leaves are over without success.
    pub(super) fn handle_deadline(
        &mut self,
        outside: &mut Outside<'_>,
        now: Instant,
    ) -> Vec<(WorkerKey, bool)> {
        let late: Vec<ConnectionId> =
            self.calls.iter().filter(|call| call.give_up_at <= now).map(|call| call.connection).collect();
        late.into_iter().filter_map(|connection| self.broken(outside, now, connection)).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.calls.iter().map(|call| call.give_up_at).min()
    }

    /// The process is gone, and its connections with it.
    pub(super) fn abandon(&mut self, outside: &mut Outside<'_>) {
        self.calls.drain(..).for_each(|call| outside.close(call.connection, Side::Opener));
    }

    fn ask_next(&mut self, outside: &mut Outside<'_>, now: Instant, call: Call) -> Option<(WorkerKey, bool)> {
        let server = (call.server + 1) % SERVERS;
        self.ask(outside, now, Call { server, ..call })
    }

    fn ask(&mut self, outside: &mut Outside<'_>, now: Instant, mut call: Call) -> Option<(WorkerKey, bool)> {
        if call.tries == 0 {
            return Some((call.key, false));
        }
        call.tries -= 1;
        call.connection = outside.open(worker_node(self.worker), server_node(call.server));
        call.give_up_at = now + ANSWER_TIMEOUT;
        let Call { key, nonce, leave, connection, server, .. } = &call;
        outside.tell(|| format!("{key} takes leave at server {server}: {leave:?}"));
        let message = Message::Leave { key: key.clone(), nonce: *nonce, leave: *leave };
        outside.send(*connection, Side::Opener, message);
        self.calls.push(call);
        None
    }

    fn end_call(&mut self, outside: &mut Outside<'_>, connection: ConnectionId) -> Option<Call> {
        let place = self.calls.iter().position(|call| call.connection == connection)?;
        outside.close(connection, Side::Opener);
        Some(self.calls.swap_remove(place))
    }
}
