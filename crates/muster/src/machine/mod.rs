//! The scheduler's side with time: which worker to ask, to check, to tell, to trust and to dismiss, and when.
//!
//! It judges no leases and keeps no tasks. Its caller tells it which heartbeats renewed a lease and which leases are over, fetches
//! running tasks when asked to, and gives volatile work only to whom [`Muster::may_run`] allows.

mod io;
mod muster;
mod rounds;
mod stall;
mod status;
#[cfg(test)]
mod tests;
mod worker;

pub use io::{Dismissal, Input, Output, Terms, TurnedAway};
pub use muster::Muster;
pub use status::{HeldBackBy, Status, WaitStatus, WorkerStatus};
