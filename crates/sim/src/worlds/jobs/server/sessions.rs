//! Who is connected: each worker's stream, found by connection, by session and by key.
//!
//! A key may have several for a while: its worker has left all but one, but which one only the network knows, and a hello
//! that was held up may come after that of a newer connection. So none displaces another; each goes when it is closed.

use std::collections::BTreeMap;
use std::time::Duration;

use lease::clock_rule::fits_exclusive;
use lease::message::Profile;
use model::{Nonce, QueueName, WorkerKey};
use schedule::dispatch::SessionId;

use super::super::mutation::Mutation;
use crate::net::ConnectionId;

/// One worker's stream.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) connection: ConnectionId,
    pub(super) key: WorkerKey,
    pub(super) nonce: Nonce,
    /// Its process is known to have the key: more than its heartbeats may be believed.
    pub(super) may_speak: bool,
    profile: Profile,
    /// It can stop a job for certain, and its lease is long enough for that.
    is_fit: bool,
    /// Free slots of a worker that our registry does not have as alive: nothing is claimed for it yet.
    held_back: u32,
}

impl Session {
    /// Whether it may be given exclusive jobs.
    pub(super) fn is_fit(&self) -> bool {
        self.is_fit
    }

    /// Those of its queues that it may be given jobs of.
    pub(super) fn open_queues(&self, exclusive: &[QueueName]) -> Vec<QueueName> {
        let is_open = |queue: &&QueueName| self.is_fit || !exclusive.contains(queue);
        self.profile.queues.iter().filter(is_open).cloned().collect()
    }
}

/// All streams of one life of a server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_connection: BTreeMap<ConnectionId, Session>,
    by_id: BTreeMap<SessionId, ConnectionId>,
    by_key: BTreeMap<WorkerKey, Vec<ConnectionId>>,
    opened: u64,
    takes_everyone: bool,
}

impl Sessions {
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Sessions { takes_everyone: mutation == Some(Mutation::EveryoneIsFit), ..Sessions::default() }
    }

    /// A worker said hello: its session. It is not fit for exclusive jobs before it has a lease.
    pub(super) fn open(
        &mut self,
        connection: ConnectionId,
        key: WorkerKey,
        nonce: Nonce,
        profile: Profile,
        may_speak: bool,
    ) -> &Session {
        self.opened += 1;
        let id = SessionId(self.opened);
        self.by_id.insert(id, connection);
        self.by_key.entry(key.clone()).or_default().push(connection);
        let session = Session { id, connection, key, nonce, may_speak, profile, is_fit: false, held_back: 0 };
        self.by_connection.entry(connection).insert_entry(session).into_mut()
    }

    /// The worker of this connection was granted this lease: its session, if that makes it fit or unfit.
    pub(super) fn note_leased(&mut self, connection: ConnectionId, lease: Duration) -> Option<&Session> {
        let session = self.by_connection.get_mut(&connection)?;
        let fits = session.profile.stop_within.is_some_and(|within| fits_exclusive(lease, within));
        let is_fit = fits || self.takes_everyone;
        let was_fit = std::mem::replace(&mut session.is_fit, is_fit);
        (is_fit != was_fit).then_some(session)
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

    /// A heartbeat was taken on this connection: its process has the key.
    pub(super) fn let_speak(&mut self, connection: ConnectionId) {
        if let Some(session) = self.by_connection.get_mut(&connection) {
            session.may_speak = true;
        }
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

    /// All streams.
    pub(super) fn connections(&self) -> Vec<ConnectionId> {
        self.by_connection.keys().copied().collect()
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
