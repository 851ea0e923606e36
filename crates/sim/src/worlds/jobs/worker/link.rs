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
    /// How often we were sent away since a server last took a heartbeat of ours.
    redirects: u32,
}

impl Link {
    /// Not connected; the first try is due at once.
    pub(super) fn new(server: usize) -> Self {
        Link { server: server % SERVERS, stage: Stage::Down { retry_at: Instant::ZERO }, redirects: 0 }
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

    /// The server put us off for so long, and up to half as much again: until then it has nothing to say.
    pub(super) fn put_off(&mut self, now: Instant, wait: Duration) {
        if let Stage::Up { heard_at, .. } = &mut self.stage {
            *heard_at = now + wait * 3 / 2;
        }
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
        self.server = server;
        self.stage = Stage::Down { retry_at };
        connection
    }

    /// The server took a heartbeat.
    pub(super) fn is_served(&mut self) {
        self.redirects = 0;
    }

    /// The server sends us to another one, perhaps without knowing to which. We go there at once the first time; whoever is
    /// sent on and on may be sent to somebody who is gone, so that all are tried in turn, and not as fast as we can.
    pub(super) fn redirected(
        &mut self,
        owner: Option<usize>,
        now: Instant,
        rng: &mut Rng,
    ) -> Option<ConnectionId> {
        self.redirects += 1;
        match owner {
            Some(owner) if self.redirects == 1 => self.go_to(owner, now),
            Some(owner) if self.redirects % 2 == 1 => {
                self.go_to(owner, now + rng.span(Duration::from_millis(1), RETRY_MAX))
            }
            _ => self.try_next(now, rng),
        }
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
