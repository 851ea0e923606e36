//! The default algorithm: SWIM with suspicion and contradiction, local health, second opinions and repair.
//!
//! This file holds the state and the way in and out. Each concern is a file beside it:
//!
//! ```text
//! packets    a datagram comes or goes           evidence   what beats what, for one node
//! probe      one probe each period              helper     probing for others
//! asker      second opinions, our side          observer   second opinions, their side
//! suspicion  how long suspects have             brakes     when it is more likely us
//! spread     news                               sync       comparing views
//! join       finding the cluster, and the dead  check      deaths learned by comparing
//! leave      going, expelling, forgetting       view       what others may see of us
//! scout      a closer look after a death        vouch      whether the unreliable answer by now
//! hold       who is not believed for a while    tally      what votes amount to
//! links      bad links of our own
//! ```

mod asker;
mod brakes;
mod check;
mod evidence;
mod helper;
mod hold;
mod join;
mod leave;
mod links;
mod observer;
mod packets;
mod probe;
mod scout;
mod spread;
mod suspicion;
mod sync;
mod tally;
mod view;
mod vouch;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use model::splitmix::SplitMix;

use crate::config::Config;
use crate::flaps::Flaps;
use crate::health::Health;
use crate::identity::{Epoch, Identity, Incarnation, Info, NodeId, SharedInfo};
use crate::io::{Event, Input, Output, State, Ticket};
use crate::message::{META_BYTES_MAX, Mark, Request, Response, Status, Update};
use crate::mutation::Mutation;
use crate::order::Order;
use crate::queue::{Queue, Rank};
use crate::table::{Entry, Table};
use crate::timers::{Timer, Timers};

/// Most stream exchanges of ours that are under way; beyond, none is begun.
const EXCHANGES_MAX: usize = 1_024;

/// A deadline so late means that we slept.
const SLEPT_PERIODS: u32 = 2;

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    config: Arc<Config>,
    me: Identity,
    incarnation: Incarnation,
    info: SharedInfo,
    mark: Mark,
    mutation: Option<Mutation>,
    /// The latest time we were told.
    now: Instant,
    began: Instant,
    /// When we last noticed that we had slept.
    awake_since: Instant,
    phase: Phase,
    random: SplitMix,
    /// Names pings, rounds and exchanges; begins at a random place.
    numbers: u32,
    tickets: u64,

    table: Table,
    order: Order,
    timers: Timers,
    outputs: VecDeque<Output>,
    exchanges: BTreeMap<Ticket, Exchange>,

    health: Health,
    probe: Option<probe::Probe>,
    relays: BTreeMap<u32, helper::Relay>,
    /// Pings besides the probe, by number.
    scouts: BTreeMap<u32, Identity>,
    /// Until when we look more closely, because somebody died.
    alert_until: Instant,
    suspicions: BTreeMap<NodeId, suspicion::Suspected>,
    rounds: BTreeMap<NodeId, asker::Round>,
    measurements: BTreeMap<NodeId, observer::Measurement>,
    /// Those whom we condemned, until somebody vouches for them.
    reviews: BTreeMap<NodeId, vouch::Review>,
    checks: BTreeMap<NodeId, check::Check>,
    links: links::Links,
    flaps: Flaps,
    brakes: brakes::Brakes,

    queue: Queue,
    gossip_is_set: bool,
    sync: sync::Comparing,
    join: join::Joining,

    /// The highest mark of another that was told upwards.
    mark_told: Mark,
    superseded_by: Option<Epoch>,
    full_told_at: Option<Instant>,
}

/// Whether we take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// We do.
    Member,
    /// We are saying good-bye, so many times more.
    Leaving(u32),
    /// We do not, for good.
    Silent,
}

/// What a stream exchange of ours is for.
#[derive(Debug)]
enum Exchange {
    /// The probe of this number.
    Probe { number: u32 },
    /// The measurement that begins with this number.
    Measure { node: NodeId, first: u32 },
    /// Comparing views.
    Compare { peer: SocketAddr, buckets: Vec<u64> },
    /// Telling what we know better.
    Push,
}

