//! What the worker holds, owes and may still take: the worker's side of the lease.
//!
//! The driver feeds it what happened together with the time, carries out its outputs, and asks it for the next frame
//! whenever the stream can take one. It never reads a clock and never waits.
//!
//! ```text
//!             Assigned            Finished              ReportAnswered
//!   (server) ─────────► held ──────────────► report owed ─────────────► (forgotten)
//!                        │ the server says so                           sent again on every new stream
//!                        └────────► lost: told to stop, its report is dropped
//! ```
//!
//! **One lease covers all jobs.** Heartbeats keep it up, five per lease, whatever is held. An acknowledgement proves the
//! lease from the moment its heartbeat was *sent*: [`clock_rule::hold_until`](crate::clock_rule::hold_until). Before
//! everything it does the ledger looks whether that moment has passed. If so the key has lapsed: every handler is told
//! to stop, nothing is ever sent or started under it again, and the driver draws a new one. The new key's first
//! heartbeats name the lapsed one, so that the registry can hand on what is still ours; what a handler completes after a
//! lapse counts if it was.
//!
//! **What the registry knows.** Heartbeats carry only what changed in the set of held jobs, and a digest of all of it.
//! A job that is settled before the next heartbeat is never mentioned. One that was lost is unbound at once, although
//! its handler may still wind down.
//!
//! A life of the server that has not taken a heartbeat of ours hears everything that we hold, and who we are: it may have
//! no memory of its own. What may be running is always in that, and so is whatever has ended and is not answered yet.
//!
//! **Sets of workers.** Where a server keeps one, it tells us its id. We keep the latest and say it in every heartbeat, also to
//! its next life, until that one tells us another. A new key begins with none.
//!
//! **Results.** What the server took is kept where somebody comes back for it, until that one knows, and told to every new
//! life of the server. Too many of them stop the intake. A worker that leaves takes them with it.
//!
//! **Starts.** An assignment names the server's life, our key and a number. Unless all of it is current it is not
//! started: it was delayed on its way, and we may have said since that the job does not run here.
//!
//! **Exclusive jobs.** They start only when the server took their bind, unless it counts them as running from the moment it
//! sent them (*at once*): then they start as they come, if nothing else must end first. Every order to stop one, by the server, by its
//! limits or by the clock, sets its end: its task is aborted, and if it still has not ended the process must. All of that
//! happens before the hold for exclusive jobs is over, which is a part of the lease: a server that cannot be sure that it
//! still judges us renews the lease and not that hold. Ordinary jobs and the key then go on. What a successor key inherits
//! is never an exclusive job that still runs.
//!
//! **Slots.** `slots = handlers running + credits the server has + credits due`, at all times. A job that was lost
//! keeps its slot until its handler has returned. A new stream starts with no credits at the server.
//!
//! **The driver's part.** Deadlines first, then the event: a process that was stopped finds out what it lost before it
//! starts anything. On [`Output::NewKey`] it answers [`Input::Rekeyed`] at once, drops the stream
//! ([`Input::Disconnected`]) and opens another one under the new key. Outputs are drained after every call that may make
//! some, [`Ledger::poll_transmit`] included. It says [`Input::Finished`] of an exclusive job only when nothing of it is left,
//! and obeys [`Output::Doom`] at once.

mod alarm;
mod answers;
mod bound;
mod drain;
mod exclusive;
mod farewell;
mod frames;
mod held;
mod instance;
mod io;
mod jobs;
mod kept;
mod kill_clock;
mod machine;
mod mutation;
mod pulse;
mod reports;
mod signs;
mod stream;
#[cfg(test)]
mod tests;

pub use self::io::{
    Ended, Grant, Input, KeyEnd, LeaveNote, Output, ReportAnswer, Start, StopReason, Terms, Transmit,
};
pub use self::machine::Ledger;
pub use self::mutation::Mutation;
