//! Who is connected: each worker's stream, found by connection, by session and by key.
//!
//! A key may have several for a while: its worker has left all but one, but which one only the network knows, and a hello
//! that was held up may come after that of a newer connection. So none displaces another; each goes when it is closed.

use std::collections::BTreeMap;

use model::{Nonce, WorkerKey};
use schedule::dispatch::SessionId;

use crate::net::ConnectionId;

/// One worker's stream.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) connection: ConnectionId,
    pub(super) key: WorkerKey,
    pub(super) nonce: Nonce,
    /// Free slots of a worker that our registry does not have as alive: nothing is claimed for it yet.
    held_back: u32,
}

/// All streams of one life of a server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_connection: BTreeMap<ConnectionId, Session>,
    by_id: BTreeMap<SessionId, ConnectionId>,
    by_key: BTreeMap<WorkerKey, Vec<ConnectionId>>,
    opened: u64,
}

impl Sessions {
    /// A worker said hello: its session.
    pub(super) fn open(&mut self, connection: ConnectionId, key: WorkerKey, nonce: Nonce) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        self.by_id.insert(id, connection);
        self.by_key.entry(key.clone()).or_default().push(connection);
        self.by_connection.insert(connection, Session { id, connection, key, nonce, held_back: 0 });
        id
    }

    /// The connection is gone.
    pub(super) fn close(&mut self, connection: ConnectionId) -> Option<Session> {
        let session = self.by_connection.remove(&connection)?;
        self.by_id.remove(&session.id);
        if let Some(connections) = self.by_key.get_mut(&session.key) {
            connections.retain(|it| *it != connection);
            if connections.is_empty() {
                self.by_key.remove(&session.key);
            }
        }
        Some(session)
    }

    /// A worker that is not known to be alive has so many free slots.
    pub(super) fn hold_back(&mut self, connection: ConnectionId, credits: u32) {
        if let Some(session) = self.by_connection.get_mut(&connection) {
            session.held_back += credits;
        }
    }

    /// The worker of this connection is alive: its session and the slots that were held back.
    pub(super) fn release(&mut self, connection: ConnectionId) -> Option<(SessionId, u32)> {
        let session = self.by_connection.get_mut(&connection)?;
        Some((session.id, std::mem::take(&mut session.held_back)))
    }

    pub(super) fn on(&self, connection: ConnectionId) -> Option<&Session> {
        self.by_connection.get(&connection)
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.on(*self.by_id.get(&id)?)
    }

    /// All streams of a key.
    pub(super) fn of_key(&self, key: &WorkerKey) -> Vec<Session> {
        let connections = self.by_key.get(key).into_iter().flatten();
        connections.filter_map(|connection| self.on(*connection).cloned()).collect()
    }
}
