//! Carries what the membership machine says: sealed datagrams, and short streams on the same address.
//!
//! [`Driver`] owns a [`swim::Machine`] and its [`Sockets`] and runs until the node leaves, is expelled or is stopped.
//! [`Cluster`] is the handle through which everything else sees the members and speaks to the driver.
//!
//! ```text
//!   datagram ─► gate: cut? shut? seal? form? seen before? ─► machine ─► seal ─► datagram
//!   stream ───► frames ────────────────────────────────────►    │   ───► frames ─► stream
//!   time, commands, names ─────────────────────────────────►    └──────► view, then events
//! ```
//!
//! What it deliberately does not do: judge. Whatever is sealed with our key, of our cluster and new goes to the machine.

mod cluster;
pub mod codec;
mod driver;
mod errands;
mod filter;
mod frames;
mod gate;
mod replay;
pub mod seal;
mod sockets;
mod sources;
mod stats;
mod streams;
mod view;

pub use cluster::{Cluster, ClusterError};
pub use driver::{Driver, Ending, Options, StartError};
pub use filter::{Cuts, Filter};
pub use seal::{Key, KeyError, KeyRing, Seal};
pub use sockets::Sockets;
pub use stats::{Drops, Stats};
pub use view::View;
