//! The state of one node, and what others may see of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use model::Instant;
use model::splitmix::{SplitMix, mix};

use crate::config::Config;
use crate::identity::{Identity, Incarnation, Info, NodeId, SharedInfo};
use crate::io::{Event, Input, Member, Output, State, Ticket};
use crate::machine::Counts;
use crate::message::{Mark, Message, Packet, Request, Status, Update};
use crate::table::hash_of;

/// Most exchanges over streams that are under way while we introduce ourselves; further ones wait for the next tick.
pub(super) const INTRODUCTIONS_MAX: usize = 32;

/// Most addresses that are remembered; further ones replace the oldest.
const SEEDS_MAX: usize = 64;

/// One node that finds out alone.
#[derive(Debug)]
pub(crate) struct Classic {
    pub(super) config: Arc<Config>,
    pub(super) me: Identity,
    pub(super) info: SharedInfo,
    pub(super) seeds: Vec<SocketAddr>,
    pub(super) peers: BTreeMap<NodeId, Peer>,
    /// Direct probes without an answer yet, by their number.
    pub(super) direct: BTreeMap<u32, Probe>,
    /// Indirect ones: for each target how many helpers have not answered, and until when they may.
    pub(super) indirect: BTreeMap<NodeId, Indirect>,
    /// What we ask for others, by our own number.
    pub(super) favours: BTreeMap<u32, Favour>,
    /// Those who do not know us yet: asked over streams, a few at a time.
    pub(super) strangers: VecDeque<SocketAddr>,
    pub(super) introductions: BTreeMap<u64, SocketAddr>,
    /// Makes our probing order differ from everybody else's.
    pub(super) salt: u64,
    /// The place in that order of whom the last tick probed, and of the last of the dead who was asked.
    pub(super) last_probed: Option<u64>,
    pub(super) last_dead: Option<u64>,
    pub(super) last_compared: Option<u64>,
    pub(super) last_seed: usize,
    pub(super) next_tick: Instant,
    pub(super) next_reach_out: Instant,
    /// How often we did; the turn of the dead, of seeds and of lists.
    pub(super) reached_out: u32,
    /// One of the dead spoke since the last tick, so others may be back too.
    pub(super) has_returned: bool,
    pub(super) is_fenced: bool,
    pub(super) has_left: bool,
    pub(super) number: u32,
    pub(super) ticket: u64,
    pub(super) mark: Mark,
    pub(super) best_mark: Mark,
    pub(super) lots: SplitMix,
    pub(super) outputs: VecDeque<Output>,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) identity: Identity,
    pub(super) incarnation: Incarnation,
    pub(super) info: SharedInfo,
    pub(super) state: State,
    pub(super) state_changed_at: Instant,
}

#[derive(Debug)]
pub(super) struct Probe {
    pub(super) target: NodeId,
    pub(super) until: Instant,
}

#[derive(Debug)]
pub(super) struct Indirect {
    pub(super) number: u32,
    pub(super) waiting: usize,
    pub(super) until: Instant,
}

#[derive(Debug)]
pub(super) struct Favour {
    pub(super) number: u32,
    pub(super) asker: Identity,
    pub(super) addr: SocketAddr,
    pub(super) until: Instant,
}

impl Classic {
    pub(crate) fn new(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
    ) -> Self {
        let strangers = seeds.iter().copied().filter(|seed| *seed != info.addr).collect();
        let mut lots = SplitMix::new(random ^ mix(u64::from(me.id.0) << 32 | u64::from(me.epoch.0)));
        Classic {
            // Nodes that begin together must neither probe at the same moments nor in the same order.
            next_tick: now + lots.within(config.period),
            salt: lots.next(),
            number: lots.next() as u32,
            next_reach_out: now,
            config,
            me,
            info: Arc::new(info),
            seeds,
            peers: BTreeMap::new(),
            direct: BTreeMap::new(),
            indirect: BTreeMap::new(),
            favours: BTreeMap::new(),
            strangers,
            introductions: BTreeMap::new(),
            last_probed: None,
            last_dead: None,
            last_compared: None,
            last_seed: 0,
            reached_out: 0,
            has_returned: false,
            is_fenced: false,
            has_left: false,
            ticket: 0,
            mark: Mark::default(),
            best_mark: Mark::default(),
            lots,
            outputs: VecDeque::new(),
        }
    }

