//! The network of a world: links with delays and partitions, connections over them, and plain datagrams.
//!
//! It decides when what is sent arrives and whether it does; it delivers nothing itself. The world puts each [`Wake`] of
//! [`Net::poll_wake`] into its queue and gives it back at its time; [`Net::wake`] then says what arrived, if anything.
//! Messages can be of any type.

mod link;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use self::link::Link;
pub use self::link::{Delays, Losses};
use self::stream::{Connection, Parcel};
pub use self::stream::{ConnectionId, Side};
use crate::rng::Rng;
use crate::time::Time;

/// A connection whose link was blocked for longer than this with something on its way is broken when the block ends.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(15);
/// The latest that a side learns of a break without using the connection, if the link lets it.
pub const LEARN_MAX: Duration = Duration::from_secs(20);
/// How soon a side learns of a break when it sends.
const LEARN_BY_USE: Duration = Duration::from_millis(250);

/// A process or machine, by its place in the world's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);

/// Give it back at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something on a connection may have arrived at this side.
    Stream(ConnectionId, Side),
    /// This side learns that its connection is gone.
    Learn(ConnectionId, Side),
    /// A datagram arrives.
    Datagram(u64),
}

/// What came out of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<M> {
    /// Somebody opens a connection to `to`.
    Opened {
        /// The connection.
        connection: ConnectionId,
        /// Who is asked to take it.
        to: Node,
    },
    /// A message on a connection.
    Message {
        /// The connection.
        connection: ConnectionId,
        /// Whose it is.
        to: Node,
        /// What.
        message: M,
    },
    /// The connection is gone; said once to each side that did not close it itself.
    Broken {
        /// The connection.
        connection: ConnectionId,
        /// Who learns it.
        to: Node,
    },
    /// A datagram.
    Datagram {
        /// Who sent it.
        from: Node,
        /// Whose it is.
        to: Node,
        /// What.
        message: M,
    },
}

/// The network.
#[derive(Debug)]
pub struct Net<M> {
    nodes: u16,
    /// By (from, to).
    links: Vec<Link>,
    connections: BTreeMap<ConnectionId, Connection<M>>,
    datagrams: BTreeMap<u64, (Node, Node, M)>,
    next_id: u64,
    rng: Rng,
    wakes: VecDeque<(Time, Wake)>,
}

impl<M> Net<M> {
    /// A network between this many nodes, with nothing wrong.
    pub fn new(nodes: u16, rng: Rng) -> Self {
        Net {
            nodes,
            links: vec![Link::default(); usize::from(nodes) * usize::from(nodes)],
            connections: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            next_id: 0,
            rng,
            wakes: VecDeque::new(),
        }
    }

    /// Opens a connection. The opener may send at once; that nobody takes it, it finds out by waiting.
    pub fn open(&mut self, now: Time, from: Node, to: Node) -> ConnectionId {
        let id = ConnectionId(self.fresh_id());
        self.connections.insert(id, Connection::new(from, to));
        self.put(now, id, Side::Acceptor, Parcel::Open);
        id
    }

