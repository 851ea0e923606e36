//! The world: up to ten thousand nodes of one protocol, a network of datagrams and streams, and whatever is done to them.

use std::time::Duration;

use super::change::{Change, Memory};
use super::network::{Delay, Network};
use super::node::{Place, Sent};
use super::protocol::{Input, Node, Output, Protocol, Start, Watch};
use super::streams::{Step, Streams};
use crate::clock::DriftingClock;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::time::Time;
use crate::trace::Trace;

/// A machine that wants to be woken this often at one moment would never let time go on.
const WAKES_AT_ONE_MOMENT_MAX: u32 = 1_000;
/// How many of the members it saw last a node remembers over a restart.
const REMEMBERED_MAX: usize = 8;

/// How a world begins.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Everything left to chance comes from this.
    pub seed: u64,
    /// How many nodes.
    pub nodes: u32,
    /// How long packets take.
    pub delay: Delay,
    /// How wrong clocks may be; 0: all show true time.
    pub drift_max_ppm: u32,
    /// Where nodes look for others when they start.
    pub contacts: Vec<Node>,
    /// All nodes run from the beginning, and know each other. Otherwise each is started by a [`Change::Start`].
    pub is_formed: bool,
    /// A process that was stopped looks at its timers before its inbox.
    pub timers_first: bool,
}

impl Setup {
    /// A formed cluster without trouble.
    pub fn formed(seed: u64, nodes: u32) -> Self {
        Setup {
            seed,
            nodes,
            delay: Delay::default(),
            drift_max_ppm: 0,
            contacts: vec![0],
            is_formed: true,
            timers_first: false,
        }
    }

    /// A cluster that has yet to form, through one node.
    pub fn empty(seed: u64, nodes: u32) -> Self {
        Setup { is_formed: false, ..Setup::formed(seed, nodes) }
    }
}

/// A world.
pub struct World<'a, P: Protocol, W> {
    settings: P::Settings,
    setup: Setup,
    queue: Queue<Event>,
    network: Network,
    places: Vec<Place<P>>,
    flights: Flights<P::Message>,
    streams: Streams<P::Message>,
    changes: Vec<Change>,
    trace: Trace<'a>,
    halts: u32,
    wakes_at: (Time, u32),
    /// Looks at all that happens.
    pub watch: W,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The datagram in that place arrives.
    Datagram {
        to: Node,
        flight: u32,
    },
    /// A node's deadline comes.
    Wake(Node),
    /// A process runs again, or may speak again.
    Resume(Node),
    Stream(u64, Step),
    Change(u32),
    Halt(u32),
}

impl<'a, P: Protocol, W: Watch<P>> World<'a, P, W> {
    /// A world at its beginning.
    pub fn new(setup: Setup, settings: P::Settings, watch: W, trace: Trace<'a>) -> Self {
        let clock = |node: u32| match setup.drift_max_ppm {
            0 => DriftingClock::TRUE,
            ppm => DriftingClock::drawn(&mut Rng::stream(setup.seed, u64::from(node), "clock"), ppm),
        };
        let mut world = World {
            network: Network::new(setup.seed, setup.nodes as usize, setup.delay),
            places: (0..setup.nodes).map(|node| Place::new(clock(node))).collect(),
            settings,
            queue: Queue::new(),
            flights: Flights::new(),
            streams: Streams::new(),
            changes: Vec::new(),
            trace,
            halts: 0,
            wakes_at: (Time::ZERO, 0),
            watch,
            setup,
        };
        if world.setup.is_formed {
            (0..world.setup.nodes).for_each(|node| world.start(node, Memory::Lost));
        }
        world
    }

    /// This is done at that time.
    pub fn schedule(&mut self, at: Time, change: Change) {
        self.changes.push(change);
        self.queue.push(at, Event::Change(self.changes.len() as u32 - 1));
    }

