//! The job store: one port of domain verbs, the in-memory store, and the conformance suite that defines both.
//!
//! A store is done when [`conformance`] passes against it. What a verb promises is written at the verb, in
//! [`JobStore`]; how a store keeps the promise is its own affair.

pub mod conformance;
mod error;
mod inheritance;
mod memory;
mod page;
mod paired;
mod port;
mod reason;
mod remembered;
mod retention;
mod servers;
mod to_stop;

pub use error::StoreError;
pub use memory::{MemoryStore, Mutation};
pub use paired::Paired;
pub use port::{
    Alarm, Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Enqueued,
    Expired, Finished, Inheritance, JobFilter, JobStore, KnownWorker, News, Page, Past, Peer, Progress,
    Promoted, QueueStats, Reaped, Redriven, Renewed, Retention, Selection, ServerInfo, ToStop, Usage,
};
pub use reason::{error_tail, poison_reason};
pub use remembered::{decode_answer, encode_answer};
pub use to_stop::is_timed_out;
