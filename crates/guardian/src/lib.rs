//! The guardian's process, and how a worker talks to it.
//!
//! A small mode of the worker's own program is the parent of all job processes. It outlives the worker,
//! kills at the deadline, and tells the server when nothing is left; when to do what is decided by the pure machine in
//! [`lease::guardian`], and the process only does it. [`Guardian`] is the worker's end of the line.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! guardian::run_if_asked(); // The first line of main: in the guardian's process it does not return.
//! let guardian = guardian::Guardian::start(guardian::Isolation::Auto)?;
//! # drop(guardian); Ok(()) }
//! ```

mod cgroup;
mod client;
mod conditions;
mod error;
mod isolation;
mod packet;
mod process;
mod procfs;
mod user;
mod wire;

pub use crate::client::{Exit, Family, Guardian, Launch};
pub use crate::conditions::{Conditions, Environment};
pub use crate::error::{GuardianLost, LaunchError, StartError};
pub use crate::isolation::{Isolation, Protection, UnknownIsolation};
pub use crate::process::run_if_asked;
pub use crate::user::User;
pub use crate::wire::PACKET_BYTES_MAX;
