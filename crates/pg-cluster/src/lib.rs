//! A private PostgreSQL in a temporary directory: for tests, and for benchmarks without a database at hand.
//!
//! A [`Cluster`] listens on a loopback port and on a Unix socket in its own directory, and can be treated as badly as machines
//! treat databases: killed, frozen, stopped, started again, given a standby that takes its place. It needs PostgreSQL's own
//! programs and Linux. Over the port nobody is let in without a password, which is drawn for each cluster and is in its URLs.
//!
//! Nothing here is asynchronous: calls block until what they promise is so.

mod cluster;
mod error;
mod home;
mod options;
mod port;
mod processes;
mod programs;
mod replication;

pub use cluster::{Cluster, USER};
pub use error::ClusterError;
pub use options::Options;
