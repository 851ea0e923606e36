//! What goes wrong, to whom, for how long; and who had trouble until when.

use std::time::Duration;

use super::database::LATE_MAX;
use super::event::{Event, Heal};
use super::outside::{Death, Outside};
use super::setup::{
    DOWN_MAX, OWNED_FOR, PAUSE_MAX, SERVERS, Setup, TROUBLE_MAX, server_node, worker_at, worker_node,
};
use super::world::World;
use crate::faults::{Fault, Phase, until_next};
use crate::net::{Delays, Node};
use crate::rng::Rng;
use crate::time::Time;

/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;
/// The longest that the store does not answer, or not well.
const STORE_TROUBLE_MAX: Duration = Duration::from_secs(20);
/// The longest stop of a process that stutters: shorter than what a server makes up for.
const STUTTER_MAX: Duration = Duration::from_millis(950);
/// The longest that a message takes while a node's messages take long.
const SPIKE_MAX: Duration = Duration::from_secs(3);

/// The source of trouble.
pub(super) struct Chaos {
    pub(super) rng: Rng,
    /// By node: until when something was wrong with its process or its links.
    trouble_until: Vec<Time>,
    /// By worker: until when something was wrong with its machine other than that the worker's process was dead.
    machine_trouble_until: Vec<Time>,
    /// By worker: until when its process has hardly any CPU.
    slow_until: Vec<Time>,
    store_trouble_until: Time,
    /// By server: until when it is down.
    pub(super) down_until: Vec<Time>,
    /// By server: when it last could not reach the store, from and until.
    cuts: Vec<(Time, Time)>,
    /// The furthest ahead the wall clock ever was.
    wall_max_ms: i64,
}

impl Chaos {
    pub(super) fn new(setup: &Setup) -> Self {
        Chaos {
            rng: Rng::stream(setup.seed, 0, "chaos"),
            trouble_until: vec![Time::ZERO; usize::from(setup.nodes())],
            machine_trouble_until: vec![Time::ZERO; setup.workers.len()],
            slow_until: vec![Time::ZERO; setup.workers.len()],
            store_trouble_until: Time::ZERO,
            down_until: vec![Time::ZERO; SERVERS],
            cuts: vec![(Time::ZERO, Time::ZERO); SERVERS],
            wall_max_ms: 0,
        }
    }

    /// Until when something was wrong that a worker with this lease could suffer from: with itself, a server or the store.
    /// That a server did not reach the store for less than a lease is not among it, nor that one is down which is not the
    /// worker's own.
    pub(super) fn trouble_of(&self, worker: usize, lease: Duration) -> Time {
        let long = self.cuts.iter().filter(|(from, until)| until.since(*from) >= lease);
        let servers = self.trouble_until[..SERVERS].iter().chain(long.map(|(_, until)| until));
        let own = self.trouble_until[usize::from(worker_node(worker).0)];
        servers.copied().fold(self.store_trouble_until.max(own), Time::max)
    }

    /// Until when something was wrong with a live server or the store, or between the two.
    pub(super) fn trouble_of_servers(&self) -> Time {
        let processes = self.trouble_until[..SERVERS].iter().copied();
        processes.chain(self.cuts.iter().map(|(_, until)| *until)).fold(self.store_trouble_until, Time::max)
    }

    /// Until when something was wrong with a server or the store.
    pub(super) fn disturbance(&self) -> Time {
        self.down_until.iter().copied().fold(self.trouble_of_servers(), Time::max)
    }

    /// Until when something was wrong that could delay what follows the crash of this worker.
    pub(super) fn trouble_of_machine(&self, worker: usize) -> Time {
        self.disturbance().max(self.machine_trouble_until[worker])
    }

    /// The server of this worker was gone until now.
    pub(super) fn was_alone(&mut self, worker: Node, until: Time) {
        self.trouble(worker, until);
        self.machine_trouble(worker, until);
    }

    /// A server cannot reach the store. Cuts between which it had no time to make up for them are one.
    pub(super) fn cut(&mut self, server: usize, now: Time, until: Time) {
        let (from, before) = self.cuts[server];
        let goes_on = before + OWNED_FOR >= now;
        self.cuts[server] = (if goes_on { from } else { now }, until.max(before));
    }