    /// All of these are alive.
    pub(crate) fn know(&mut self, members: &[(Identity, SharedInfo)]) {
        for (identity, info) in members.iter().filter(|(identity, _)| identity.id != self.me.id) {
            let peer = Peer {
                identity: *identity,
                incarnation: Incarnation::default(),
                info: info.clone(),
                state: State::Alive,
                state_changed_at: self.next_reach_out,
            };
            self.peers.insert(identity.id, peer);
        }
        self.strangers.clear();
        self.next_reach_out = self.next_reach_out + self.lots.within(self.config.reach_out_every);
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        if self.has_left {
            return;
        }
        match input {
            Input::Datagram(addr, packet) => self.datagram(now, addr, packet),
            Input::Request(ticket, _, request) => self.request(now, ticket, request),
            Input::Response(ticket, response) => self.response(now, ticket, response),
            Input::SetMeta(meta) => self.info = Arc::new(Info { addr: self.info.addr, meta }),
            Input::SetMark(mark) => self.mark = mark,
            Input::Seeds(seeds) => self.add_seeds(seeds),
            Input::Leave => self.leave(),
            Input::Expel(identity) => self.gone(now, identity),
            Input::Lagged(_) => {}
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let pending = self.direct.values().map(|probe| probe.until);
        let pending = pending.chain(self.indirect.values().map(|indirect| indirect.until));
        let pending = pending.chain(self.favours.values().map(|favour| favour.until));
        let suspected = self.peers.values().filter(|peer| peer.state == State::Suspected);
        let verdicts = suspected.map(|peer| peer.state_changed_at + self.config.classic.suspicion);
        if self.has_left {
            return None;
        }
        pending.chain(verdicts).chain([self.next_tick, self.next_reach_out]).min()
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn me(&self) -> Identity {
        self.me
    }

    pub(crate) fn digest(&self) -> u64 {
        0
    }

    pub(crate) fn is_lonely(&self) -> bool {
        self.is_fenced
    }

    /// The lowest id that is alive, our own included.
    pub(crate) fn leader_preference(&self) -> NodeId {
        let alive = self.peers.iter().filter(|(_, peer)| peer.state == State::Alive);
        alive.map(|(id, _)| *id).next().map_or(self.me.id, |lowest| lowest.min(self.me.id))
    }

    pub(crate) fn counts(&self) -> Counts {
        let count = |state| self.peers.values().filter(|peer| peer.state == state).count();
        Counts {
            alive: 1 + count(State::Alive),
            probe_failed: count(State::ProbeFailed),
            suspected: count(State::Suspected),
            dead: count(State::Dead),
            left: count(State::Left),
        }
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        let ourselves = Member {
            identity: self.me,
            incarnation: Incarnation::default(),
            state: State::Alive,
            since: Instant::ZERO,
            info: self.info.clone(),
            on_probation: false,
        };
        let mut members: Vec<Member> = self.peers.values().map(Peer::shown).chain([ourselves]).collect();
        members.sort_by_key(|member| member.identity.id);
        members
    }

    pub(crate) fn member(&self, id: NodeId) -> Option<Member> {
        self.members().into_iter().find(|member| member.identity.id == id)
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn send(&mut self, to: Identity, addr: SocketAddr, message: Message, updates: Vec<Update>) {
        let packet = Packet { from: self.me, to, digest: 0, mark: self.mark, message, updates };
        self.outputs.push_back(Output::Send(addr, packet));
    }

    pub(super) fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    pub(super) fn ourselves(&self, status: Status) -> Update {
        Update {
            node: self.me,
            incarnation: Incarnation::default(),
            status,
            by: self.me.id,
            info: Some(self.info.clone()),
        }
    }

    /// Equal where the lists of those who are there are equal: they need not be sent then.
    pub(super) fn hash_of_members(&self) -> u64 {
        let present = self.peers.values().filter(|peer| peer.state.is_present());
        let others = present.map(|peer| hash_of(peer.identity, Incarnation::default()));
        others.fold(hash_of(self.me, Incarnation::default()), |all, one| all ^ one)
    }

    /// Tells some of those who do not know us yet that we are here.
    pub(super) fn introduce(&mut self) {
        while self.introductions.len() < INTRODUCTIONS_MAX
            && let Some(addr) = self.strangers.pop_front()
        {
            self.ticket += 1;
            self.introductions.insert(self.ticket, addr);
            let buckets = vec![self.hash_of_members()];
            let compare = Request::Compare { from: self.ourselves(Status::Alive), buckets };
            self.outputs.push_back(Output::Request(Ticket(self.ticket), addr, compare));
        }
    }

    /// Names come to mean other addresses in time; the oldest are the likeliest to be out of date.
    fn add_seeds(&mut self, seeds: Vec<SocketAddr>) {
        for seed in seeds {
            if !self.seeds.contains(&seed) {
                self.seeds.push(seed);
            }
        }
        let too_many = self.seeds.len().saturating_sub(SEEDS_MAX);
        self.seeds.drain(..too_many);
    }

    fn leave(&mut self) {
        let farewell = self.ourselves(Status::Left);
        let present = self.peers.values().filter(|peer| peer.state.is_present());
        let others: Vec<(Identity, SocketAddr)> =
            present.map(|peer| (peer.identity, peer.info.addr)).collect();
        for (identity, addr) in others {
            self.send(identity, addr, Message::Gossip, vec![farewell.clone()]);
        }
        self.event(Event::HaveLeft);
        self.has_left = true;
    }
}

impl Peer {
    fn shown(&self) -> Member {
        Member {
            identity: self.identity,
            incarnation: self.incarnation,
            state: self.state,
            since: self.state_changed_at,
            info: self.info.clone(),
            on_probation: false,
        }
    }
}
