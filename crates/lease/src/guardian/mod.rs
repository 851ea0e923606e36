//! The guardian: it outlives its worker, and sees to it that nothing the worker started outlives its lease.
//!
//! A small process of its own is the parent of all job processes. It holds the worker's latest `hold_until` for exclusive
//! jobs and keeps the clock rule when the worker cannot: exclusive families are told to end at `hold_until − K − S` and killed at
//! `hold_until − S`; a worker with exclusive jobs inside its own process is killed before `hold_until`. When the worker's
//! process dies it ends every family, waits until they are gone, and takes leave under the worker's keys with "all
//! stopped", so that the jobs go on elsewhere at once and still never beside themselves.
//!
//! ```text
//!   worker:  Alive ──► Parting ──► Dead ──────────────────► Over
//!              │  Bye              ▲  all families are gone, leave is taken (not after Bye)
//!              └───────────────────┘
//!   family:  being started ──► running ──► asked to end ──► killed ──► gone: only then it has ended
//! ```
//!
//! The driver answers every launch and every leave, and gives the next input only when all outputs were carried out.

mod family;
mod io;
mod keys;
mod machine;
mod mutation;
#[cfg(test)]
mod tests;

pub use self::io::{FamilyId, Input, LEAVE_WAIT_MAX, Order, Output};
pub use self::machine::Guardian;
pub use self::mutation::Mutation;
