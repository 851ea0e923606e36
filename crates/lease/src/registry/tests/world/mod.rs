//! A small world for the laws: workers, a network that loses, doubles and reorders, a store that is slow and fails, and a
//! server that stands still, restarts, is cut off from the store, and loses its workers to another.

mod exclusive;
mod laws;
mod node;
mod ownership;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::splitmix::SplitMix;
use model::{Hold, HolderEnd, Instant, Nonce, WorkerKey};

use self::laws::Laws;
use self::node::{Fading, Node, Start};
use self::ownership::Lot;
use self::store::{Asked, Store};
use super::Bug;
use super::desk::{millis, registry, row, terms};
use super::peer::{hold, volatile};
use crate::clock_rule::{RateError, hold_until};
use crate::message::{Answer, Change, Generation, Heartbeat, Leave, Stop, StopOrder};
use crate::registry::{Input, Output, Registry, Row, Ticket, Verdict, WorkerState};

/// What is on its way.
#[derive(Clone, Debug)]
enum Packet {
    Beat { node: usize, number: u64, beat: Box<Heartbeat> },
    Answer { node: usize, number: u64, change: u64, answer: Answer },
    Early { key: WorkerKey, nonce: Nonce, binds: Vec<Change> },
    Stop { key: WorkerKey, stops: Vec<Stop> },
    Bound { key: WorkerKey, holds: Vec<Hold> },
    Assign { key: WorkerKey, hold: Hold, is_exclusive: bool, start: Start },
}

/// What the store was asked, and its answer once it came to it.
struct Request {
    asked: Asked,
    answer: Option<Input>,
}

/// A heartbeat that the server has read and not answered.
struct Unanswered {
    node: usize,
    number: u64,
    change: u64,
    unbinds: Vec<Hold>,
}

pub(super) struct World {
    rng: SplitMix,
    bug: Bug,
    now: Instant,
    generation: u64,
    registry: Registry,
    nodes: Vec<Node>,
    fading: Vec<Fading>,
    packets: Vec<Packet>,
    store: Store,
    requests: Vec<Request>,
    unanswered: BTreeMap<Ticket, Unanswered>,
    next_ticket: u64,
    next_job: u64,
    laws: Laws,
    /// Whether the registry is ours.
    lot: Lot,
}

impl World {
    pub(super) fn new(seed: u64, bug: Bug) -> Self {
        let mut rng = SplitMix::new(seed);
        let now = Instant::from_millis(5_000_000);
        let nodes = (0..1 + rng.below(2)).map(|index| Node::new(index, now)).collect();
        let mut world = World {
            rng,
            bug,
            now,
            generation: 9,
            registry: registry(terms(), bug),
            nodes,
            fading: Vec::new(),
            packets: Vec::new(),
            store: Store::default(),
            requests: Vec::new(),
            unanswered: BTreeMap::new(),
            next_ticket: 0,
            next_job: 0,
            laws: Laws::default(),
            lot: Lot::default(),
        };
        world.lot.is_shared = world.rng.percent(50);
        world.tell(Input::Restored(Vec::new()));
        world
    }

    pub(super) fn step(&mut self) {
        self.own();
        match self.rng.below(100) {
            0..20 => {
                let node = self.any_node();
                self.send_beat(node);
            }
            20..48 => self.deliver(),
            48..50 => self.calm_down(),
            50..54 => self.lose_or_double(),
            54..64 => self.claim(),
            64..68 => self.finish(),
            68..78 => self.execute(),
            78..86 => self.answer(),
            86..88 => self.fail(),
            88..92 => self.verify_any(),
            92 => self.cancel_or_reconnect(),
            93 => self.lose_or_find_the_store(),
            94..96 => self.pass_time(),
            96 => self.farewell(),
            97 => self.stand_still(),
            98 => self.restart(),
            _ => self.leave_or_kick(),
        }
        self.check();
    }

