//! A worker's connection: to which server, since when, and when to give up on it.

use std::time::Duration;

use model::Instant;

use super::super::setup::SERVERS;
use crate::net::ConnectionId;
use crate::rng::Rng;

/// How long a server may take to welcome us before the next one is tried.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause before another try.
const RETRY_MAX: Duration = Duration::from_millis(500);
/// A server that says nothing for this part of a lease, in percent, is left: others may hear us in time.
const SILENCE_PERCENT: u32 = 60;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Down { retry_at: Instant },
    Opening { connection: ConnectionId, give_up_at: Instant },
    Up { connection: ConnectionId, heard_at: Instant },
}

/// The connection.
#[derive(Debug)]
pub(super) struct Link {
    /// Which server is tried, or used.
    server: usize,
    stage: Stage,
}

impl Link {
    /// Not connected; the first try is due at once.
    pub(super) fn new(server: usize) -> Self {
        Link { server: server % SERVERS, stage: Stage::Down { retry_at: Instant::ZERO } }
    }

    /// The server to connect to, if it is time to try.
    pub(super) fn wants_to_open(&self, now: Instant) -> Option<usize> {
        matches!(self.stage, Stage::Down { retry_at } if retry_at <= now).then_some(self.server)
    }

    pub(super) fn opening(&mut self, now: Instant, connection: ConnectionId) {
        self.stage = Stage::Opening { connection, give_up_at: now + WELCOME_TIMEOUT };
    }

    /// The server on this connection said something; false if the connection is not ours any more.
    pub(super) fn heard(&mut self, now: Instant, connection: ConnectionId) -> bool {
        if self.connection() == Some(connection) {
            self.stage = Stage::Up { connection, heard_at: now };
            return true;
        }
        false
    }

    /// Whether the server has been silent for too long.
    pub(super) fn gives_up(&self, now: Instant, lease: Duration) -> bool {
        self.give_up_at(lease).is_some_and(|at| at <= now)
    }

    /// Leaves the connection and tries the next server after a while; the connection to close, if there was one.
    pub(super) fn try_next(&mut self, now: Instant, rng: &mut Rng) -> Option<ConnectionId> {
        let server = (self.server + 1) % SERVERS;
        self.go_to(server, now + rng.span(Duration::from_millis(1), RETRY_MAX))
    }

    /// Leaves the connection and tries this server at this time.
    pub(super) fn go_to(&mut self, server: usize, retry_at: Instant) -> Option<ConnectionId> {
        let connection = self.connection();
        *self = Link { server, stage: Stage::Down { retry_at } };
        connection
    }

    pub(super) fn next_deadline(&self, lease: Duration) -> Option<Instant> {
        match self.stage {
            Stage::Down { retry_at } => Some(retry_at),
            _ => self.give_up_at(lease),
        }
    }

    pub(super) fn server(&self) -> usize {
        self.server
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match self.stage {
            Stage::Down { .. } => None,
            Stage::Opening { connection, .. } | Stage::Up { connection, .. } => Some(connection),
        }
    }

    /// The connection, once the server has welcomed us.
    pub(super) fn up(&self) -> Option<ConnectionId> {
        self.connection().filter(|_| matches!(self.stage, Stage::Up { .. }))
    }

    fn give_up_at(&self, lease: Duration) -> Option<Instant> {
        match self.stage {
            Stage::Down { .. } => None,
            Stage::Opening { give_up_at, .. } => Some(give_up_at),
            Stage::Up { heard_at, .. } => Some(heard_at + lease * SILENCE_PERCENT / 100),
        }
    }
}
