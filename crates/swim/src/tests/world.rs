//! A small cluster on virtual time: a network with delay, loss and cuts, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Instant;
use model::splitmix::SplitMix;

use crate::{
    Config, Epoch, Event, Identity, Info, Input, Machine, Mutation, NodeId, Output, Packet, State, Ticket,
};

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) config: Arc<Config>,
    pub(super) machines: BTreeMap<u32, Machine>,
    pub(super) events: Vec<(Instant, u32, Event)>,
    /// Everything that was sent: when, by whom, the packet.
    pub(super) sent: Vec<(Instant, u32, Packet)>,
    pub(super) loss_percent: usize,
    /// So much of what these send is lost, datagrams and the packets of streams alike.
    pub(super) egress_loss_percent: BTreeMap<u32, usize>,
    /// One-way cuts: nothing goes from the first to the second.
    pub(super) cuts: BTreeSet<(u32, u32)>,
    /// These do nothing, and what is sent to them is handed over when they wake.
    pub(super) asleep: BTreeSet<u32>,
    /// These neither send nor receive while their timers run; both wait until it is over.
    pub(super) blocked: BTreeSet<u32>,
    random: SplitMix,
    queue: BTreeMap<(Instant, u64), Arrival>,
    queued: u64,
    wakes: BTreeSet<(Instant, u32)>,
    tickets: BTreeMap<(u32, Ticket), (u32, Ticket)>,
    mutation: Option<Mutation>,
}

enum Arrival {
    Input(u32, Input),
    Carry(u32, u32, Packet),
    Wake(u32),
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub(super) fn addr(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, (id >> 8) as u8, id as u8], 7_118))
}

pub(super) fn node(id: u32, epoch: u32) -> Identity {
    Identity { id: NodeId(id), epoch: Epoch(epoch) }
}

pub(super) fn info(id: u32) -> Info {
    Info { addr: addr(id), meta: Bytes::from_static(b"meta") }
}

fn id_at(addr: SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(addr) => u32::from(addr.ip().octets()[2]) << 8 | u32::from(addr.ip().octets()[3]),
        SocketAddr::V6(_) => u32::MAX,
    }
}

impl World {
    /// Nobody yet.
    pub(super) fn new(config: Config, random: u64) -> Self {
        World {
            now: at(1_000),
            config: Arc::new(config),
            machines: BTreeMap::new(),
            events: Vec::new(),
            sent: Vec::new(),
            loss_percent: 0,
            egress_loss_percent: BTreeMap::new(),
            cuts: BTreeSet::new(),
            asleep: BTreeSet::new(),
            blocked: BTreeSet::new(),
            random: SplitMix::new(random),
            queue: BTreeMap::new(),
            queued: 0,
            wakes: BTreeSet::new(),
            tickets: BTreeMap::new(),
            mutation: None,
        }
    }

    /// A cluster of `0..count` that is already formed.
    pub(super) fn formed(config: Config, random: u64, count: u32) -> Self {
        Self::formed_broken(config, random, count, None)
    }

    pub(super) fn formed_broken(config: Config, random: u64, count: u32, mutation: Option<Mutation>) -> Self {
        let mut world = World::new(config, random);
        world.mutation = mutation;
        let members: Vec<_> = (0..count).map(|id| (node(id, 1), Arc::new(info(id)))).collect();
        for id in 0..count {
            let machine = Machine::with_members(
                world.now,
                world.config.clone(),
                node(id, 1),
                info(id),
                vec![addr(0)],
                world.random.next(),
                &members,
            );
            world.add(id, machine);
        }
        world
    }

    fn add(&mut self, id: u32, machine: Machine) {
        let machine = match self.mutation {
            Some(mutation) => machine.mutated(mutation),
            None => machine,
        };
        self.machines.insert(id, machine);
        self.drain(id);
    }

    /// A node starts, and looks for the cluster at node 0.
    pub(super) fn start(&mut self, id: u32, epoch: u32) {
        let random = self.random.next();
        let machine =
            Machine::new(self.now, self.config.clone(), node(id, epoch), info(id), vec![addr(0)], random);
        self.add(id, machine);
    }

    pub(super) fn crash(&mut self, id: u32) {
        self.machines.remove(&id);
    }

    /// Cuts these from those, both ways.
    pub(super) fn part(
        &mut self,
        these: impl Iterator<Item = u32> + Clone,
        those: impl Iterator<Item = u32>,
    ) {
        for that in those {
            for this in these.clone() {
                self.cuts.insert((this, that));
                self.cuts.insert((that, this));
            }
        }
    }

