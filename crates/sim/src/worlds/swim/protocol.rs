//! What a world needs to know of a membership protocol: the one seam between the two.
//!
//! The world gives every node one value of a [`Protocol`], hands it what arrives and when its deadline comes, and does
//! what it asks for. Nodes are numbers, `0..n`; whatever a protocol calls an address is made from the number and turned
//! back into it. A protocol without streams never says [`Output::Request`], and never hears of them.

use std::fmt::Debug;
use std::time::Duration;

use model::Instant;

use super::change::{Change, Told};
use crate::time::Time;

/// A node's number, which is also its first address.
pub type Node = u32;
/// Where a node is. One that moves has a new address, and nobody is at the old one any more.
pub type Address = u32;

/// One node's share of a membership protocol.
pub trait Protocol: Sized {
    /// What is alike on all nodes of a run: times, limits, options.
    type Settings;
    /// What travels in one datagram, one request or one answer.
    type Message: Clone + Debug;

    /// A node starts.
    fn start(settings: &Self::Settings, start: Start<'_>) -> Self;

    /// Something happened to it. The world takes all outputs before it calls again.
    fn handle(&mut self, now: Instant, input: Input<Self::Message>);

    /// When it wants to be called next; anything up to now means at once.
    fn deadline(&self) -> Option<Instant>;

    /// Its deadline has come, or has passed.
    fn handle_deadline(&mut self, now: Instant);

    /// The next thing it wants done.
    fn poll_output(&mut self) -> Option<Output<Self::Message>>;

    /// What it thinks of another node, or of itself.
    fn belief(&self, about: Node) -> Belief;

    /// How many nodes it counts as members, itself included.
    fn present(&self) -> usize;

    /// How many bytes a message has on the wire.
    fn wire_bytes(message: &Self::Message) -> usize;

    /// How long a stream exchange may take.
    fn stream_timeout(settings: &Self::Settings) -> Duration;
}

/// How a node starts.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// By the node's own clock.
    pub now: Instant,
    /// Which node.
    pub node: Node,
    /// Where it is.
    pub at: Address,
    /// Which start of it, from 1 on.
    pub epoch: u32,
    /// Where it looks for others.
    pub contacts: &'a [Address],
    /// The cluster is formed already: the nodes `0..known` are there and know each other. 0: it must find them.
    pub known: u32,
    /// Whatever it leaves to chance comes from this.
    pub random: u64,
}

/// Something happened to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<M> {
    /// A datagram came.
    Datagram(Address, M),
    /// A stream brought a request; the answer must carry the ticket.
    Request(u64, Address, M),
    /// The answer to its own request, or none: refused, lost or too late.
    Response(u64, Option<M>),
    /// It is asked to leave for good.
    Leave,
    /// Its surroundings tell it something. With it comes what the world knows: where a seed is now, and which start of a node is
    /// to be expelled.
    Told(Told, u32),
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<M> {
    /// Send a datagram.
    Send(Address, M),
    /// Open a stream, send the request, bring the answer with this ticket.
    Request(u64, Address, M),
    /// Answer the request that came with this ticket.
    Respond(u64, M),
    /// It thinks differently of that start of that node from now on.
    Changed(Node, u32, Belief),
}

/// What one node thinks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Belief {
    /// Never heard of it, or forgotten.
    Unknown,
    /// It is a member.
    Present,
    /// It is a member, and the cluster has been told that it may not be.
    Suspected,
    /// It is none any more.
    Gone,
}

impl Belief {
    /// True if it counts as a member.
    pub const fn is_present(self) -> bool {
        matches!(self, Belief::Present | Belief::Suspected)
    }
}

/// Whoever looks at a world while it runs: measures, or checks laws. Sees true time.
pub trait Watch<P: Protocol> {
    /// A node is about to handle this.
    fn input(&mut self, now: Time, node: Node, protocol: &P, input: &Input<P::Message>) {
        let _ = (now, node, protocol, input);
    }

    /// A node wants this done.
    fn output(&mut self, now: Time, node: Node, protocol: &P, output: &Output<P::Message>) {
        let _ = (now, node, protocol, output);
    }

    /// A node has handled an input or its deadline, and all it wanted has been taken.
    fn turned(&mut self, now: Time, node: Node, protocol: &P) {
        let _ = (now, node, protocol);
    }

    /// Something is about to be done to the world.
    fn change(&mut self, now: Time, change: &Change) {
        let _ = (now, change);
    }

    /// True if there is nothing more to see; the world stops.
    fn is_over(&self) -> bool {
        false
    }
}

/// Nobody looks.
impl<P: Protocol> Watch<P> for () {}
