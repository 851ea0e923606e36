//! One connection: a pipe in each direction that keeps order, and what each side knows of its end.

use std::collections::VecDeque;

use super::Node;
use crate::time::Time;

/// One connection; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who opened it.
    Opener,
    /// Who was asked.
    Acceptor,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection<M> {
    nodes: [Node; 2],
    /// By the side that things are on their way to.
    pipes: [Pipe<M>; 2],
    /// Sides that closed it or know that it is gone.
    left: [bool; 2],
    is_broken: bool,
}

#[derive(Debug)]
struct Pipe<M> {
    under_way: VecDeque<(Time, Parcel<M>)>,
    /// Nothing sent later arrives earlier.
    last_at: Time,
}

#[derive(Debug)]
pub(super) enum Parcel<M> {
    Open,
    Message(M),
    Close,
}

impl<M> Connection<M> {
    pub(super) fn new(opener: Node, acceptor: Node) -> Self {
        let pipe = || Pipe { under_way: VecDeque::new(), last_at: Time::ZERO };
        Connection { nodes: [opener, acceptor], pipes: [pipe(), pipe()], left: [false; 2], is_broken: false }
    }

    /// Puts something on its way; when it arrives.
    pub(super) fn put(&mut self, to: Side, at: Time, parcel: Parcel<M>) -> Time {
        let pipe = &mut self.pipes[to as usize];
        pipe.last_at = pipe.last_at.max(at);
        pipe.under_way.push_back((pipe.last_at, parcel));
        pipe.last_at
    }

    /// What has arrived at a side by now, if anything.
    pub(super) fn take(&mut self, side: Side, now: Time) -> Option<Parcel<M>> {
        let (_, parcel) = self.pipes[side as usize].under_way.pop_front_if(|(at, _)| *at <= now)?;
        if matches!(parcel, Parcel::Close) {
            self.leave(side);
        }
        Some(parcel)
    }

    /// Everything that waited for the link goes on its way, in order, not to arrive before `at`; when each does.
    pub(super) fn resume(&mut self, to: Side, at: Time) -> impl Iterator<Item = Time> {
        let pipe = &mut self.pipes[to as usize];
        for (arrives, _) in &mut pipe.under_way {
            *arrives = at.max(*arrives);
        }
        pipe.last_at = pipe.last_at.max(at);
        pipe.under_way.iter().map(|(at, _)| *at)
    }

    /// The side for which something is on its way from one node to the other.
    pub(super) fn waits_between(&self, from: Node, to: Node) -> Option<Side> {
        [Side::Opener, Side::Acceptor].into_iter().find(|side| {
            let is_this_way = self.node(side.other()) == from && self.node(*side) == to;
            is_this_way && !self.pipes[*side as usize].under_way.is_empty()
        })
    }

    pub(super) fn break_off(&mut self) {
        self.is_broken = true;
        self.pipes.iter_mut().for_each(|pipe| pipe.under_way.clear());
    }

    pub(super) fn leave(&mut self, side: Side) {
        self.left[side as usize] = true;
        // Nobody reads what is still on its way here.
        self.pipes[side as usize].under_way.clear();
    }

    pub(super) fn has_left(&self, side: Side) -> bool {
        self.left[side as usize]
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// True when neither side can learn anything more.
    pub(super) fn is_over(&self) -> bool {
        self.left == [true; 2]
    }

    pub(super) fn node(&self, side: Side) -> Node {
        self.nodes[side as usize]
    }

    /// The side that a node has and has not closed.
    pub(super) fn side_of(&self, node: Node) -> Option<Side> {
        [Side::Opener, Side::Acceptor]
            .into_iter()
            .find(|side| self.node(*side) == node && !self.has_left(*side))
    }
}