    /// Faults stop: everything arrives and is answered. Law: in the end everybody agrees on who holds what.
    pub(super) fn settle(&mut self) {
        self.lot.is_cut_off = false;
        self.lot.former = None;
        for _ in 0..64 {
            (0..self.nodes.len()).for_each(|node| self.reconnect(node));
            self.calm_down();
            for hold in self.store.running() {
                self.verify(hold, false);
            }
            self.run_dry();
            self.advance(millis(700));
        }
        for node in &self.nodes {
            let key = &node.peer.key;
            let state = self.registry.worker(key).map(|view| view.state);
            assert_eq!(state, Some(WorkerState::Active), "a healthy worker is known");
            assert!(self.laws.is_synced(key), "and whoever waits for that was told");
            let held: Vec<Hold> = node.peer.held.iter().copied().collect();
            assert_eq!(self.registry.bound(key, usize::MAX), held, "the registry's set is the worker's");
            assert_eq!(self.store.held_by(key), held, "and the rows'");
            assert!(held.iter().all(|hold| self.registry.is_bound(key, *hold)));
            assert!(!node.peer.wants_full, "nothing is left to tell");
            assert_eq!(node.unanswered(), [], "every exclusive job was allowed to start");
        }
        let alive: BTreeSet<&WorkerKey> = self.nodes.iter().map(|node| &node.peer.key).collect();
        for hold in self.store.running() {
            assert!(self.store.holder(hold).is_some_and(|holder| alive.contains(holder)), "held by the dead");
        }
    }

