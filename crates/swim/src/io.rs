//! What happens to a machine, and what it wants done.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::identity::{Identity, Incarnation, NodeId};
use crate::message::{Mark, Packet, Request, Response, Status};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A datagram came from this address; it was well formed, sealed with a key of ours and of our cluster.
    Datagram(SocketAddr, Packet),
    /// A stream brought a request; it must be answered by `Output::Respond` with the same ticket.
    Request(Ticket, SocketAddr, Request),
    /// The answer to `Output::Request`, or `None`: no connection, no answer in time.
    Response(Ticket, Option<Response>),
    /// The event loop was late by more than a machine can see from its deadlines; raises our doubt in ourselves.
    Lagged(std::time::Duration),
    /// What this node tells of itself has changed.
    SetMeta(Bytes),
    /// The control log went on.
    SetMark(Mark),
    /// More places to look for the cluster (also when a name resolves to others than before).
    Seeds(Vec<SocketAddr>),
    /// Leave the cluster, politely and for good (for this epoch).
    Leave,
    /// That start of a node is to count as gone for good: by an operator, or because the control log says so.
    Expel(Identity),
}

/// Names an exchange over a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this datagram.
    Send(SocketAddr, Packet),
    /// Open a stream, send the request, and give back the answer as `Input::Response`; at the latest after the configured
    /// [`stream_timeout`](crate::Config::stream_timeout), as `None`.
    Request(Ticket, SocketAddr, Request),
    /// Answer a request.
    Respond(Ticket, Response),
    /// Something that the layers above want to know.
    Event(Event),
}

/// What changed in the cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node joined, or came back under a new epoch.
    Joined(Identity),
    /// A node is suspected.
    Suspected(Identity, Incarnation, Reason),
    /// A node that was suspected or taken for dead contradicted, and is believed.
    Refuted(Identity, Incarnation),
    /// A node is taken for dead.
    Dead(Identity, Incarnation, Reason),
    /// A node left or was expelled.
    Left(Identity),
    /// A member tells something new about itself.
    Changed(Identity),
    /// A gone member was forgotten.
    Forgotten(Identity),
    /// Most others seem gone, or nobody is heard: more likely it is us. (`classic`: fenced.)
    Lonely,
    /// Not any more. (`classic`: unfenced.)
    Reunited,
    /// We were told that we are suspected or dead, and contradicted by this incarnation.
    WeRefuted(Incarnation),
    /// This epoch of ours is over (expelled, or a later start of this node is about): start again with a higher one.
    Expelled,
    /// We have left: nothing more will be sent.
    HaveLeft,
    /// Another member is ahead of us in the control log.
    LogAhead(NodeId, Mark),
    /// There are as many members as we can hold; this one was not taken in.
    Full(Identity),
}

/// Why a node is suspected or taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Our own probes, direct and through helpers, got no answer.
    NoAnswer,
    /// Our own probe got no answer, and so many of the observers asked have the same opinion.
    Opinions {
        /// How many had a bad opinion, ourselves included.
        bad: u8,
        /// How many answered, ourselves included.
        of: u8,
    },
    /// The suspicion was not contradicted in time.
    NotRefuted,
    /// Somebody else said so.
    Told(NodeId),
}

/// A member as others may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub identity: Identity,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its state.
    pub state: State,
    /// Since when it is in this state, by our clock.
    pub since: model::Instant,
    /// Where it is and what it tells of itself.
    pub info: crate::identity::SharedInfo,
    /// It came back from the dead lately, and should not get work yet.
    pub on_probation: bool,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// There.
    Alive,
    /// Our own direct probe had no answer; helpers or observers are asked.
    ProbeFailed,
    /// Suspected.
    Suspected,
    /// Taken for dead.
    Dead,
    /// Gone for good (this epoch).
    Left,
}

impl State {
    /// True if it still counts as a member.
    pub const fn is_present(self) -> bool {
        matches!(self, State::Alive | State::ProbeFailed | State::Suspected)
    }
}

impl Status {
    /// True if it says that the node does not count as a member any more.
    pub const fn is_gone(self) -> bool {
        matches!(self, Status::Dead | Status::Unreliable | Status::Left)
    }
}
