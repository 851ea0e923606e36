//! What makes a server a member of a cluster: its settings, its keys, the counter of its starts, its sockets.

mod epoch;
mod filter;
mod keys;
mod settings;
mod start;

pub(crate) use settings::{ClusterFile, ClusterFlags, ClusterSettings};
pub(crate) use start::open;
