//! Who a node is: its id, the epoch of this start, and how often it had to contradict a rumour.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

/// A node's place in the cluster. Chosen by its operator, kept over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Which start of a node: a durable counter, raised at every start, never reused. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// How often this start of a node had to contradict what was said about it. Only the node itself raises it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u32);

/// One start of one node. What is said about an earlier start says nothing about this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The node.
    pub id: NodeId,
    /// Which start of it.
    pub epoch: Epoch,
}

/// What a node tells about itself. Data, not identity: it may change with any incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Info {
    /// Where its datagrams and streams are received.
    pub addr: SocketAddr,
    /// What the layers above want everybody to know; at most [`META_BYTES_MAX`](crate::META_BYTES_MAX).
    pub meta: Bytes,
}

/// Shared, because thousands of members and messages hold the same one.
pub type SharedInfo = Arc<Info>;

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Identity {
    /// `7@3`: node 7 in its third start.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id.0, self.epoch.0)
    }
}
