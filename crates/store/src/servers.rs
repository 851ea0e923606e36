//! What servers that share a store know and hear of each other.

use model::{Hold, JobId, QueueName, RegistryId, WorkerKey};

/// Who serves, for other servers and for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Where workers reach it, as they would write it.
    pub address: String,
}

/// A registry as another server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which.
    pub registry: RegistryId,
    /// Whose it is.
    pub server: ServerInfo,
    /// How often it has beaten.
    pub beats: u64,
    /// Its server has gone.
    pub resigned: bool,
}

/// What one server tells the others, or someone who wrote to the store without any server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These queues have new available jobs.
    Ready(Vec<QueueName>),
    /// A job was scheduled, perhaps earlier than all others.
    Scheduled,
    /// This queue's settings were changed.
    QueueSet(QueueName),
    /// A running job was cancelled: its holder is to be told.
    CancelAsked {
        /// Who holds it.
        holder: WorkerKey,
        /// Which.
        hold: Hold,
    },
    /// A server has people who watch jobs: for a while, tell which jobs change.
    Watching,
    /// These jobs changed state.
    Changed(Vec<JobId>),
    /// News may have been lost: look at everything again.
    Missed,
}
