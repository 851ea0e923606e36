//! The machine: one node's view of the cluster. Which algorithm keeps it is the profile's choice.

use std::net::SocketAddr;
use std::sync::Arc;

use model::Instant;

use crate::classic::Classic;
use crate::config::{Config, Profile};
use crate::identity::{Identity, Incarnation, Info, NodeId, SharedInfo};
use crate::io::{Input, Member, Output};
use crate::mutation::Mutation;
use crate::node::Node;

/// One node's membership. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Machine(Algorithm);

/// Boxed: a machine is moved about, and is large.
#[derive(Debug)]
enum Algorithm {
    Default(Box<Node>),
    Classic(Box<Classic>),
}

/// The same call on whichever it is.
macro_rules! either {
    ($machine:expr, $node:ident => $call:expr) => {
        match $machine.0 {
            Algorithm::Default(ref $node) => $call,
            Algorithm::Classic(ref $node) => $call,
        }
    };
    ($machine:expr, mut $node:ident => $call:expr) => {
        match $machine.0 {
            Algorithm::Default(ref mut $node) => $call,
            Algorithm::Classic(ref mut $node) => $call,
        }
    };
}

/// How many members are in which state, ourselves counted as alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// There.
    pub alive: usize,
    /// Our own probe had no answer.
    pub probe_failed: usize,
    /// Suspected.
    pub suspected: usize,
    /// Taken for dead, and not forgotten.
    pub dead: usize,
    /// Gone for good, and not forgotten.
    pub left: usize,
}

impl Machine {
    /// A node that begins now. `seeds` is where to look for the cluster; `random` should differ on every node.
    pub fn new(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
    ) -> Self {
        Self::build(now, config, me, info, seeds, random, None)
    }

    /// As [`new`](Self::new), with a deliberate bug.
    pub fn broken(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
        mutation: Mutation,
    ) -> Self {
        Self::build(now, config, me, info, seeds, random, Some(mutation))
    }

    /// As [`new`](Self::new), in a cluster that is already formed: all of `members` are alive in their first incarnation.
    /// No events are told about them.
    pub fn with_members(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
        members: &[(Identity, SharedInfo)],
    ) -> Self {
        let mut machine = Self::new(now, config, me, info, seeds, random);
        either!(machine, mut node => node.know(members));
        machine
    }

    /// The same machine with a deliberate bug from now on.
    pub fn mutated(mut self, mutation: Mutation) -> Self {
        if let Algorithm::Default(node) = &mut self.0 {
            node.mutate(mutation);
        }
        self
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        either!(self, mut node => node.handle(now, input));
    }

    /// When to call [`handle_deadline`](Self::handle_deadline).
    pub fn next_deadline(&self) -> Option<Instant> {
        either!(self, node => node.next_deadline())
    }

    /// It is then.
    pub fn handle_deadline(&mut self, now: Instant) {
        either!(self, mut node => node.handle_deadline(now));
    }

    /// What is to be done; drain until `None` after every input.
    pub fn poll_output(&mut self) -> Option<Output> {
        either!(self, mut node => node.poll_output())
    }

    /// Who we are.
    pub fn me(&self) -> Identity {
        either!(self, node => node.me())
    }

    /// Our incarnation.
    pub fn incarnation(&self) -> Incarnation {
        match &self.0 {
            Algorithm::Default(node) => node.incarnation(),
            Algorithm::Classic(_) => Incarnation(0),
        }
    }

    /// The hash of our view: equal where views are.
    pub fn digest(&self) -> u64 {
        either!(self, node => node.digest())
    }

    /// Everybody we know, gone ones included until they are forgotten, in order of id; ourselves too.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        either!(self, node => node.members()).into_iter()
    }

    /// One of them.
    pub fn member(&self, id: NodeId) -> Option<Member> {
        either!(self, node => node.member(id))
    }

    /// How many are in which state.
    pub fn counts(&self) -> Counts {
        either!(self, node => node.counts())
    }

    /// Most others seem gone, or nobody is heard: more likely it is us.
    pub fn is_lonely(&self) -> bool {
        either!(self, node => node.is_lonely())
    }

    /// How much we doubt ourselves; 0 is well.
    pub fn health(&self) -> u32 {
        match &self.0 {
            Algorithm::Default(node) => node.health(),
            Algorithm::Classic(_) => 0,
        }
    }

    /// The lowest id among those who are there, ourselves included. A preference, no authority.
    pub fn leader_preference(&self) -> NodeId {
        either!(self, node => node.leader_preference())
    }

    /// The highest epoch of our own id that was heard of, once [`Event::Expelled`](crate::Event::Expelled) was told: the
    /// next start needs a higher one.
    pub fn superseded_by(&self) -> Option<crate::Epoch> {
        match &self.0 {
            Algorithm::Default(node) => node.superseded_by(),
            Algorithm::Classic(_) => None,
        }
    }

    fn build(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
        mutation: Option<Mutation>,
    ) -> Self {
        if config.profile == Profile::Classic {
            return Machine(Algorithm::Classic(Box::new(Classic::new(now, config, me, info, seeds, random))));
        }
        let mut node = Node::new(now, config, me, info, seeds, random);
        if let Some(mutation) = mutation {
            node.mutate(mutation);
        }
        Machine(Algorithm::Default(Box::new(node)))
    }
}