impl Node {
    pub(crate) fn new(
        now: Instant,
        config: Arc<Config>,
        me: Identity,
        mut info: Info,
        seeds: Vec<SocketAddr>,
        random: u64,
    ) -> Self {
        info.meta.truncate(META_BYTES_MAX);
        let mut random = SplitMix::new(random ^ (u64::from(me.id.0) << 32 | u64::from(me.epoch.0)));
        let numbers = random.next() as u32;
        let mut node = Node {
            health: Health::new(config.health_max),
            brakes: brakes::Brakes::new(now, config.accusations_per_period),
            sync: sync::Comparing::new(now),
            join: join::Joining::new(now, seeds, info.addr),
            config,
            me,
            incarnation: Incarnation(0),
            info: Arc::new(info),
            mark: Mark::default(),
            mutation: None,
            now,
            began: now,
            awake_since: now,
            phase: Phase::Member,
            random,
            numbers,
            tickets: 0,
            table: Table::new(false),
            order: Order::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            exchanges: BTreeMap::new(),
            probe: None,
            relays: BTreeMap::new(),
            scouts: BTreeMap::new(),
            alert_until: now,
            suspicions: BTreeMap::new(),
            rounds: BTreeMap::new(),
            measurements: BTreeMap::new(),
            reviews: BTreeMap::new(),
            checks: BTreeMap::new(),
            links: links::Links::default(),
            flaps: Flaps::default(),
            queue: Queue::default(),
            gossip_is_set: false,
            mark_told: Mark::default(),
            superseded_by: None,
            full_told_at: None,
        };
        node.begin();
        node
    }

    pub(crate) fn mutate(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
        self.table.skip_death_in_digest(mutation == Mutation::DigestSkipsDeath);
    }