    /// Lets everything happen up to this time, or until there is nothing more to see.
    pub fn run_until(&mut self, end: Time) {
        self.halts += 1;
        self.queue.push(end, Event::Halt(self.halts));
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::Halt(number) if number == self.halts => return,
                Event::Halt(_) => {}
                event => self.happen(now, event),
            }
            if self.watch.is_over() {
                return;
            }
        }
    }

    /// As [`run_until`](Self::run_until), for this long from now.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now() + span);
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// How many nodes there can be.
    pub fn len(&self) -> u32 {
        self.setup.nodes
    }

    /// True if there can be none.
    pub fn is_empty(&self) -> bool {
        self.setup.nodes == 0
    }

    /// A node's protocol, if its process is up.
    pub fn node(&self, node: Node) -> Option<&P> {
        self.places[node as usize].protocol.as_ref()
    }

    /// Those whose process is up.
    pub fn up(&self) -> impl Iterator<Item = (Node, &P)> {
        (0..).zip(&self.places).filter_map(|(node, place)| Some((node, place.protocol.as_ref()?)))
    }

    /// Which start of the node this is, or was the last.
    pub fn epoch(&self, node: Node) -> u32 {
        self.places[node as usize].epoch
    }

    /// What a node has sent so far.
    pub fn sent(&self, node: Node) -> Sent {
        self.places[node as usize].sent
    }

    /// What all nodes have sent so far.
    pub fn sent_by_all(&self) -> Sent {
        self.places.iter().map(|place| place.sent).sum()
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.trace.events()
    }

    /// The hash of all events.
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// A remark in the trace, if somebody listens.
    pub fn tell(&mut self, text: impl FnOnce() -> String) {
        self.trace.tell(self.queue.now(), text);
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Datagram { to, flight } => {
                let (from, message) = self.flights.land(flight);
                self.trace.event(now, &[1, u64::from(to) << 32 | u64::from(from)]);
                if self.places[to as usize].is_up() {
                    self.trace.tell(now, || format!("{from:>4} to {to:<4} {message:?}"));
                    self.deliver(now, to, Input::Datagram(from, message));
                }
            }
            Event::Wake(node) => self.wake(now, node),
            Event::Resume(node) => {
                self.trace.event(now, &[2, u64::from(node)]);
                self.resume(now, node);
            }
            Event::Stream(number, step) => self.stream(now, number, step),
            Event::Change(number) => {
                self.trace.event(now, &[3, u64::from(number)]);
                let change = self.changes[number as usize].clone();
                self.trace.tell(now, || format!("          {change:?}"));
                self.apply(now, &change);
            }
            Event::Halt(_) => unreachable!("only the loop sees these"),
        }
    }

    fn apply(&mut self, now: Time, change: &Change) {
        self.watch.change(now, change);
        match *change {
            Change::Crash(node) => self.crash(node),
            Change::Start(node, memory) => self.start(node, memory),
            Change::Leave(node) => self.deliver(now, node, Input::Leave),
            Change::Pause(node, lasts) => {
                let place = &mut self.places[node as usize];
                place.stopped_until = place.stopped_until.max(now + lasts);
                self.queue.push(place.stopped_until, Event::Resume(node));
            }
            Change::BlockIo(node, lasts) => {
                let place = &mut self.places[node as usize];
                place.blocked_until = place.blocked_until.max(now + lasts);
                self.queue.push(place.blocked_until, Event::Resume(node));
            }
            Change::SlowCpu(node, cost) => self.places[node as usize].cost = cost,
            _ => self.network.apply(change),
        }
    }

    fn start(&mut self, node: Node, memory: Memory) {
        self.crash(node);
        let now = self.queue.now();
        let place = &mut self.places[node as usize];
        place.epoch += 1;
        let mut contacts = self.setup.contacts.clone();
        if memory == Memory::Kept {
            contacts.append(&mut place.remembers);
        }
        let purpose = Rng::stream(self.setup.seed, u64::from(node), "protocol").bits();
        let start = Start {
            now: place.clock.shows(now),
            node,
            epoch: place.epoch,
            contacts: &contacts,
            known: if self.setup.is_formed && place.epoch == 1 { self.setup.nodes } else { 0 },
            random: purpose.wrapping_add(u64::from(place.epoch)),
        };
        place.protocol = Some(P::start(&self.settings, start));
        self.settle(now, node);
    }

    fn crash(&mut self, node: Node) {
        let place = &mut self.places[node as usize];
        if let Some(protocol) = &place.protocol {
            let seen =
                (0..self.setup.nodes).filter(|other| *other != node && protocol.belief(*other).is_present());
            place.remembers = seen.take(REMEMBERED_MAX).collect();
        }
        place.die();
    }

    /// Something arrives at a node; it waits if the process does not run or may not receive.
    fn deliver(&mut self, now: Time, node: Node, input: Input<P::Message>) {
        let place = &mut self.places[node as usize];
        if !place.is_up() {
            return;
        }
        // That an exchange ended without an answer is no message: a timer of its own says so.
        let is_message = !matches!(input, Input::Response(_, None) | Input::Leave);
        let must_wait = is_message && (place.is_blocked(now) || !place.waiting.inbox.is_empty());
        if now < place.stopped_until || must_wait {
            place.keep(input);
        } else {
            self.handle(now, node, input);
        }
    }

    fn handle(&mut self, now: Time, node: Node, input: Input<P::Message>) {
        let place = &mut self.places[node as usize];
        let Some(protocol) = &mut place.protocol else { return };
        self.watch.input(now, node, protocol, &input);
        protocol.handle(place.clock.shows(now), input);
        self.settle(now, node);
        self.charge(now, node);
    }

    /// A node's pending wake-up comes: its deadline may have been put off meanwhile.
    fn wake(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if place.wake_at != now {
            return;
        }
        place.wake_at = Time::MAX;
        self.trace.event(now, &[4, u64::from(node)]);
        if now < place.stopped_until {
            // The end of the stop looks at its timers.
            return;
        }
        self.look_at_timers(now, node);
    }

    fn look_at_timers(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        let Some(protocol) = &mut place.protocol else { return };
        let shown = place.clock.shows(now);
        if protocol.deadline().is_some_and(|deadline| deadline <= shown) {
            self.count_wake(now);
            let place = &mut self.places[node as usize];
            let Some(protocol) = &mut place.protocol else { return };
            protocol.handle_deadline(shown);
            self.settle(now, node);
            self.charge(now, node);
        } else {
            self.schedule_wake(now, node);
        }
    }

    /// What was just done has taken a slow process its time.
    fn charge(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if place.cost > Duration::ZERO && place.is_up() {
            place.stopped_until = place.stopped_until.max(now + place.cost);
            self.queue.push(place.stopped_until, Event::Resume(node));
        }
    }

    fn count_wake(&mut self, now: Time) {
        if self.wakes_at.0 != now {
            self.wakes_at = (now, 0);
        }
        self.wakes_at.1 += 1;
        let wakes_max = WAKES_AT_ONE_MOMENT_MAX.max(4 * self.setup.nodes);
        assert!(self.wakes_at.1 <= wakes_max, "a deadline is over once it was handled");
    }

    /// A process runs again, or may speak again, or has done its work: it goes on with what waits.
    fn resume(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if !place.is_up() || now < place.stopped_until {
            return;
        }
        // What a slow process has to read must not keep it from its timers for ever.
        if self.setup.timers_first || place.cost > Duration::ZERO {
            self.look_at_timers(now, node);
        }
        let place = &mut self.places[node as usize];
        if !place.is_blocked(now) {
            for (to, message) in std::mem::take(&mut place.waiting.outbox) {
                self.launch(now, node, to, message);
            }
        }
        loop {
            let place = &mut self.places[node as usize];
            if now < place.stopped_until || place.is_blocked(now) {
                break;
            }
            let Some(input) = place.waiting.inbox.pop_front() else { break };
            self.handle(now, node, input);
        }
        if now >= self.places[node as usize].stopped_until {
            self.look_at_timers(now, node);
        }
    }

    /// Does what a node wants done, and sees to its next wake-up.
    fn settle(&mut self, now: Time, node: Node) {
        loop {
            let place = &mut self.places[node as usize];
            let Some(protocol) = &mut place.protocol else { return };
            let Some(output) = protocol.poll_output() else { break };
            self.watch.output(now, node, protocol, &output);
            self.act(now, node, output);
        }
        let place = &mut self.places[node as usize];
        let Some(protocol) = &place.protocol else { return };
        self.watch.turned(now, node, protocol);
        self.schedule_wake(now, node);
    }

    /// One pending wake-up is enough: a deadline that was put off is looked at when the earlier one comes.
    fn schedule_wake(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if let Some(deadline) = place.protocol.as_ref().and_then(P::deadline) {
            let at = place.clock.when(deadline).max(now);
            if at < place.wake_at {
                place.wake_at = at;
                self.queue.push(at, Event::Wake(node));
            }
        }
    }

    fn act(&mut self, now: Time, node: Node, output: Output<P::Message>) {
        let place = &mut self.places[node as usize];
        match output {
            Output::Send(to, message) if place.is_blocked(now) => place.waiting.outbox.push((to, message)),
            Output::Send(to, message) => self.launch(now, node, to, message),
            Output::Request(ticket, to, message) => {
                place.sent.exchanges += 1;
                place.sent.stream_bytes += P::wire_bytes(&message) as u64;
                let number = self.streams.open(now, (node, place.epoch), to, ticket, message);
                self.queue.push(now, Event::Stream(number, Step::Connect(0)));
                let timeout = P::stream_timeout(&self.settings);
                self.queue.push(now + timeout, Event::Stream(number, Step::Timeout));
            }
            Output::Respond(number, message) => {
                place.sent.exchanges += 1;
                place.sent.stream_bytes += P::wire_bytes(&message) as u64;
                if let Some(exchange) = self.streams.get_mut(number) {
                    exchange.message = Some(message);
                    self.queue.push(now, Event::Stream(number, Step::Answer(0)));
                }
            }
            Output::Changed(about, epoch, belief) => {
                self.trace.event(now, &[5, u64::from(node), u64::from(about), belief as u64]);
                self.trace.tell(now, || format!("{node:>4} thinks {about}@{epoch} is {belief:?}"));
            }
        }
    }

    fn launch(&mut self, now: Time, from: Node, to: Node, message: P::Message) {
        let sent = &mut self.places[from as usize].sent;
        sent.datagrams += 1;
        sent.datagram_bytes += P::wire_bytes(&message) as u64;
        if to >= self.setup.nodes {
            return;
        }
        if self.network.doubles()
            && let Some(delay) = self.network.carry(from, to)
        {
            let flight = self.flights.launch(from, message.clone());
            self.queue.push(now + delay, Event::Datagram { to, flight });
        }
        if let Some(delay) = self.network.carry(from, to) {
            let flight = self.flights.launch(from, message);
            self.queue.push(now + delay, Event::Datagram { to, flight });
        }
    }

    fn stream(&mut self, now: Time, number: u64, step: Step) {
        let Some(exchange) = self.streams.get(number) else { return };
        let (from, to) = (exchange.from, exchange.to);
        self.trace.event(now, &[6, number]);
        // Whoever may not speak now says it when it may.
        let speaker = match step {
            Step::Connect(_) | Step::Ask(0) => Some(from),
            Step::Answer(0) => Some(to),
            _ => None,
        };
        if let Some(place) = speaker.and_then(|speaker| self.places.get(speaker as usize))
            && place.is_blocked(now)
        {
            self.queue.push(place.blocked_until, Event::Stream(number, step));
            return;
        }
        match step {
            Step::Connect(_) if to >= self.setup.nodes => {}
            Step::Connect(_) | Step::Ask(_) | Step::Answer(_) => {
                let is_up = self.places[to as usize].is_up();
                if let Some((at, next)) = exchange.send(now, step, &mut self.network, is_up) {
                    self.queue.push(at, Event::Stream(number, next));
                }
            }
            // A process that died after the connection was made: its kernel says so.
            Step::Asked if !self.places[to as usize].is_up() => {
                if let Some(delay) = self.network.carry(to, from) {
                    self.queue.push(now + delay, Event::Stream(number, Step::Refused));
                }
            }
            Step::Asked => {
                let message = self.streams.get_mut(number).and_then(|exchange| exchange.message.take());
                if let Some(message) = message {
                    self.trace.tell(now, || format!("{from:>4} asks {to} {message:?}"));
                    self.deliver(now, to, Input::Request(number, from, message));
                }
            }
            Step::Answered | Step::Refused | Step::Timeout => {
                let Some(exchange) = self.streams.close(number) else { return };
                let answer = if step == Step::Answered { exchange.message } else { None };
                if self.places[from as usize].epoch == exchange.from_epoch {
                    self.trace.tell(now, || format!("{from:>4} was answered by {to} {answer:?}"));
                    self.deliver(now, from, Input::Response(exchange.ticket, answer));
                }
            }
        }
    }
}

/// Datagrams on their way, in places that are used again and again.
#[derive(Debug)]
struct Flights<M> {
    places: Vec<Option<(Node, M)>>,
    free: Vec<u32>,
}

impl<M> Flights<M> {
    fn new() -> Self {
        Flights { places: Vec::new(), free: Vec::new() }
    }

    fn launch(&mut self, from: Node, message: M) -> u32 {
        let flight = Some((from, message));
        if let Some(free) = self.free.pop() {
            self.places[free as usize] = flight;
            return free;
        }
        self.places.push(flight);
        self.places.len() as u32 - 1
    }

    fn land(&mut self, flight: u32) -> (Node, M) {
        self.free.push(flight);
        self.places[flight as usize].take().expect("a datagram lands once")
    }
}
