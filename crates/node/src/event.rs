//! Everything that can happen to the heart of a server. Reading this enum tells the whole story.

use std::time::Duration;

use model::QueueName;
use schedule::dispatch::SessionId;
use store::{Deadlines, StoreError};

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
    /// A unary claim gave out a lease this long.
    LeaseGranted { lease: Duration },
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// How many jobs.
    pub(crate) jobs: u32,
    /// The shortest lease among them.
    pub(crate) shortest_lease: Option<Duration>,
}
