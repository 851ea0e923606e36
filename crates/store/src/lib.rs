//! The job store: one port of domain verbs, the in-memory store, and the conformance suite that defines both.
//!
//! A store is done when [`conformance`] passes against it. What a verb promises is written at the verb, in
//! [`JobStore`]; how a store keeps the promise is its own affair.

pub mod conformance;
mod error;
mod memory;
mod port;
mod reason;
mod remembered;

pub use error::StoreError;
pub use memory::{MemoryStore, Mutation};
pub use port::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Enqueued,
    Expired, Finished, JobFilter, JobStore, KnownWorker, News, Page, Peer, Progress, Promoted, QueueStats,
    Reaped, Redriven, Renewed, Retention, Selection, ServerInfo,
};
pub use reason::{error_tail, poison_reason};
pub use remembered::{decode_answer, encode_answer};
