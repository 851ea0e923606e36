//! Which workers a scheduler needs to have heard from, and from when on a new one may run anything: without time.
//!
//! Two questions, and one history of the set of workers between them:
//!
//! * *May this scheduler start tasks?* Not during its wait ([`Wait`]), which ends early when everybody it heard from brought the same
//!   set id from the scheduler before, and that set is exactly them.
//! * *May this worker be given tasks?* Only when no set of workers is left that could agree without it at the next restart
//!   ([`HeldBack`] says why not yet).
//!
//! ```text
//!   join ──► present ──► departed ──► forgotten        present: counts, whatever its health
//!     └──► queued ──┘                                  departed: still read by labels, counts no more
//! ```
//!
//! Why it is safe, in four steps. (1) Within one scheduler's life a set loses a member only when that one is dead for good, so
//! of two sets of one history the later one contains all of the earlier that still live. (2) A worker's label is a lower
//! bound on the version of any set of this scheduler that could ever agree and contains it. If all labels are at least the version
//! that first contained `r`, every set that could agree contains `r`. (3) Ids are told only after the wait, to all that
//! might hold an older one; hence any two sets that could agree, of whichever schedulers, have a member in common, and
//! a worker that a scheduler does not know cannot complete one behind its back. (4) What was true in (2) once stays true:
//! labels only grow, and whoever joins later is only ever told of sets that contain `r`. Permission is therefore for good.
//!
//! The whole state is a plain value without a clock in it, so a model checker explores this very code.

mod history;
mod labels;
mod permission;
mod state;
#[cfg(test)]
mod tests;
mod turnover;
mod wait;

pub use permission::HeldBack;
pub use state::{Consensus, Member, Terms};
pub use wait::{How, Reason, Wait};
