//! The registry of workers: who is alive, by the server's clock and by nobody else's word.
//!
//! ```text
//!            first heartbeat          durable                 lease over, left, kicked, succeeded
//!   (none) ───────────────► Joining ─────────► Active ────────────────────────────────────► Ended ──► (none)
//!                                                 ▲ └──► Stopping ──────────────────────────┘ durable, then
//!   (restored from the store) ───► Unsynced ──────┘ kicked with   all stopped, or            remembered a while
//!                                   full set,       exclusive     lease over
//!                                   checked         jobs
//! ```
//!
//! Where no store survives us, nobody is restored: a worker that shows a token of a life before is *unsynced* from its first
//! heartbeat on.
//!
//! A worker that heartbeats keeps everything it has bound; what it costs does not depend on how much that is. A row lease
//! that runs out is only a question, put to [`Registry::verify`]. The registry reads no clock and no store: a driver tells
//! it what happened and carries out what it says. With several servers on one store it also tells until when this registry is
//! ours, and whose workers were taken over.

mod bindings;
mod checks;
mod ending;
mod entity;
mod heartbeat;
mod holds;
mod io;
mod kick;
mod machine;
mod mutation;
mod owned;
mod refused;
mod restore;
mod rules;
mod speaker;
mod stall;
mod stops;
mod succession;
#[cfg(test)]
mod tests;
mod throttle;
mod timers;
mod verify;

pub use self::io::{
    Enlisted, HoldStanding, Input, Output, Restored, Retired, Row, StartResult, Terms, Ticket, Verdict,
    WorkerState, WorkerView,
};
pub use self::machine::Registry;
pub use self::mutation::Mutation;
pub use self::speaker::Speaker;
pub use self::stops::STOPS_MAX;

/// Most holds in one [`Output::Check`].
pub const CHECK_MAX: usize = 1_000;
