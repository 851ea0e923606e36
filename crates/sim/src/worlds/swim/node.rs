//! One node's process: up or down, stopped, busy or blocked, with what waits for it meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use super::protocol::{Address, Input, Node, Protocol};
use crate::clock::DriftingClock;
use crate::time::Time;

/// Most inputs that wait for a process that does not take them; further ones are dropped, as a full socket buffer does.
/// Messages are a few hundred bytes and a buffer is a few hundred kilobytes.
pub(super) const INBOX_MAX: usize = 2_048;

/// A node.
pub(super) struct Place<P: Protocol> {
    /// `None`: its process is down.
    pub(super) protocol: Option<P>,
    /// How often this node was started; the epoch of the last start, wherever it was.
    pub(super) epoch: u32,
    /// How many processes there have been in this place.
    pub(super) lives: u32,
    pub(super) address: Address,
    pub(super) clock: DriftingClock,
    /// When it is woken next. A wake-up at any other time is an old one.
    pub(super) wake_at: Time,
    /// What handling anything takes.
    pub(super) cost: Duration,
    /// Nothing of it runs before this.
    pub(super) stopped_until: Time,
    /// It neither sends nor receives before this.
    pub(super) blocked_until: Time,
    /// Whom it may look for when it starts with its memory.
    pub(super) remembers: Vec<Address>,
    pub(super) waiting: Waiting<P::Message>,
    pub(super) sent: Sent,
}

/// What waits until a process runs or may speak again.
#[derive(Debug)]
pub(super) struct Waiting<M> {
    pub(super) inbox: VecDeque<Input<M>>,
    pub(super) outbox: Vec<(Node, M)>,
}

/// What a node has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes: the payload of UDP, seal included, without the headers of UDP and IP.
    pub datagram_bytes: u64,
    /// Requests and answers over streams.
    pub exchanges: u64,
    /// Their bytes: seals and lengths included, without the headers of TCP and IP and without hand-shakes.
    pub stream_bytes: u64,
}

impl<P: Protocol> Place<P> {
    pub(super) fn new(address: Address, clock: DriftingClock) -> Self {
        Place {
            protocol: None,
            epoch: 0,
            lives: 0,
            address,
            clock,
            wake_at: Time::MAX,
            cost: Duration::ZERO,
            stopped_until: Time::ZERO,
            blocked_until: Time::ZERO,
            remembers: Vec::new(),
            waiting: Waiting { inbox: VecDeque::new(), outbox: Vec::new() },
            sent: Sent::default(),
        }
    }

    /// Nothing of a life outlasts it but its number and what it has sent.
    pub(super) fn die(&mut self) {
        self.protocol = None;
        self.wake_at = Time::MAX;
        self.stopped_until = Time::ZERO;
        self.blocked_until = Time::ZERO;
        self.waiting.inbox.clear();
        self.waiting.outbox.clear();
    }

    pub(super) fn is_up(&self) -> bool {
        self.protocol.is_some()
    }

    pub(super) fn is_blocked(&self, now: Time) -> bool {
        now < self.blocked_until
    }

    /// The input waits, unless too many do.
    pub(super) fn keep(&mut self, input: Input<P::Message>) {
        if self.waiting.inbox.len() < INBOX_MAX {
            self.waiting.inbox.push_back(input);
        }
    }
}

impl Sent {
    /// All bytes.
    pub fn bytes(self) -> u64 {
        self.datagram_bytes + self.stream_bytes
    }

    /// What was sent since an earlier count.
    pub fn since(self, earlier: Sent) -> Sent {
        Sent {
            datagrams: self.datagrams - earlier.datagrams,
            datagram_bytes: self.datagram_bytes - earlier.datagram_bytes,
            exchanges: self.exchanges - earlier.exchanges,
            stream_bytes: self.stream_bytes - earlier.stream_bytes,
        }
    }
}

impl std::iter::Sum for Sent {
    fn sum<I: Iterator<Item = Sent>>(all: I) -> Sent {
        all.fold(Sent::default(), |sum, one| Sent {
            datagrams: sum.datagrams + one.datagrams,
            datagram_bytes: sum.datagram_bytes + one.datagram_bytes,
            exchanges: sum.exchanges + one.exchanges,
            stream_bytes: sum.stream_bytes + one.stream_bytes,
        })
    }
}
