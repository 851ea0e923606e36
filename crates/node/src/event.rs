//! Everything that can happen to the heart of a server. Reading this enum tells the whole story.

use std::time::Duration;

use model::QueueName;
use schedule::dispatch::SessionId;
use store::{Claimed, Deadlines, StoreError};

/// One thing that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A worker opened a session for these queues.
    Joined { session: SessionId, queues: Vec<QueueName> },
    /// A worker has this many more free slots.
    Credits { session: SessionId, add: u32 },
    /// A session ended.
    Left { session: SessionId },
    /// A commit made jobs of these queues available.
    Ready { queues: Vec<QueueName> },
    /// A commit scheduled a job that is due so soon.
    RunDue { in_: Duration },
    /// A claim was answered by the store.
    Claimed { session: SessionId, asked: u32, answer: Result<Granted, StoreError> },
    /// A unary claim gave out leases: the shortest and the longest.
    LeasesGranted { leases: Leases },
    /// A promotion pass ended.
    Promoted { limit: usize, answer: Result<(usize, Vec<QueueName>), StoreError> },
    /// A rescue pass ended.
    Reaped { limit: usize, answer: Result<usize, StoreError> },
    /// A retention pass ended.
    Purged { limit: usize, answer: Result<u64, StoreError> },
    /// Leases were extended after a stall of our own.
    Extended { answer: Result<u64, StoreError> },
    /// The store said when the next duties are due.
    Deadlines { answer: Result<Deadlines, StoreError> },
    /// The store refused or delayed renewals for this long.
    StoreStalled { for_: Duration },
}

/// What a claim brought.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// How many jobs.
    pub(crate) jobs: u32,
    /// The shortest and the longest lease among them.
    pub(crate) leases: Leases,
}

/// The shortest and the longest of some leases; empty for none.
pub(crate) type Leases = std::iter::Flatten<std::array::IntoIter<Option<Duration>, 2>>;

/// The shortest and the longest lease of these jobs.
pub(crate) fn leases(claimed: &[Claimed]) -> Leases {
    let all = || claimed.iter().map(|job| job.lease);
    [all().min(), all().max()].into_iter().flatten()
}
