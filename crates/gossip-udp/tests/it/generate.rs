//! Random messages from a seed, with a liking for the edges.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use model::splitmix::SplitMix;
use swim::{
    Epoch, Identity, Incarnation, Info, META_BYTES_MAX, Mark, Message, NodeId, Packet, Request, Response,
    Status, Update, View,
};

/// Values of all kinds from one seed.
pub(crate) struct Generator(SplitMix);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator(SplitMix::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    /// Of any length in bits, so that small and very large numbers are as likely as others.
    pub(crate) fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => self.next() >> self.below(64),
        }
    }

    fn small(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => u32::MAX,
            _ => (self.next() >> 32) as u32 >> self.below(32),
        }
    }

    fn identity(&mut self) -> Identity {
        Identity { id: NodeId(self.small()), epoch: Epoch(self.small()) }
    }

    fn addr(&mut self) -> SocketAddr {
        let port = self.next() as u16;
        match self.below(2) {
            0 => SocketAddr::from((Ipv4Addr::from(self.next() as u32), port)),
            _ => SocketAddr::from((
                Ipv6Addr::from(u128::from(self.next()) << 64 | u128::from(self.next())),
                port,
            )),
        }
    }

    fn meta(&mut self) -> Bytes {
        let length = match self.below(4) {
            0 => 0,
            1 => META_BYTES_MAX,
            _ => self.below(META_BYTES_MAX + 1),
        };
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn update(&mut self) -> Update {
        let statuses = [Status::Alive, Status::Suspect, Status::Dead, Status::Unreliable, Status::Left];
        let has_info = self.below(2) == 0;
        Update {
            node: self.identity(),
            incarnation: Incarnation(self.small()),
            status: statuses[self.below(statuses.len())],
            by: NodeId(self.small()),
            info: has_info.then(|| Arc::new(Info { addr: self.addr(), meta: self.meta() })),
        }
    }

    pub(crate) fn updates(&mut self, most: usize) -> Vec<Update> {
        let count = self.below(most + 1);
        (0..count).map(|_| self.update()).collect()
    }

    fn message(&mut self) -> Message {
        let views = [View::Good, View::Bad, View::Unable];
        let number = self.next() as u32;
        match self.below(8) {
            0 => Message::Ping { number },
            1 => Message::Ack { number },
            2 => Message::PingFor { number, target: self.identity(), addr: self.addr() },
            3 => Message::Nack { number },
            4 => Message::Ask {
                round: number,
                target: self.identity(),
                addr: self.addr(),
                incarnation: Incarnation(self.small()),
            },
            5 => Message::Opinion { round: number, target: self.identity(), view: views[self.below(3)] },
            6 => Message::Gossip,
            _ => Message::NotMe,
        }
    }

    pub(crate) fn packet(&mut self) -> Packet {
        Packet {
            from: self.identity(),
            to: self.identity(),
            digest: self.next(),
            mark: Mark { epoch: self.small(), index: self.number() },
            message: self.message(),
            updates: self.updates(6),
        }
    }

    pub(crate) fn request(&mut self) -> Request {
        match self.below(3) {
            0 => Request::Ping { from: self.identity(), to: self.identity() },
            1 => {
                let buckets = 1 << self.below(8);
                Request::Compare { from: self.update(), buckets: (0..buckets).map(|_| self.next()).collect() }
            }
            _ => Request::Push { from: self.identity(), entries: self.updates(40) },
        }
    }

    pub(crate) fn response(&mut self) -> Response {
        match self.below(4) {
            0 => Response::Pong(self.identity()),
            1 => {
                let count = self.below(30);
                let mut buckets: Vec<u32> = (0..count).map(|_| self.small()).collect();
                buckets.sort_unstable();
                buckets.dedup();
                Response::Differences { from: self.identity(), buckets, entries: self.updates(40) }
            }
            2 => Response::Done,
            _ => Response::Busy,
        }
    }
}