    pub(super) fn give(&mut self, id: u32, input: Input) {
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.handle(self.now, input);
            self.drain(id);
        }
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.run_until(end, |_| false);
        self.now = end;
    }

    /// Runs until this is true; says how long it took, or `None` if it was not within `span`.
    pub(super) fn run_while(&mut self, span: Duration, done: impl FnMut(&World) -> bool) -> Option<Duration> {
        let (start, end) = (self.now, self.now + span);
        self.run_until(end, done).then(|| self.now.since(start))
    }

    fn run_until(&mut self, end: Instant, mut done: impl FnMut(&World) -> bool) -> bool {
        let mut checked = self.now;
        loop {
            if self.now.since(checked) >= Duration::from_millis(10) || checked == self.now {
                checked = self.now;
                if done(self) {
                    return true;
                }
            }
            let Some(((when, _), _)) = self.queue.first_key_value() else { return false };
            if *when > end {
                return false;
            }
            let Some(((when, _), arrival)) = self.queue.pop_first() else { return false };
            self.now = when;
            match arrival {
                Arrival::Carry(from, to, packet) => self.carry(from, to, packet),
                Arrival::Input(to, input) if self.asleep.contains(&to) || self.blocked.contains(&to) => {
                    self.enqueue(self.now + Duration::from_millis(20), Arrival::Input(to, input));
                }
                Arrival::Wake(id) if self.asleep.contains(&id) => {
                    self.enqueue(self.now + Duration::from_millis(20), Arrival::Wake(id));
                }
                Arrival::Input(to, input) => self.give(to, input),
                Arrival::Wake(id) => self.wake(id),
            }
        }
    }

    fn wake(&mut self, id: u32) {
        self.wakes.retain(|(when, who)| *who != id || *when > self.now);
        let Some(machine) = self.machines.get_mut(&id) else { return };
        if machine.next_deadline().is_some_and(|due| due <= self.now) {
            machine.handle_deadline(self.now);
            assert!(machine.next_deadline().is_none_or(|due| due > self.now), "a deadline in the past");
        }
        self.drain(id);
    }

    fn drain(&mut self, id: u32) {
        while let Some(output) = self.machines.get_mut(&id).and_then(Machine::poll_output) {
            match output {
                Output::Send(to, packet) => self.carry(id, id_at(to), packet),
                Output::Request(ticket, to, request) => {
                    let to = id_at(to);
                    let delay = self.stream_delay(id, to);
                    if delay >= self.config.stream_timeout
                        || self.blocked.contains(&id)
                        || self.blocked.contains(&to)
                        || self.cuts.contains(&(id, to))
                        || self.cuts.contains(&(to, id))
                    {
                        let when = self.now + self.config.stream_timeout;
                        self.enqueue(when, Arrival::Input(id, Input::Response(ticket, None)));
                    } else if self.machines.contains_key(&to) {
                        self.queued += 1;
                        let theirs = Ticket(self.queued);
                        self.tickets.insert((to, theirs), (id, ticket));
                        let input = Input::Request(theirs, addr(id), request);
                        self.enqueue(self.now + delay, Arrival::Input(to, input));
                    } else {
                        let when = self.now + Duration::from_millis(1);
                        self.enqueue(when, Arrival::Input(id, Input::Response(ticket, None)));
                    }
                }
                Output::Respond(ticket, response) => {
                    if let Some((to, ticket)) = self.tickets.remove(&(id, ticket)) {
                        let input = Input::Response(ticket, Some(response));
                        self.enqueue(self.now + Duration::from_millis(1), Arrival::Input(to, input));
                    }
                }
                Output::Event(event) => self.events.push((self.now, id, event)),
            }
        }
        if let Some(due) = self.machines.get(&id).and_then(Machine::next_deadline)
            && self.wakes.insert((due, id))
        {
            self.enqueue(due, Arrival::Wake(id));
        }
    }

    fn carry(&mut self, from: u32, to: u32, packet: Packet) {
        if self.blocked.contains(&from) {
            let later = self.now + Duration::from_millis(20);
            self.enqueue(later, Arrival::Carry(from, to, packet));
            return;
        }
        if !self.is_lost(from) && !self.cuts.contains(&(from, to)) {
            let delay = Duration::from_micros(200 + self.random.index(800) as u64);
            let input = Input::Datagram(addr(from), packet.clone());
            self.enqueue(self.now + delay, Arrival::Input(to, input));
        }
        self.sent.push((self.now, from, packet));
    }

    fn is_lost(&mut self, from: u32) -> bool {
        let egress = self.egress_loss_percent.get(&from).copied().unwrap_or(0);
        self.random.index(100) < self.loss_percent || self.random.index(100) < egress
    }

    /// How long a stream takes to be there: two round trips, repeated when something is lost.
    fn stream_delay(&mut self, from: u32, to: u32) -> Duration {
        let mut delay = Duration::from_millis(2);
        for mut wait in [Duration::from_secs(1), Duration::from_millis(200)] {
            while self.is_lost(from) || self.is_lost(to) {
                delay += wait;
                wait *= 2;
                if delay >= self.config.stream_timeout {
                    return delay;
                }
            }
        }
        delay
    }

    fn enqueue(&mut self, when: Instant, arrival: Arrival) {
        self.queued += 1;
        self.queue.insert((when.max(self.now), self.queued), arrival);
    }

    pub(super) fn state(&self, at: u32, of: u32) -> Option<State> {
        self.machines.get(&at)?.member(NodeId(of)).map(|member| member.state)
    }

    /// True if all who run see that node in this state.
    pub(super) fn all_see(&self, of: u32, state: State) -> bool {
        self.machines.keys().filter(|id| **id != of).all(|id| self.state(*id, of) == Some(state))
    }

    /// True if every running node sees exactly the running ones as alive.
    pub(super) fn all_see_all(&self) -> bool {
        let count = self.machines.len();
        let digest = self.machines.values().next().map(Machine::digest);
        self.machines.values().all(|machine| {
            let counts = machine.counts();
            counts.alive == count
                && counts.probe_failed + counts.suspected == 0
                && Some(machine.digest()) == digest
        })
    }

    pub(super) fn count_events(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, _, event)| wanted(event)).count()
    }
}
