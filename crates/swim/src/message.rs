//! What nodes say to each other. Plain values: the wire belongs to the driver.

use std::net::SocketAddr;

use crate::identity::{Identity, Incarnation, NodeId, SharedInfo};

/// Longest metadata of a node, in bytes.
pub const META_BYTES_MAX: usize = 256;
/// An upper bound for a datagram's wire form without its updates: envelope, seal and message.
pub const PACKET_BYTES_MAX: usize = 160;
/// An upper bound for an update's wire form without its metadata.
pub const UPDATE_BYTES_MAX: usize = 48;

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub from: Identity,
    /// Whom it is meant for. A node that is not this one any more says so with [`Message::NotMe`].
    pub to: Identity,
    /// The hash of the sender's view (members that are not gone, with their incarnations).
    pub digest: u64,
    /// How far the sender has come in the control log.
    pub mark: Mark,
    /// What it says.
    pub message: Message,
    /// News that travels along.
    pub updates: Vec<Update>,
}

/// How far a node has come in the control log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The log's epoch.
    pub epoch: u32,
    /// The last entry that was applied.
    pub index: u64,
}

/// What a datagram says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Are you there? Answered by `Ack` with the same number.
    Ping {
        /// Names the question.
        number: u32,
    },
    /// I am.
    Ack {
        /// Of the ping.
        number: u32,
    },
    /// Ask that node for me, and pass on its `Ack`, or say `Nack` in time.
    PingFor {
        /// Names the question; the answers carry it.
        number: u32,
        /// Who is to be asked.
        target: Identity,
        /// Where it is.
        addr: SocketAddr,
    },
    /// I asked for you, and have no answer. (So I am alive, and so is our link.)
    Nack {
        /// Of the `PingFor`.
        number: u32,
    },
    /// You are one of that node's observers: what is your opinion of it?
    Ask {
        /// Names the question; the answer carries it.
        round: u32,
        /// About whom.
        target: Identity,
        /// Where it is.
        addr: SocketAddr,
        /// The incarnation the question is about.
        incarnation: Incarnation,
    },
    /// What an observer measured itself.
    Opinion {
        /// Of the `Ask`.
        round: u32,
        /// About whom.
        target: Identity,
        /// What it says.
        view: View,
    },
    /// Nothing but updates.
    Gossip,
    /// You mean an earlier start of this node (or another node): the sender's `from` is who is here now.
    NotMe,
}

/// An observer's opinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// It answers.
    Good,
    /// It hardly answers, or not at all, and the observer hears others meanwhile.
    Bad,
    /// The observer cannot tell: it hears nobody itself, does not know the node, or is too busy.
    Unable,
}

/// A rumour about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// About whom.
    pub node: Identity,
    /// About which incarnation of it.
    pub incarnation: Incarnation,
    /// What is said.
    pub status: Status,
    /// Who said so first: the node itself for `Alive` and `Left`, otherwise the accuser or judge.
    pub by: NodeId,
    /// Where it is and what it tells of itself; always with `Alive`, otherwise when known, so that whoever never heard of
    /// the node can still ask it.
    pub info: Option<SharedInfo>,
}

/// What is said of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It is there. Said by itself only.
    Alive,
    /// It does not answer; it may contradict by a higher incarnation.
    Suspect,
    /// It is taken for dead: it fell silent. It may contradict by a higher incarnation.
    Dead,
    /// It is taken for dead although it speaks: too much of what is sent to it gets no answer. It may contradict, and is
    /// believed after a while.
    Unreliable,
    /// It has gone, or was expelled: final for this epoch.
    Left,
}

/// A request over a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Are you there? For networks that lose or forbid datagrams.
    Ping {
        /// Who asks.
        from: Identity,
        /// Who is asked.
        to: Identity,
    },
    /// Compare views: here is mine in buckets.
    Compare {
        /// Who asks; it need not be known yet: this is also how a node joins.
        from: Update,
        /// The hashes of the sender's view, by bucket; their number is a power of two.
        buckets: Vec<u64>,
    },
    /// Here is what I know better than you.
    Push {
        /// Who tells.
        from: Identity,
        /// What.
        entries: Vec<Update>,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To `Ping`: who is here.
    Pong(Identity),
    /// To `Compare`: all entries of the buckets that differ.
    Differences {
        /// Who answers.
        from: Identity,
        /// Which buckets differ, ascending.
        buckets: Vec<u32>,
        /// What the answering node knows about the nodes in them.
        entries: Vec<Update>,
    },
    /// To `Push`: taken in.
    Done,
    /// Too busy now; try somebody else, or later.
    Busy,
}

impl Update {
    /// An upper bound for its size on the wire.
    pub fn bytes_max(&self) -> usize {
        UPDATE_BYTES_MAX + self.info.as_ref().map_or(0, |info| info.meta.len())
    }
}
