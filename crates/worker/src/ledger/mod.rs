//! What the worker holds, owes and may still take: the pure heart of a session.
//!
//! The driver (`session.rs`) feeds it what happened together with the time, carries out its outputs, and asks it for
//! the next frame whenever the stream can take one. It never reads a clock and never waits.
//!
//! ```text
//!             Assigned            Finished              ReportAnswered
//!   (server) ─────────► held ──────────────► report owed ─────────────► (forgotten)
//!                        │ the server says so                           re-sent after every reconnect
//!                        └────────► lost: told to stop, its report is dropped
//! ```
//!
//! **How long a job is ours.** A beat's acknowledgement proves the lease from the moment the beat was *sent*, so
//! `hold_until = send stamp + lease`. A new assignment has no such stamp: the claim happened some network delay before
//! it arrived. Until its first acknowledged beat a job is held for 90 % of its lease from its arrival, which covers
//! delays up to a tenth of the lease. At `hold_until` the handler is told to stop, but only the server's word makes a job
//! lost: it may have been away and still count the job as ours. A process that was stopped for longer finds out by itself, see [`doubt`].
//!
//! **Slots.** `slots = handlers running + credits the server has + credits due`, at all times. A job that was lost
//! keeps its slot until its handler has returned. A new stream starts with no credits at the server.

mod beats;
mod doubt;
mod drain;
mod held;
mod io;
mod machine;
mod reports;
#[cfg(test)]
mod tests;

pub use self::io::StopReason;
pub(crate) use self::io::{Answer, Ended, Grant, Input, Output, Terms, Transmit};
pub(crate) use self::machine::Ledger;
