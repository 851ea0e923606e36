//! Volatile queues from the client's side. Their server keeps no record, so the client does: a submission is kept until it
//! has ended, and submitted again, under the same id, whenever another life of the server answers.
//!
//! ```text
//!   submit ──► due ──sent──► accepted ──ended──► to acknowledge ──acknowledged──► (forgotten)
//!               ▲               │
//!               └─ another life ┘
//! ```
//!
//! | file | duty |
//! |---|---|
//! | `submissions` | which submissions to send, send again and acknowledge; plain computation |
//! | `submitter`, `ticket` | what users hold |
//! | `driver` | the conversation with the server: submissions and acknowledgements out, ends in |

mod driver;
mod submissions;
mod submitter;
#[cfg(test)]
mod tests;
mod ticket;

pub use submitter::{SubmitOptions, Submitter};
pub use ticket::{End, Ticket};