    /// Puts the wall clock, if it was ever stepped, to the furthest it was.
    pub(super) fn settle_wall(&mut self, outside: &mut Outside<'_>) {
        if outside.wall_steps > 0 {
            outside.database.step_wall(self.wall_max_ms);
            outside.wall_steps += 1;
        }
    }

    fn trouble(&mut self, node: Node, until: Time) {
        let known = &mut self.trouble_until[usize::from(node.0)];
        *known = until.max(*known);
    }

    /// Whether a worker's process has hardly any CPU.
    pub(super) fn is_slow(&self, worker: usize, now: Time) -> bool {
        self.slow_until[worker] >= now
    }

    /// A server goes down. What that means for its workers depends on when another one takes them over; if there is none,
    /// everybody waits for the first that comes back.
    pub(super) fn goes_down(&mut self, node: Node, until: Time) {
        let known = &mut self.down_until[usize::from(node.0)];
        *known = until.max(*known);
        let first_back = self.down_until.iter().copied().min();
        self.trouble(node, first_back.unwrap_or(until));
    }

    fn machine_trouble(&mut self, node: Node, until: Time) {
        if let Some(worker) = worker_at(node) {
            let known = &mut self.machine_trouble_until[worker];
            *known = until.max(*known);
        }
    }

    /// Any node; servers, of which there are few, more often.
    fn victim(&mut self, setup: &Setup) -> Node {
        if self.rng.chance(0.35) { self.server() } else { self.worker(setup) }
    }

    pub(super) fn server(&mut self) -> Node {
        server_node(self.rng.below(SERVERS as u64) as usize)
    }

    fn worker(&mut self, setup: &Setup) -> Node {
        worker_node(self.rng.below(setup.workers.len() as u64) as usize)
    }

    /// How often, of one, something goes wrong while it does.
    fn often(&mut self) -> f64 {
        self.rng.between(10, 100) as f64 / 100.0
    }

    pub(super) fn lasting(&mut self, min_ms: u64, max: Duration) -> Duration {
        self.rng.span_of_any_size(Duration::from_millis(min_ms), max)
    }
}

