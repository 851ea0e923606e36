//! One thread, one seed, virtual time: the worlds in which the machines that ship are tried.
//!
//! A world holds real core machines and models of everything outside them: network, clocks, processes, the database.
//! It lives in true time that none of its processes can read, draws everything it leaves to chance from its seed, and
//! tells the same story whenever it is told. Its laws say what must never happen; a run ends at the first breach, with
//! the seed that tells it again.
//!
//! The foundation knows nothing of jobs: [`queue`] (what happens next), [`rng`] (chance), [`clock`] (what processes
//! believe), [`net`] (what arrives), [`process`] (who runs), [`faults`] (what goes wrong), [`trace`] (what happened),
//! [`run`] (many seeds at once), [`law`] (what must not), [`explore`] (all there is, in small worlds). A world is made of these:
//! [`jobs`] (jobs and leases), [`swim`] (who is in a cluster), [`muster`] (what a scheduler without memory may start).

pub mod clock;
pub mod explore;
pub mod faults;
pub mod law;
pub mod net;
pub mod process;
pub mod queue;
pub mod rng;
pub mod run;
mod seeds;
pub mod time;
pub mod trace;
mod worlds;

pub use worlds::{jobs, muster, swim};