    /// Takes in the members of a cluster that is already formed.
    pub(crate) fn know(&mut self, members: &[(Identity, SharedInfo)]) {
        self.table.reserve(members.len());
        for (node, info) in members {
            if node.id != self.me.id && self.table.get(node.id).is_none() {
                self.table.insert(Entry {
                    info: info.clone(),
                    since: self.now,
                    id: node.id,
                    epoch: node.epoch,
                    incarnation: Incarnation(0),
                    state: State::Alive,
                    unreliable: false,
                    listed: true,
                });
                self.order.insert(node.id, &mut self.random);
            }
        }
        self.order.shuffle(&mut self.random);
        self.join.settle();
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        self.arrive(now);
        if self.phase == Phase::Silent {
            // Whoever asks is not kept waiting.
            if let Input::Request(ticket, ..) = input {
                self.outputs.push_back(Output::Respond(ticket, Response::Busy));
            }
            return;
        }
        match input {
            Input::Datagram(addr, packet) => self.on_packet(addr, packet),
            Input::Request(ticket, _, request) => self.on_request(ticket, request),
            Input::Response(ticket, response) => self.on_response(ticket, response),
            Input::Lagged(_) if self.is_broken(Mutation::LagIgnored) => {}
            Input::Lagged(lag) => self.health.late_by(lag, self.config.probe_timeout / 2),
            Input::SetMeta(meta) => self.set_meta(meta),
            Input::SetMark(mark) => self.mark = mark,
            Input::Seeds(seeds) => self.add_seeds(seeds),
            Input::Leave => self.leave(),
            Input::Expel(node) => self.expel(node),
        }
        self.review_loneliness();
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if let Some(asked) = self.timers.next() {
            let late = now.since(asked);
            if late > self.config.probe_timeout / 2 {
                self.health.late_by(late, self.config.probe_timeout / 2);
            }
        }
        self.arrive(now);
        while let Some(timer) = self.timers.due(self.now) {
            self.on_timer(timer);
        }
        self.review_loneliness();
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time goes on. If we slept, nothing that ran meanwhile says anything about others.
    fn arrive(&mut self, now: Instant) {
        let slept = self.timers.next().is_some_and(|asked| {
            now.since(asked.max(self.awake_since)) >= self.config.period * SLEPT_PERIODS
        });
        self.now = self.now.max(now);
        if slept && !self.is_broken(Mutation::SleepCondemns) {
            self.awake_since = self.now;
            self.start_anew();
        }
    }

    fn begin(&mut self) {
        let config = self.config.clone();
        let tick = self.random.within(config.period);
        self.timers.set(self.now + tick, Timer::Tick);
        let first = self.random.within(config.sync.every);
        self.timers.set(self.now + first, Timer::Sync);
        let first = self.random.within(config.reach_out_every);
        self.timers.set(self.now + first, Timer::ReachOut);
        self.timers.set(self.now + config.period * leave::SWEEP_PERIODS, Timer::Sweep);
        if self.join.has_seeds() {
            self.timers.set(self.now, Timer::Join);
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => self.tick(),
            Timer::ProbeTimeout { number } => self.probe_timed_out(number),
            Timer::MoreHelpers { number } => self.ask_more_helpers(number),
            Timer::Nack { number } => self.nack(number),
            Timer::Scout => self.scout(),
            Timer::ScoutTimeout { number } => self.scout_timed_out(number),
            Timer::Suspicion { node, incarnation } => self.suspicion_ran_out(node, incarnation),
            Timer::AskAgain { round } => self.ask_again(round),
            Timer::RoundEnd { round } => self.round_timed_out(round),
            Timer::Accuse => self.begin_waiting_rounds(),
            Timer::Measure { node, first } => self.measure(node, first),
            Timer::Check { id, number } => self.check_again(id, number),
            Timer::Gossip => self.gossip(),
            Timer::Sync => self.sync_with_somebody(),
            Timer::Join => self.look_for_cluster(),
            Timer::ReachOut => self.reach_out(),
            Timer::HoldDown { node, incarnation } => self.hold_down_over(node, incarnation),
            Timer::Review { number } => self.review(number),
            Timer::Sweep => self.sweep(),
        }
    }

    fn on_request(&mut self, ticket: Ticket, request: Request) {
        let response = match request {
            Request::Ping { .. } => Response::Pong(self.me),
            Request::Compare { from, buckets } => self.differences(from, &buckets),
            Request::Push { from, entries } => self.take_push(from, entries),
        };
        self.outputs.push_back(Output::Respond(ticket, response));
    }

    fn on_response(&mut self, ticket: Ticket, response: Option<Response>) {
        match self.exchanges.remove(&ticket) {
            Some(Exchange::Probe { number }) => {
                if let Some(Response::Pong(who)) = response {
                    self.probe_answered_over_stream(number, who);
                }
            }
            Some(Exchange::Measure { node, first }) => {
                if let Some(Response::Pong(who)) = response {
                    self.measured_over_stream(node, first, who);
                }
            }
            Some(Exchange::Compare { peer, buckets }) => self.compared(peer, &buckets, response),
            Some(Exchange::Push) | None => {}
        }
    }

    fn set_meta(&mut self, mut meta: bytes::Bytes) {
        meta.truncate(META_BYTES_MAX);
        if meta == self.info.meta {
            return;
        }
        self.info = Arc::new(Info { addr: self.info.addr, meta });
        self.incarnation = Incarnation(self.incarnation.0.saturating_add(1));
        self.spread(self.about_me(), Rank::Verdict);
    }

    /// What we say about ourselves.
    fn about_me(&self) -> Update {
        let status = if self.phase == Phase::Member { Status::Alive } else { Status::Left };
        Update {
            node: self.me,
            incarnation: self.incarnation,
            status,
            by: self.me.id,
            info: Some(self.info.clone()),
        }
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn request(&mut self, addr: SocketAddr, request: Request, purpose: Exchange) {
        if self.exchanges.len() >= EXCHANGES_MAX {
            return;
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.exchanges.insert(ticket, purpose);
        self.outputs.push_back(Output::Request(ticket, addr, request));
    }

    fn next_number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    fn is_broken(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// How many count as members, ourselves included.
    fn members_present(&self) -> usize {
        self.table.present() + 1
    }

    fn periods(&self, periods: u32) -> Duration {
        self.config.period * periods
    }
}
