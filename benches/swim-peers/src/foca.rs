//! foca, as a protocol of the simulated world: its own code, its own codec, its own timers.
//!
//! Nodes renew their identity when they are told that they are down, as foca recommends, so that they come back.
//!
//! Each of foca's periodic timers begins at a random moment of its interval, as with processes that were not all started at the
//! same instant. In one phase, all would probe, gossip and announce at the same moments, which costs foca much: halves that met
//! again would wait for the one moment of announcements that all have in common.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use foca::{AccumulatingRuntime, Config, Foca, Member, NoCustomBroadcast, OwnedNotification, PostcardCodec, Timer};
use model::Instant;
use rand::{RngExt as _, SeedableRng as _};
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use sim::swim::{Belief, Input, Node, Output, Protocol, Start};

/// Renewals of an identity within one start of a node.
const RENEWALS_MAX: u32 = 1 << 16;

/// One identity of one node. A later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Id {
    /// An address and a port, as an identity has where nodes are real: what travels must have its true size.
    addr: [u8; 6],
    /// Which start, and how often it was renewed in it.
    generation: u32,
}

impl Id {
    fn of(node: Node, epoch: u32) -> Id {
        let [a, b, c, d] = node.to_be_bytes();
        Id { addr: [a, b, c, d, 0x1b, 0xcd], generation: epoch * RENEWALS_MAX }
    }

    fn node(self) -> Node {
        let [a, b, c, d, ..] = self.addr;
        Node::from_be_bytes([a, b, c, d])
    }

    fn epoch(self) -> u32 {
        self.generation / RENEWALS_MAX
    }
}

impl foca::Identity for Id {
    type Addr = Node;

    fn renew(&self) -> Option<Id> {
        Some(Id { generation: self.generation + 1, ..*self })
    }

    fn addr(&self) -> Node {
        self.node()
    }

    fn win_addr_conflict(&self, adversary: &Id) -> bool {
        self.generation > adversary.generation
    }
}

/// How foca is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it calls a local network, for clusters of this size.
    pub config: Config,
}

impl Settings {
    /// foca's own values for a local network of `nodes`: period 1 s, probe 500 ms, three helpers, suspicion
    /// 4·log10(n) s, gossip to 3 every 200 ms: the values of our `lan` profile where both have the knob.
    pub fn lan(nodes: u32) -> Settings {
        Settings { config: Config::new_lan(NonZeroU32::new(nodes).expect("a cluster has nodes")) }
    }
}

/// One node.
pub struct FocaNode {
    foca: Foca<Id, PostcardCodec, StdRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Id>,
    timers: BinaryHeap<Reverse<Due>>,
    timers_set: u64,
    /// Each of these has its phase.
    phased: BTreeSet<(u8, u8)>,
    phases: StdRng,
    outputs: VecDeque<Output<Bytes>>,
    me: Id,
    contacts: Vec<Node>,
    /// When to ask a contact again, as long as nobody is known.
    ask_again: Option<Instant>,
}

struct Due {
    at: Instant,
    sequence: u64,
    timer: Timer<Id>,
}