    /// Sends to the other side. What is sent arrives in order, or the connection breaks.
    pub fn send(&mut self, now: Time, id: ConnectionId, from: Side, message: M) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.is_broken() {
            self.wakes.push_back((now + LEARN_BY_USE, Wake::Learn(id, from)));
        } else {
            self.put(now, id, from.other(), Parcel::Message(message));
        }
    }

    /// Closes one's own side. What was sent before still arrives; then the other side learns it.
    pub fn close(&mut self, now: Time, id: ConnectionId, side: Side) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.leave(side);
        if connection.is_over() {
            self.connections.remove(&id);
        } else if !connection.is_broken() {
            self.put(now, id, side.other(), Parcel::Close);
        }
    }

    /// Breaks a connection: what is on its way is lost in both directions. Each side learns it soon, or only when it
    /// uses the connection, or at last after [`LEARN_MAX`].
    pub fn break_connection(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|it| !it.is_broken()) else { return };
        connection.break_off();
        for side in [Side::Opener, Side::Acceptor] {
            let after = if self.rng.chance(0.5) {
                self.rng.span(Duration::from_millis(1), Duration::from_millis(500))
            } else {
                self.rng.span(Duration::from_secs(1), LEARN_MAX)
            };
            self.wakes.push_back((now + after, Wake::Learn(id, side)));
        }
    }

    /// The process at this node is gone, and its kernel closes what it had open.
    pub fn process_died(&mut self, now: Time, node: Node) {
        for (id, side) in self.sides_of(node) {
            self.close(now, id, side);
        }
    }

    /// The machine of this node is gone: nothing that was on its way arrives, and nobody is told.
    pub fn machine_died(&mut self, now: Time, node: Node) {
        for (id, side) in self.sides_of(node) {
            self.break_connection(now, id);
            let connection =
                self.connections.get_mut(&id).expect("a break is not the end before both sides know");
            connection.leave(side);
        }
    }

    /// Sends a datagram: it may be lost, doubled, or overtaken.
    pub fn send_datagram(&mut self, now: Time, from: Node, to: Node, message: M)
    where
        M: Clone,
    {
        let losses = self.link(from, to).losses;
        if self.link(from, to).is_blocked() || self.rng.chance(losses.lost) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(losses.doubled));
        for _ in 0..copies {
            let id = self.fresh_id();
            let at = now + self.delay(from, to);
            self.datagrams.insert(id, (from, to, message.clone()));
            self.wakes.push_back((at, Wake::Datagram(id)));
        }
    }

    /// From now on nothing passes in this direction. Blocks add up: each needs its [`Net::unblock`].
    pub fn block(&mut self, now: Time, from: Node, to: Node) {
        self.link_mut(from, to).block(now);
    }

    /// Takes one block away. When none is left, what waited on connections goes on its way, unless it waited for too
    /// long.
    pub fn unblock(&mut self, now: Time, from: Node, to: Node) {
        let Some(lasted) = self.link_mut(from, to).unblock(now) else { return };
        let waiting: Vec<(ConnectionId, Side)> = self
            .connections
            .iter()
            .filter_map(|(id, connection)| Some((*id, connection.waits_between(from, to)?)))
            .collect();
        for (id, to_side) in waiting {
            if lasted > GIVE_UP_AFTER {
                self.break_connection(now, id);
                continue;
            }
            let delay = self.delay(from, to);
            let connection = self.connections.get_mut(&id).expect("it was just found");
            let arrivals = connection.resume(to_side, now + delay);
            self.wakes.extend(arrivals.map(|at| (at, Wake::Stream(id, to_side))));
        }
    }

    /// How long things take in this direction from now on.
    pub fn set_delays(&mut self, from: Node, to: Node, delays: Delays) {
        self.link_mut(from, to).delays = delays;
    }

    /// What becomes of datagrams in this direction from now on.
    pub fn set_losses(&mut self, from: Node, to: Node, losses: Losses) {
        self.link_mut(from, to).losses = losses;
    }

    /// Give this back at this time; drain until `None`.
    pub fn poll_wake(&mut self) -> Option<(Time, Wake)> {
        self.wakes.pop_front()
    }

    /// It is the time of this wake: what arrived, if anything did.
    pub fn wake(&mut self, now: Time, wake: Wake) -> Option<Arrival<M>> {
        match wake {
            Wake::Datagram(id) => {
                let (from, to, message) = self.datagrams.remove(&id)?;
                Some(Arrival::Datagram { from, to, message })
            }
            Wake::Learn(id, side) => {
                let connection = self.connections.get_mut(&id)?;
                if !connection.is_broken() || connection.has_left(side) {
                    return None;
                }
                let to = connection.node(side);
                connection.leave(side);
                if connection.is_over() {
                    self.connections.remove(&id);
                }
                Some(Arrival::Broken { connection: id, to })
            }
            Wake::Stream(id, side) => self.take(now, id, side),
        }
    }

    /// The connections that a node has a side of and has not closed.
    pub fn connections_of(&self, node: Node) -> impl Iterator<Item = ConnectionId> {
        self.sides_of(node).into_iter().map(|(id, _)| id)
    }

    fn take(&mut self, now: Time, id: ConnectionId, side: Side) -> Option<Arrival<M>> {
        let connection = self.connections.get_mut(&id)?;
        let (from, to) = (connection.node(side.other()), connection.node(side));
        if self.links[place(self.nodes, from, to)].is_blocked() {
            return None;
        }
        let arrival = match connection.take(side, now)? {
            Parcel::Open => Arrival::Opened { connection: id, to },
            Parcel::Message(message) => Arrival::Message { connection: id, to, message },
            Parcel::Close => Arrival::Broken { connection: id, to },
        };
        if connection.is_over() {
            self.connections.remove(&id);
        }
        Some(arrival)
    }

    fn put(&mut self, now: Time, id: ConnectionId, to_side: Side, parcel: Parcel<M>) {
        let connection = &self.connections[&id];
        if connection.has_left(to_side) {
            return;
        }
        let delay = self.delay(connection.node(to_side.other()), connection.node(to_side));
        let connection = self.connections.get_mut(&id).expect("it was just found");
        let at = connection.put(to_side, now + delay, parcel);
        self.wakes.push_back((at, Wake::Stream(id, to_side)));
    }

    fn sides_of(&self, node: Node) -> Vec<(ConnectionId, Side)> {
        self.connections
            .iter()
            .filter_map(|(id, connection)| Some((*id, connection.side_of(node)?)))
            .collect()
    }

    fn delay(&mut self, from: Node, to: Node) -> Duration {
        let delays = self.link(from, to).delays;
        delays.draw(&mut self.rng)
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn link(&self, from: Node, to: Node) -> &Link {
        &self.links[place(self.nodes, from, to)]
    }

    fn link_mut(&mut self, from: Node, to: Node) -> &mut Link {
        &mut self.links[place(self.nodes, from, to)]
    }
}

fn place(nodes: u16, from: Node, to: Node) -> usize {
    usize::from(from.0) * usize::from(nodes) + usize::from(to.0)
}

#[cfg(test)]
mod tests;