impl World<'_> {
    /// A fault of the plan strikes, and will again.
    pub(super) fn strike(&mut self, number: usize) {
        if self.outside.phase == Phase::Calm {
            return;
        }
        let (fault, mean) =
            self.outside.setup.plan.faults().nth(number).expect("faults are numbered by the plan");
        let next = self.outside.now + until_next(&mut self.chaos.rng, mean);
        self.outside.queue.push(next, Event::Fault(number));
        self.outside.stats.faults += 1;
        self.note(&[12, fault as u64]);
        match fault {
            Fault::Crash | Fault::PowerLoss => {
                let node = self.chaos.victim(&self.outside.setup);
                let down = self.chaos.lasting(5, DOWN_MAX);
                self.kill(node, down, fault == Fault::PowerLoss);
            }
            Fault::MassRestart => {
                let hits_servers = self.chaos.rng.chance(0.3);
                let nodes: Vec<Node> = match hits_servers {
                    true => (0..SERVERS).map(server_node).collect(),
                    false => (0..self.workers.len()).map(worker_node).collect(),
                };
                for node in nodes {
                    let down = self.chaos.lasting(5, Duration::from_secs(3));
                    self.kill(node, down, false);
                }
            }
            Fault::ServerLost => self.lose_server(),
            Fault::InTurn => {
                let (first, times) = (self.chaos.server(), self.chaos.rng.between(2, 6) as u32);
                self.fail_in_turn(usize::from(first.0), times);
            }
            Fault::GracefulStop => {
                let node = self.chaos.server();
                self.stop_server(node);
            }
            Fault::Stutter => {
                // Mostly a server: there it is that others are judged.
                let is_server = self.chaos.rng.chance(0.7);
                let node =
                    if is_server { self.chaos.server() } else { self.chaos.worker(&self.outside.setup) };
                let times = self.chaos.rng.between(2, 30) as u32;
                self.outside.tell(|| format!("node {} stutters {times} times", node.0));
                self.stutter(node, times);
            }
            Fault::Pause => {
                let node = self.chaos.victim(&self.outside.setup);
                let lasts = self.chaos.lasting(500, PAUSE_MAX);
                match worker_at(node).filter(|_| self.chaos.rng.chance(0.4)) {
                    Some(index) => self.pause_guardian(index, lasts),
                    None => {
                        self.outside.tell(|| format!("node {} is stopped for {lasts:?}", node.0));
                        self.pause(node, lasts);
                    }
                }
            }
            Fault::SlowCpu => self.slow_down(),
            Fault::Break => {
                let node = self.chaos.victim(&self.outside.setup);
                let connections: Vec<_> = self.outside.net.connections_of(node).collect();
                if connections.is_empty() {
                    return;
                }
                let connection = *self.chaos.rng.pick(&connections);
                self.outside.tell(|| format!("a connection of node {} breaks", node.0));
                self.outside.net.break_connection(self.outside.now, connection);
                self.outside.schedule_net();
                // Which worker has the other end is not worth finding out.
                for node in (0..self.workers.len()).map(worker_node) {
                    self.chaos.trouble(node, self.outside.now);
                    self.chaos.machine_trouble(node, self.outside.now);
                }
            }
            Fault::BlockOneWay => {
                let (worker, server) = (self.chaos.worker(&self.outside.setup), self.chaos.server());
                let lasts = self.chaos.lasting(100, TROUBLE_MAX);
                let (from, to) = if self.chaos.rng.chance(0.5) { (worker, server) } else { (server, worker) };
                self.block(from, to, lasts);
            }
            Fault::Block => {
                let worker = self.chaos.worker(&self.outside.setup);
                let lasts = self.chaos.lasting(100, TROUBLE_MAX);
                for server in (0..SERVERS).map(server_node) {
                    self.block(worker, server, lasts);
                    self.block(server, worker, lasts);
                }
            }
            Fault::FlipFlop => {
                let (worker, server) = (self.chaos.worker(&self.outside.setup), self.chaos.server());
                let times = self.chaos.rng.between(4, 20) as u32;
                self.outside.tell(|| format!("the way from node {} to node {} flips", worker.0, server.0));
                self.flip(worker, server, times, false);
            }
            Fault::DelaySpikes => self.delay(),
            Fault::StoreStall => {
                let until = self.store_trouble("stands still", STORE_TROUBLE_MAX);
                self.outside.database.stall(until);
            }
            Fault::StoreSlow => {
                let until = self.store_trouble("is slow", Duration::from_secs(60));
                let often = self.chaos.often();
                self.outside.database.slow_down(until, often);
            }
            Fault::StoreErrors => {
                let (until, often) =
                    (self.store_trouble("refuses calls", STORE_TROUBLE_MAX), self.chaos.often());
                self.outside.database.refuse(until, often);
            }
            Fault::StoreLostAcks => {
                let (until, often) =
                    (self.store_trouble("loses answers", STORE_TROUBLE_MAX), self.chaos.often());
                self.outside.database.lose_answers(until, often);
                self.goes_on_in_the_dark(until);
            }
            Fault::StoreLate => {
                let until = self.store_trouble("is late", STORE_TROUBLE_MAX);
                let often = self.chaos.often();
                self.outside.database.be_late(until, often);
                self.goes_on_in_the_dark(until);
            }
            Fault::StoreCut => self.cut_from_the_store(),
            Fault::WallStep => {
                let by_ms = self.chaos.rng.below(2 * DAY_MS as u64 + 1) as i64 - DAY_MS;
                self.chaos.wall_max_ms = self.chaos.wall_max_ms.max(by_ms);
                self.outside.tell(|| format!("the wall clock is off by {by_ms} ms"));
                self.outside.database.step_wall(by_ms);
                self.outside.wall_steps += 1;
            }
        }
    }

    /// A lasting fault ends.
    pub(super) fn heal(&mut self, heal: Heal) {
        let now = self.outside.now;
        match heal {
            Heal::Unblock(from, to) => self.outside.net.unblock(now, from, to),
            Heal::Flip(from, to, times, is_cut) => {
                if is_cut {
                    self.outside.net.unblock(now, from, to);
                }
                self.flip(from, to, times, is_cut);
            }
            Heal::Stutter(node, times) => self.stutter(node, times),
            Heal::Delays(node) => self.set_delays(node, Delays::CALM),
            Heal::Cost(node) => self.set_cost(node, Duration::ZERO),
            Heal::InTurn(server, times) => self.fail_in_turn(server, times),
            Heal::CutOff(worker) => self.cut_off_at_last(worker),
        }
        self.outside.schedule_net();
    }

    pub(super) fn kill(&mut self, node: Node, down: Duration, is_dark: bool) {
        let now = self.outside.now;
        let Some(index) = worker_at(node) else {
            let server = &mut self.servers[usize::from(node.0)];
            if server.process.is_up() {
                self.outside.tell(|| format!("node {} dies for {down:?}, in the dark: {is_dark}", node.0));
                server.crash();
                match is_dark {
                    true => self.outside.net.machine_died(now, node),
                    false => self.outside.net.process_died(now, node),
                }
                self.outside.schedule_net();
                self.outside.queue.push(now + down, Event::Start(node));
                self.chaos.goes_down(node, now + down);
            }
            return;
        };
        if !self.workers[index].process.is_up() {
            return;
        }
        self.chaos.trouble(node, now + down);
        let victims = self.chaos.rng.below(10);
        if is_dark {
            self.outside.tell(|| format!("the machine of worker {index} goes dark for {down:?}"));
            self.chaos.machine_trouble(node, now + down);
            self.outside.net.machine_died(now, node);
            self.kill_guardians_of(index);
            self.kill_worker(index, down);
        } else if victims == 0 && self.may_lose_guardian(index) {
            // Its worker ends itself as soon as it learns it.
            self.outside.tell(|| format!("worker {index} loses its guardian"));
            self.chaos.machine_trouble(node, now);
            self.outside.deaths.extend(self.guardian_of(index).map(|(id, _)| Death::OfGuardian(id)));
        } else {
            self.outside.tell(|| format!("worker {index} dies for {down:?}"));
            // With a guardian that is frozen, nobody would be left to keep the clock rule.
            let with_guardian = victims < 3 || !self.has_live_guardian(index);
            if with_guardian {
                self.outside.deaths.extend(self.guardian_of(index).map(|(id, _)| Death::OfGuardian(id)));
            }
            self.kill_worker(index, down);
        }
    }

    /// A short stop, and so many more after it.
    fn stutter(&mut self, node: Node, times: u32) {
        let lasts = self.chaos.rng.span(STUTTER_MAX / 4, STUTTER_MAX);
        let runs = self.chaos.rng.span(Duration::from_millis(1), Duration::from_millis(100));
        self.pause(node, lasts);
        if times > 1 {
            let again = self.outside.now + lasts + runs;
            self.outside.queue.push(again, Event::Heal(Heal::Stutter(node, times - 1)));
        }
    }

    pub(super) fn pause(&mut self, node: Node, lasts: Duration) {
        let now = self.outside.now;
        self.chaos.trouble(node, now + lasts);
        match worker_at(node) {
            Some(index) if !self.may_disable(index) => {}
            Some(index) => {
                let next = self.workers[index].process.pause(now, lasts);
                self.workers[index].go_on(&mut self.outside, next);
            }
            None => {
                let server = &mut self.servers[usize::from(node.0)];
                let next = server.process.pause(now, lasts);
                server.go_on(&mut self.outside, next);
            }
        }
    }

    /// Stops a guardian, whose worker must be awake meanwhile.
    fn pause_guardian(&mut self, index: usize, lasts: Duration) {
        let now = self.outside.now;
        let Some((id, _)) = self.guardian_of(index).filter(|_| self.is_awake(index)) else { return };
        self.outside.tell(|| format!("the guardian of worker {index} is stopped for {lasts:?}"));
        self.chaos.trouble(worker_node(index), now + lasts);
        self.chaos.machine_trouble(worker_node(index), now + lasts);
        if let Some(guardian) = self.guardians.get_mut(&id) {
            let next = guardian.process.pause(now, lasts);
            guardian.go_on(&mut self.outside, next);
        }
    }

    fn slow_down(&mut self) {
        let node = self.chaos.victim(&self.outside.setup);
        if worker_at(node).is_some_and(|index| !self.may_disable(index)) {
            return;
        }
        let cost = self.chaos.lasting(1, Duration::from_millis(50));
        let until = self.outside.now + self.chaos.lasting(500, TROUBLE_MAX);
        self.outside.tell(|| format!("node {} needs {cost:?} for everything until {until}", node.0));
        self.chaos.trouble(node, until + Duration::from_secs(1));
        if let Some(index) = worker_at(node) {
            self.chaos.slow_until[index] = self.chaos.slow_until[index].max(until + Duration::from_secs(1));
        }
        self.set_cost(node, cost);
        self.outside.queue.push(until, Event::Heal(Heal::Cost(node)));
    }

    fn set_cost(&mut self, node: Node, cost: Duration) {
        match worker_at(node) {
            Some(index) => self.workers[index].process.set_cost(cost),
            None => self.servers[usize::from(node.0)].process.set_cost(cost),
        }
    }

    pub(super) fn block(&mut self, from: Node, to: Node, lasts: Duration) {
        let until = self.outside.now + lasts;
        self.outside.tell(|| format!("nothing passes from node {} to node {} for {lasts:?}", from.0, to.0));
        self.outside.net.block(self.outside.now, from, to);
        self.outside.queue.push(until, Event::Heal(Heal::Unblock(from, to)));
        self.cut_off(from, to, until);
    }

    /// Cuts a direction that is open, or opens it again, so many times more.
    fn flip(&mut self, from: Node, to: Node, times: u32, was_cut: bool) {
        if times == 0 {
            return;
        }
        let until = self.outside.now + self.chaos.lasting(20, Duration::from_millis(800));
        if !was_cut {
            self.outside.net.block(self.outside.now, from, to);
            self.cut_off(from, to, until);
        }
        let times = times - u32::from(was_cut);
        self.outside.queue.push(until, Event::Heal(Heal::Flip(from, to, times, !was_cut)));
    }

    /// It is the worker that is cut off: the server has others.
    pub(super) fn cut_off(&mut self, from: Node, to: Node, until: Time) {
        let worker = if worker_at(from).is_some() { from } else { to };
        self.chaos.trouble(worker, until);
        self.chaos.machine_trouble(worker, until);
    }

    fn delay(&mut self) {
        let node = self.chaos.victim(&self.outside.setup);
        let until = self.outside.now + self.chaos.lasting(500, TROUBLE_MAX);
        let often = self.chaos.often() / 2.0;
        self.outside.tell(|| format!("messages of node {} take long until {until}", node.0));
        self.set_delays(node, Delays { spikes: often, spike_max: SPIKE_MAX, ..Delays::CALM });
        self.outside.queue.push(until, Event::Heal(Heal::Delays(node)));
        self.chaos.trouble(node, until + SPIKE_MAX);
        self.chaos.machine_trouble(node, until + SPIKE_MAX);
    }

    fn set_delays(&mut self, node: Node, delays: Delays) {
        for other in (0..self.outside.setup.nodes()).map(Node) {
            self.outside.net.set_delays(node, other, delays);
            self.outside.net.set_delays(other, node, delays);
        }
    }

    /// What was asked until then is done or answered later, by up to twice as much as the store can be late once.
    pub(super) fn goes_on_in_the_dark(&mut self, until: Time) {
        self.chaos.store_trouble_until = self.chaos.store_trouble_until.max(until + LATE_MAX * 2);
    }

    fn store_trouble(&mut self, what: &str, max: Duration) -> Time {
        let until = self.outside.now + self.chaos.lasting(200, max);
        self.outside.tell(|| format!("the store {what} until {until}"));
        self.chaos.store_trouble_until = self.chaos.store_trouble_until.max(until);
        until
    }
}
