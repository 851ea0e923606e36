//! The world: up to ten thousand nodes of one protocol, a network of datagrams and streams, and whatever is done to them.
//! What happens to a process is in `processes`, what it sends is in `traffic`.

mod processes;
mod traffic;

use std::time::Duration;

use self::traffic::Flights;
use super::change::{Change, Memory, Told};
use super::network::{Delay, Network};
use super::node::{Place, Sent};
use super::protocol::{Address, Input, Node, Protocol, Watch};
use super::streams::{Step, Streams};
use crate::clock::DriftingClock;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::time::Time;
use crate::trace::Trace;

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
            places: (0..setup.nodes).map(|node| Place::new(node, clock(node))).collect(),
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

    /// Whose place has this address now, if anybody's.
    pub(super) fn place_at(&self, address: Address) -> Option<Node> {
        let place = address % self.setup.nodes;
        (self.places[place as usize].address == address).then_some(place)
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
            Change::Move(node, memory) => {
                self.crash(node);
                self.places[node as usize].address += self.setup.nodes;
                self.start(node, memory);
            }
            Change::Twin(place, name, epoch) => self.start_twin(place, name, epoch),
            Change::Jump(node, by) => self.jump(now, node, by),
            Change::Tell(node, ref told) => {
                let about = match *told {
                    Told::Seed(other) => self.places[other as usize].address,
                    Told::Expel(other) => self.places[other as usize].epoch,
                    Told::Lagged(_) | Told::Meta(_) | Told::Mark(..) => 0,
                };
                self.deliver(now, node, Input::Told(told.clone(), about));
            }
            _ => self.network.apply(change),
        }
    }
}
