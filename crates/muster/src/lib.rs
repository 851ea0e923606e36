//! A scheduler that keeps no record of what is running, and yet never starts a task beside itself.
//!
//! The workers are the only truth about running tasks. A scheduler that has just started waits until every worker that might
//! run something has reported or has certainly stopped. [`set`] ids, kept by workers from one scheduler to the next, tell
//! it in the common case that it has heard from all of them.
//!
//! * [`consensus`] decides, without time, when the wait is over and which worker may be given tasks.
//! * [`health`] says how a worker is, on both sides; [`seats`] who sits where.
//! * [`Muster`] is the scheduler's side with time.

pub mod consensus;
pub mod health;
pub mod machine;
mod mutation;
pub mod seats;
pub mod set;

pub use consensus::{Consensus, HeldBack, How, Member, Reason, Wait};
pub use health::{Health, Rules, Stamps, Unhealthy, health};
pub use machine::{Dismissal, Input, Muster, Output, Status, Terms, TurnedAway};
pub use mutation::Mutation;
pub use seats::About;
pub use set::{Identity, SetHash, SetId, Version};