    /// For once everything arrives and is answered: most of the time nothing is wrong.
    fn calm_down(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.send_beat(node));
        self.run_dry();
    }

    fn run_dry(&mut self) {
        while !self.packets.is_empty() || !self.requests.is_empty() {
            self.deliver();
            self.execute();
            self.answer();
        }
    }

    /// A worker opens another stream: it refuses what comes over the one before.
    fn reconnect(&mut self, index: usize) {
        self.nodes[index].life = self.generation;
        self.nodes[index].peer.starts_seen = self.next_job;
    }

    fn send_beat(&mut self, index: usize) {
        if self.nodes[index].life != self.generation {
            self.reconnect(index);
        }
        let node = &mut self.nodes[index];
        if node.hold_until.is_some_and(|until| until <= self.now) {
            node.lapse().into_iter().for_each(|hold| self.laws.let_go(hold));
        }
        for hold in self.nodes[index].outlived(self.now) {
            if hold.job.is_volatile() { self.report(index, hold) } else { self.let_go(index, hold) }
        }
        let node = &mut self.nodes[index];
        let binds = node.unanswered();
        if !binds.is_empty() && self.rng.percent(50) {
            let (key, nonce) = (node.peer.key.clone(), node.peer.nonce);
            self.packets.push(Packet::Early { key, nonce, binds });
        }
        if self.rng.percent(5) {
            node.peer.lease = millis(1_000 * (1 + self.rng.below(40)));
        }
        node.number += 1;
        node.sent_at = self.now;
        self.packets.push(Packet::Beat {
            node: index,
            number: node.number,
            beat: Box::new(node.peer.beat()),
        });
    }

    fn lose_or_double(&mut self) {
        let Some(packet) = self.take_packet() else { return };
        if self.rng.percent(50) && !matches!(packet, Packet::Assign { .. }) {
            self.packets.extend([packet.clone(), packet]);
        }
    }

    fn deliver(&mut self) {
        match self.take_packet() {
            None => {}
            Some(Packet::Beat { node, number, beat }) => {
                let ticket = self.ticket();
                let unbinds = beat.unbinds.iter().map(|it| it.hold).collect();
                let waiting = Unanswered { node, number, change: beat.change, unbinds };
                self.unanswered.insert(ticket, waiting);
                self.hear_worker(Input::Heartbeat { ticket, beat: *beat });
            }
            Some(Packet::Early { key, nonce, binds }) => self.hear_worker(Input::Bind { key, nonce, binds }),
            Some(Packet::Answer { node, number, change, answer }) => self.hear(node, number, change, &answer),
            Some(Packet::Stop { key, stops }) => {
                if let Some(node) = self.nodes.iter().position(|node| node.peer.key == key) {
                    stops.iter().for_each(|stop| self.obey(node, *stop));
                }
            }
            Some(Packet::Bound { key, holds }) => {
                let Some(node) = self.nodes.iter_mut().find(|node| node.peer.key == key) else { return };
                holds.into_iter().for_each(|hold| node.hear_bound(self.now, hold));
            }
            Some(Packet::Assign { key, hold, is_exclusive, start }) => {
                let Some(index) = self.nodes.iter().position(|node| node.peer.key == key) else { return };
                let node = &mut self.nodes[index];
                let Some(bind) = node.assign(self.now, hold, is_exclusive, start) else { return };
                if hold.job.is_volatile() {
                    if !node.started().any(|started| started == hold) {
                        self.report(index, hold);
                    }
                } else if self.rng.percent(60) {
                    let nonce = node.peer.nonce;
                    self.packets.push(Packet::Early { key, nonce, binds: vec![bind] });
                }
            }
        }
    }

    fn hear(&mut self, index: usize, number: u64, change: u64, answer: &Answer) {
        let node = &mut self.nodes[index];
        if node.number != number {
            return;
        }
        node.peer.hear(change, answer);
        match answer {
            Answer::Ok(ack) => {
                let until = hold_until(node.sent_at, ack.lease, RateError::DEFAULT);
                node.hold_on(until, ack.exclusive_hold);
                ack.stops.iter().for_each(|stop| self.obey(index, *stop));
            }
            Answer::Inactive { .. } => {
                let fading = self.start_over(index);
                self.fading.extend(fading);
            }
            _ => {}
        }
    }

    /// A node goes on under a new key, with nothing.
    fn start_over(&mut self, index: usize) -> Option<Fading> {
        self.laws.ended(&self.nodes[index].peer.key);
        self.nodes[index].start_over()
    }

    fn obey(&mut self, index: usize, stop: Stop) {
        if !self.nodes[index].peer.held.contains(&stop.hold) {
            return;
        }
        match stop.reason {
            StopOrder::Lost => self.let_go(index, stop.hold),
            StopOrder::Cancelled | StopOrder::Silent => self.report(index, stop.hold),
        }
    }

    fn let_go(&mut self, index: usize, hold: Hold) {
        self.nodes[index].let_go(hold);
        self.laws.let_go(hold);
    }

    fn report(&mut self, index: usize, hold: Hold) {
        let key = self.nodes[index].peer.key.clone();
        if self.store.finish(&key, hold) {
            self.tell(Input::Settled { key, holds: vec![hold] });
        }
        self.let_go(index, hold);
    }

    fn finish(&mut self) {
        let index = self.any_node();
        let held: Vec<Hold> = self.nodes[index].peer.held.iter().copied().collect();
        if let Some(hold) = self.rng.pick(&held).copied() {
            self.report(index, hold);
        }
    }

    fn claim(&mut self) {
        let index = self.any_node();
        let peer = &self.nodes[index].peer;
        // Such a queue belongs to one server.
        let is_volatile = !self.lot.is_shared && self.rng.percent(30);
        let hold = if is_volatile { volatile(self.next_job) } else { hold(self.next_job) };
        let (key, is_exclusive) = (peer.key.clone(), is_volatile || self.rng.percent(40));
        if peer.token.is_some() && self.store.claim(&key, hold, is_exclusive) {
            self.next_job += 1;
            let exclusive = if is_exclusive { vec![hold] } else { Vec::new() };
            let (holds, start) = (vec![hold], self.next_job);
            self.tell(Input::Granted { key: key.clone(), holds, exclusive, start });
            if is_volatile && !self.registry.is_recorded(&key, hold) {
                // It is not sent, so it certainly does not run.
                self.store.finish(&key, hold);
                return;
            }
            let start = Start { life: self.generation, number: start };
            self.packets.push(Packet::Assign { key, hold, is_exclusive, start });
        }
    }

    fn cancel_or_reconnect(&mut self) {
        if self.rng.percent(50) {
            let node = self.any_node();
            return self.reconnect(node);
        }
        let Some(hold) = self.rng.pick(&self.store.running()).copied() else { return };
        self.store.cancel(hold);
        let key = self.store.holder(hold).expect("just picked").clone();
        self.tell(Input::Cancel { key, hold });
    }

    fn verify_any(&mut self) {
        if let Some(hold) = self.rng.pick(&self.store.running()).copied() {
            let beats_itself = self.rng.percent(20);
            self.verify(hold, beats_itself);
        }
    }

    fn verify(&mut self, hold: Hold, beats_itself: bool) {
        let key = self.store.holder(hold).expect("only running jobs are verified").clone();
        let exclusive = self.store.is_exclusive(hold);
        let row = Row { holder: key.clone(), beats_itself, exclusive, ..row(&self.nodes[0].peer, hold) };
        let verdict = self.registry.verify(self.now, &[row])[0];
        self.drain();
        match verdict {
            Verdict::Push => self.laws.pushed(&key, hold),
            Verdict::TakeBack => {
                self.laws.taken_back(&key, hold);
                self.requests.push(Request { asked: Asked::TakeBack(key, hold), answer: None });
            }
            Verdict::AskAgain => {}
            Verdict::NotOurs => panic!("{key:?} is ours"),
        }
    }

    /// The store comes to a request. The answer travels on its own.
    fn execute(&mut self) {
        let Some(index) = self.any_request(|request| request.answer.is_none()) else { return };
        self.requests[index].answer = self.store.carry_out(&self.requests[index].asked);
        if self.requests[index].answer.is_none() {
            self.requests.swap_remove(index);
        }
    }

    fn answer(&mut self) {
        let Some(index) = self.any_request(|request| request.answer.is_some()) else { return };
        let request = self.requests.swap_remove(index);
        self.tell(request.answer.expect("just looked"));
    }

    /// The store fails, perhaps after it committed.
    fn fail(&mut self) {
        let Some(index) = self.any_request(|request| matches!(request.asked, Asked::Of(_))) else { return };
        if let Asked::Of(output) = self.requests.swap_remove(index).asked {
            self.tell(Store::failure(output));
        }
    }

    fn pass_time(&mut self) {
        let most = if self.rng.percent(15) { 30_000 } else { 2_000 };
        let span = millis(self.rng.below(most));
        self.advance(span);
    }

    /// Time passes as on a healthy machine: deadlines are met.
    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        let next = |world: &World| world.registry.next_deadline().into_iter().chain(world.next_beat()).min();
        while let Some(deadline) = next(self).filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.own();
            self.registry.handle_deadline(self.now);
            self.drain();
            self.wake_former();
            self.check();
        }
        self.now = until;
    }

    /// A new life of the server. What it had asked and not got is lost; what the store did stays done.
    fn restart(&mut self) {
        self.lot.former = None;
        self.forget_volatile();
        self.start_anew();
        self.verify_any();
        self.tell(Input::Restored(self.store.alive()));
    }

    /// The registry of a new life, and what there was before.
    fn start_anew(&mut self) -> Registry {
        self.generation += 1;
        let mut terms = terms();
        terms.generation = Generation(self.generation);
        let before = std::mem::replace(&mut self.registry, registry(terms, self.bug));
        for request in std::mem::take(&mut self.requests) {
            if let Asked::TakeBack(key, hold) = request.asked {
                self.laws.not_taken_back(key, hold);
            }
        }
        self.unanswered.clear();
        self.laws.restarted();
        self.lot.until = None;
        self.own();
        before
    }

    fn leave_or_kick(&mut self) {
        let (index, ticket) = (self.any_node(), self.ticket());
        let (key, nonce) = (self.nodes[index].peer.key.clone(), self.nodes[index].peer.nonce);
        if self.rng.percent(50) {
            return self.tell(Input::Kick { ticket, key });
        }
        // Without a lease nothing ran at all, and what its own clock ended before has stopped then.
        let until = self.nodes[index].exclusive_until.unwrap_or(Instant::ZERO);
        let stopped_for = self.now.since(until);
        self.start_over(index);
        let leave =
            Leave { all_stopped: true, crashed: self.rng.percent(50), stopped_for, ..Leave::default() };
        self.tell(Input::Leave { ticket, key, nonce, leave });
    }

    fn tell(&mut self, input: Input) {
        self.registry.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.registry.poll_output() {
            match output {
                Output::Answer { ticket, key, answer } => self.answered(ticket, &key, answer),
                Output::Bound { key, holds } => {
                    self.check_bound(self.is_ours(), &holds);
                    holds.iter().for_each(|hold| self.acknowledge(&key, *hold));
                    self.packets.push(Packet::Bound { key, holds });
                }
                Output::Stop { key, stops } => {
                    self.laws.stopped(&key, &stops);
                    self.packets.push(Packet::Stop { key, stops });
                }
                Output::Ended { key, end } => {
                    self.laws.judged(&key);
                    let user = self.nodes.iter().find(|node| node.peer.key == key);
                    // What another server says after we took over is said of ordinary jobs only.
                    let until = |node: &Node| {
                        if self.lot.was_taken_over { node.exclusive_until } else { node.hold_until }
                    };
                    let holds_on = user.and_then(until).is_some_and(|until| until > self.now);
                    // Law: by the clock a worker ends here only after it has ended there.
                    let is_judged = end == HolderEnd::Expired;
                    assert!(!is_judged || !holds_on, "{key:?} ends before its own clock says so");
                    assert!(!is_judged || self.is_ours(), "{key:?} is judged by somebody who may not");
                }
                Output::Gone { key } => self.check_gone(&key),
                Output::Synced { key } => self.laws.synced(&key),
                Output::LeaveDone { .. } => {}
                Output::LateWord { key, ended_at, stopped_at, .. } => {
                    // Law: whatever was handed over had stopped before.
                    assert!(stopped_at <= ended_at, "{key:?} ran on after its end");
                }
                request => {
                    if let Output::Retire { key, stopped_by, .. } = &request {
                        self.check_retirement(key, *stopped_by);
                    }
                    self.requests.push(Request { asked: Asked::Of(request), answer: None });
                }
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, key: &WorkerKey, answer: Answer) {
        // Nobody waits any more for what was asked of the life before.
        let Some(Unanswered { node, number, change, unbinds }) = self.unanswered.remove(&ticket) else {
            return;
        };
        if let Answer::Ok(ack) = &answer {
            assert!(!ack.exclusive_hold || self.is_ours(), "{key:?} hears what is not certain");
            let bound = self.registry.bound(key, usize::MAX);
            let stands = |hold: &Hold| self.registry.is_bound(key, *hold);
            let bound: Vec<Hold> = bound.into_iter().filter(stands).collect();
            bound.into_iter().for_each(|hold| self.acknowledge(key, hold));
            self.laws.stopped(key, &ack.stops);
            self.laws.unbound(key, unbinds);
        }
        self.packets.push(Packet::Answer { node, number, change, answer });
    }

    fn acknowledge(&mut self, key: &WorkerKey, hold: Hold) {
        let is_held = self.nodes.iter().any(|node| node.peer.key == *key && node.peer.held.contains(&hold));
        self.laws.acknowledge(key, hold, is_held);
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn any_node(&mut self) -> usize {
        self.rng.below(self.nodes.len() as u64) as usize
    }

    fn any_request(&mut self, is_meant: impl Fn(&Request) -> bool) -> Option<usize> {
        let meant: Vec<usize> = (0..self.requests.len()).filter(|n| is_meant(&self.requests[*n])).collect();
        self.rng.pick(&meant).copied()
    }

    fn take_packet(&mut self) -> Option<Packet> {
        let all: Vec<usize> = (0..self.packets.len()).collect();
        self.rng.pick(&all).map(|&index| self.packets.swap_remove(index))
    }
}