impl FocaNode {
    fn drain(&mut self, now: Instant) {
        while let Some((to, data)) = self.runtime.to_send() {
            self.outputs.push_back(Output::Send(to.node(), data));
        }
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers_set += 1;
            let after = self.phased(after, &timer);
            self.timers.push(Reverse(Due { at: now + after, sequence: self.timers_set, timer }));
        }
        while let Some(notification) = self.runtime.to_notify() {
            match notification {
                OwnedNotification::MemberUp(id) => self.changed(id, Belief::Present),
                OwnedNotification::MemberDown(id) => self.changed(id, Belief::Gone),
                OwnedNotification::Rejoin(id) => self.me = id,
                // Followed by `MemberUp` if it makes a difference.
                OwnedNotification::Rename(..)
                | OwnedNotification::Active
                | OwnedNotification::Idle
                | OwnedNotification::Defunct => {}
            }
        }
    }

    /// A periodic timer that is set for the first time begins anywhere in its interval.
    fn phased(&mut self, after: Duration, timer: &Timer<Id>) -> Duration {
        let of_its_own = match timer {
            Timer::ProbeRandomMember(token) => (0, *token),
            Timer::PeriodicAnnounce(token) => (1, *token),
            Timer::PeriodicAnnounceDown(token) => (2, *token),
            Timer::PeriodicGossip(token) => (3, *token),
            Timer::SendIndirectProbe { .. } | Timer::ChangeSuspectToDown { .. } | Timer::RemoveDown(_) => {
                return after;
            }
        };
        if self.phased.insert(of_its_own) { after.mul_f64(self.phases.random::<f64>()) } else { after }
    }

    fn changed(&mut self, id: Id, belief: Belief) {
        self.outputs.push_back(Output::Changed(id.node(), id.epoch(), belief));
    }

    fn ask(&mut self, now: Instant) {
        for contact in self.contacts.clone() {
            // Announcing needs somebody's identity; only its address counts.
            let _ = self.foca.announce(Id::of(contact, 1), &mut self.runtime);
        }
        self.ask_again = Some(now + Duration::from_secs(1));
        self.drain(now);
    }
}

impl Protocol for FocaNode {
    type Settings = Settings;
    type Message = Bytes;

    fn start(settings: &Settings, start: Start<'_>) -> Self {
        let me = Id::of(start.node, start.epoch);
        let rng = StdRng::seed_from_u64(start.random);
        let mut node = FocaNode {
            foca: Foca::new(me, settings.config.clone(), rng, PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            phased: BTreeSet::new(),
            phases: StdRng::seed_from_u64(start.random ^ 0x7068_6173_6573),
            outputs: VecDeque::new(),
            me,
            contacts: start.contacts.to_vec(),
            ask_again: None,
        };
        let known = (0..start.known).filter(|other| *other != start.node).map(|other| Member::alive(Id::of(other, 1)));
        node.foca.apply_many(known, false, &mut node.runtime).expect("nobody is told about itself");
        node.drain(start.now);
        if start.known == 0 {
            node.ask(start.now);
        } else {
            // Nobody has changed its mind: that is how it began.
            node.outputs.retain(|output| !matches!(output, Output::Changed(..)));
        }
        node
    }

    fn handle(&mut self, now: Instant, input: Input<Bytes>) {
        match input {
            // What it refuses, such as a message meant for an identity it has given up, changes nothing.
            Input::Datagram(_, data) => drop(self.foca.handle_data(&data, &mut self.runtime)),
            Input::Leave => drop(self.foca.leave_cluster(&mut self.runtime)),
            Input::Told(..) => {}
            Input::Request(..) | Input::Response(..) => unreachable!("it has no streams"),
        }
        self.drain(now);
    }

    fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse(due)| due.at);
        timer.into_iter().chain(self.ask_again).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        // Those that are due together go in the order foca asks for.
        let mut due = Vec::new();
        while self.timers.peek().is_some_and(|Reverse(due)| due.at <= now) {
            due.extend(self.timers.pop().map(|Reverse(due)| due));
        }
        due.sort_by(|one, other| one.at.cmp(&other.at).then_with(|| one.timer.cmp(&other.timer)));
        for Due { timer, .. } in due {
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            self.drain(now);
        }
        if self.ask_again.is_some_and(|at| at <= now) {
            self.ask_again = None;
            if self.foca.num_members() == 0 {
                self.ask(now);
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output<Bytes>> {
        self.outputs.pop_front()
    }

    fn belief(&self, about: Node) -> Belief {
        if about == self.me.node() {
            return Belief::Present;
        }
        let known = self.foca.iter_membership_state().find(|member| member.id().node() == about);
        known.map_or(Belief::Unknown, |member| match member.state() {
            foca::State::Alive => Belief::Present,
            foca::State::Suspect => Belief::Suspected,
            foca::State::Down => Belief::Gone,
        })
    }

    fn present(&self) -> usize {
        self.foca.num_members() + 1
    }

    fn wire_bytes(message: &Bytes) -> usize {
        message.len()
    }

    fn stream_timeout(_: &Settings) -> Duration {
        Duration::ZERO
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Due {}
