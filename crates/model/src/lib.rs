//! The nouns of Tenure and the rules that hold between them.
//!
//! Everything here is a plain value: no clock, no I/O, no randomness. Stores persist these values, `rpc` puts them
//! on the wire, `schedule` decides with them.

mod backoff;
mod client;
mod error;
mod id;
mod job;
mod limits;
mod outcome;
mod queue;
mod retry;
pub mod splitmix;
mod text;
mod time;
mod worker;

pub use backoff::Backoff;
pub use client::ClientId;
pub use error::{ErrorKind, Invalid};
pub use id::{Fence, Hold, JobId, Kind, QueueName, RequestId, Seat, UniqueKey, WorkerKey};
pub use job::{Ending, Job, LOST_REASON, NewJob, State, UniqueScope, When, after_failure, after_loss};
pub use limits::Limits;
pub use outcome::{Outcome, Report, Retry};
pub use queue::{QueuePatch, QueueSettings};
pub use retry::{Growth, RetryPolicy};
pub use time::{Clock, Instant, LeaseTime, WallTime};
pub use worker::{Generation, HolderEnd, Nonce, RegistryId};
