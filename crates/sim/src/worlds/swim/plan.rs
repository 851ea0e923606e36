//! What goes wrong in a world whose laws are tried: each seed enables a random part of the menu (swarm testing), until
//! calm begins. The whole plan is drawn before the world begins. Some worlds have faults that last: they are there from the
//! beginning, and calm does not end them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::change::{Change, Epoch, Memory, Told};
use super::protocol::Node;
use crate::faults::until_next;
use crate::rng::Rng;
use crate::time::Time;

/// The menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// A process dies and comes back.
    Crash,
    /// A process dies for good.
    Death,
    /// Many restart together.
    MassRestart,
    /// A node leaves, and may start again later.
    Leave,
    /// A process is stopped.
    Pause,
    /// A process can neither send nor receive.
    BlockIo,
    /// A process has hardly any CPU.
    SlowCpu,
    /// Packets are lost everywhere.
    Loss,
    /// A node loses what it sends, or what is sent to it, or most of that.
    OneWay,
    /// A node loses what is sent to it, on and off.
    FlipFlop,
    /// Two nodes do not reach each other, in one direction or both.
    CutPair,
    /// The nodes fall into two halves.
    Partition,
    /// Some packets take long.
    Spikes,
    /// Some datagrams come twice.
    Duplicates,
    /// A node's event loop was late, and its driver says so.
    Lag,
    /// A node tells something new of itself.
    News,
    /// A node goes on in the control log.
    Mark,
    /// A node starts again at another address, and names are resolved anew.
    Move,
    /// Somebody sends a node away that is there.
    Expel,
    /// A process starts in the name of another node.
    Twin,
    /// A node's clock jumps ahead.
    Jump,
}

const MENU: [Trouble; 21] = [
    Trouble::Crash,
    Trouble::Death,
    Trouble::MassRestart,
    Trouble::Leave,
    Trouble::Pause,
    Trouble::BlockIo,
    Trouble::SlowCpu,
    Trouble::Loss,
    Trouble::OneWay,
    Trouble::FlipFlop,
    Trouble::CutPair,
    Trouble::Partition,
    Trouble::Spikes,
    Trouble::Duplicates,
    Trouble::Lag,
    Trouble::News,
    Trouble::Mark,
    Trouble::Move,
    Trouble::Expel,
    Trouble::Twin,
    Trouble::Jump,
];

/// Faults that last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasting {
    /// Some links are dead in one direction.
    BadLinks,
    /// A node hears nothing, or is not heard, or loses most of it.
    BadNode,
}

impl Trouble {
    /// As it is printed.
    const fn name(self) -> &'static str {
        match self {
            Trouble::Crash => "crash",
            Trouble::Death => "death",
            Trouble::MassRestart => "mass_restart",
            Trouble::Leave => "leave",
            Trouble::Pause => "pause",
            Trouble::BlockIo => "block_io",
            Trouble::SlowCpu => "slow_cpu",
            Trouble::Loss => "loss",
            Trouble::OneWay => "one_way",
            Trouble::FlipFlop => "flip_flop",
            Trouble::CutPair => "cut_pair",
            Trouble::Partition => "partition",
            Trouble::Spikes => "spikes",
            Trouble::Duplicates => "duplicates",
            Trouble::Lag => "lag",
            Trouble::News => "news",
            Trouble::Mark => "mark",
            Trouble::Move => "move",
            Trouble::Expel => "expel",
            Trouble::Twin => "twin",
            Trouble::Jump => "jump",
        }
    }
}

impl Lasting {
    const fn name(self) -> &'static str {
        match self {
            Lasting::BadLinks => "lasting_bad_links",
            Lasting::BadNode => "lasting_bad_node",
        }
    }
}

/// In smaller worlds most nodes would be badly connected, and there would be nobody to ask.
const LASTING_FROM_NODES: u32 = 8;
/// Newcomers look for others at up to so many nodes; faults that last spare these, or some would never get in.
const CONTACTS_MAX: u32 = 3;
/// Of all links, this share is dead.
const BAD_LINKS: [f64; 2] = [0.1, 0.15];

/// Everything that is done to a world.
#[derive(Debug)]
pub(super) struct Plan {
    /// With times. Nothing lasts beyond the end, except what lasts for ever.
    pub(super) changes: Vec<(Time, Change)>,
    /// How often each trouble strikes.
    pub(super) struck: BTreeMap<&'static str, u64>,
    /// Some faults last.
    pub(super) lasts: bool,
    /// The one who is badly connected for ever.
    pub(super) bad_node: Option<Node>,
    nodes: u32,
    period: Duration,
    end: Time,
}

/// The names of everything that can strike.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    MENU.into_iter().map(Trouble::name).chain([Lasting::BadLinks, Lasting::BadNode].map(Lasting::name))
}

/// Draws a plan for so many nodes. Faults that last are for those that are meant to withstand them.
pub(super) fn draw(
    seed: u64,
    nodes: u32,
    period: Duration,
    (begin, end): (Time, Time),
    may_last: bool,
) -> Plan {
    let mut rng = Rng::stream(seed, 0, "faults");
    let (changes, struck) = (Vec::new(), BTreeMap::new());
    let mut plan = Plan { changes, struck, lasts: false, bad_node: None, nodes, period, end };
    for (number, trouble) in (0..).zip(MENU) {
        if rng.chance(0.6) {
            continue;
        }
        let mut rng = Rng::stream(seed, number, "trouble");
        let mean = rng.span_of_any_size(period * 5, period * 60);
        let mut at = begin + until_next(&mut rng, mean);
        while at < end {
            if plan.strike(&mut rng, at, trouble) {
                *plan.struck.entry(trouble.name()).or_default() += 1;
            }
            at = at + until_next(&mut rng, mean);
        }
    }
    plan.changes.push((end, Change::Heal));
    if may_last && nodes >= LASTING_FROM_NODES {
        plan.last(&mut Rng::stream(seed, 0, "lasting"));
    }
    plan
}

impl Plan {
    /// False if it comes to nothing.
    fn strike(&mut self, rng: &mut Rng, at: Time, trouble: Trouble) -> bool {
        let lasts = rng.span_of_any_size(self.period / 4, self.period * 40).min(self.end.since(at));
        let until = at + lasts;
        let node = self.anyone(rng);
        let memory = if rng.chance(0.5) { Memory::Kept } else { Memory::Lost };
        match trouble {
            Trouble::Crash => {
                self.push(at, Change::Crash(node));
                self.push(until, Change::Start(node, memory));
            }
            // The one that everybody can start from must not go for good, and at least one other must be left to see it.
            Trouble::Death if node != 0 && self.deaths() + 2 < self.nodes as usize => {
                self.push(at, Change::Crash(node));
            }
            Trouble::Death => return false,
            Trouble::MassRestart => {
                for node in 0..self.nodes {
                    if rng.chance(0.4) {
                        self.push(at, Change::Crash(node));
                        self.push(until, Change::Start(node, memory));
                    }
                }
            }
            Trouble::Leave => {
                self.push(at, Change::Leave(node));
                self.push(until, Change::Start(node, memory));
            }
            Trouble::Pause => self.push(at, Change::Pause(node, lasts)),
            Trouble::BlockIo => self.push(at, Change::BlockIo(node, lasts)),
            Trouble::SlowCpu => {
                self.push(at, Change::SlowCpu(node, rng.span(self.period / 100, self.period / 8)));
                self.push(until, Change::SlowCpu(node, Duration::ZERO));
            }
            Trouble::Loss => {
                self.push(at, Change::Loss(*rng.pick(&[0.02, 0.1, 0.3, 0.6])));
                self.push(until, Change::Loss(0.0));
            }
            Trouble::OneWay => {
                let share = *rng.pick(&[0.5, 0.8, 1.0]);
                let direction = if rng.chance(0.5) { Change::Egress } else { Change::Ingress };
                self.push(at, direction(node, share));
                self.push(until, direction(node, 0.0));
            }
            Trouble::FlipFlop => {
                let half = rng.span(self.period, self.period * 10);
                let mut on = at;
                while on < until {
                    self.push(on, Change::Ingress(node, 1.0));
                    self.push((on + half).min(until), Change::Ingress(node, 0.0));
                    on = on + half * 2;
                }
            }
            Trouble::CutPair => {
                let other = self.anyone(rng);
                self.push(at, Change::Cut(node, other));
                self.push(until, Change::Mend(node, other));
                if rng.chance(0.5) {
                    self.push(at, Change::Cut(other, node));
                    self.push(until, Change::Mend(other, node));
                }
            }
            Trouble::Partition => {
                for node in 0..self.nodes {
                    self.push(at, Change::Side(node, u16::from(rng.chance(0.5))));
                    self.push(until, Change::Side(node, 0));
                }
            }
            Trouble::Spikes => {
                self.push(
                    at,
                    Change::Spikes(*rng.pick(&[0.02, 0.2]), rng.span(self.period / 10, self.period * 2)),
                );
                self.push(until, Change::Spikes(0.0, Duration::ZERO));
            }
            Trouble::Duplicates => {
                self.push(at, Change::Duplicates(*rng.pick(&[0.05, 0.5])));
                self.push(until, Change::Duplicates(0.0));
            }
            Trouble::Lag => {
                let lag = rng.span_of_any_size(self.period / 8, self.period * 4);
                self.push(at, Change::Tell(node, Told::Lagged(lag)));
            }
            Trouble::News => self.push(at, Change::Tell(node, Told::Meta(rng.bits() as u32))),
            Trouble::Mark => {
                let index = at.as_nanos() / 1_000 + rng.below(1_000);
                self.push(at, Change::Tell(node, Told::Mark(rng.between(1, 3) as u32, index)));
            }
            Trouble::Move => {
                self.push(at, Change::Move(node, memory));
                for other in (0..self.nodes).filter(|other| *other != node) {
                    let resolved = (at + rng.span(Duration::ZERO, self.period * 10)).min(self.end);
                    self.push(resolved, Change::Tell(other, Told::Seed(node)));
                }
            }
            Trouble::Expel => {
                let by = self.anyone(rng);
                self.push(at, Change::Tell(by, Told::Expel(node)));
                self.push(until, Change::Start(node, memory));
            }
            Trouble::Twin => {
                // In the place of another, which comes back when the mistake is found; then both start anew.
                let place = self.anyone(rng);
                if place == node {
                    return false;
                }
                let epoch = if rng.chance(0.5) { Epoch::Same } else { Epoch::Later };
                self.push(at, Change::Twin(place, node, epoch));
                self.push(until, Change::Start(place, memory));
                self.push(until, Change::Start(node, memory));
            }
            Trouble::Jump => self.push(at, Change::Jump(node, lasts)),
        }
        true
    }

    /// Perhaps something lasts: from the beginning on, and after everything else has healed.
    fn last(&mut self, rng: &mut Rng) {
        if rng.chance(0.7) {
            return;
        }
        self.lasts = true;
        let mut forever = Vec::new();
        let lasting = if rng.chance(0.6) { Lasting::BadLinks } else { Lasting::BadNode };
        match lasting {
            Lasting::BadLinks => {
                let share = *rng.pick(&BAD_LINKS);
                for from in CONTACTS_MAX..self.nodes {
                    let bad = (CONTACTS_MAX..self.nodes).filter(|to| *to != from && rng.chance(share));
                    forever.extend(bad.map(|to| Change::Cut(from, to)));
                }
            }
            Lasting::BadNode => {
                let node = rng.between(u64::from(CONTACTS_MAX), u64::from(self.nodes) - 1) as Node;
                let share = *rng.pick(&[0.8, 1.0]);
                forever.push(if rng.chance(0.5) {
                    Change::Egress(node, share)
                } else {
                    Change::Ingress(node, share)
                });
                self.bad_node = Some(node);
            }
        }
        *self.struck.entry(lasting.name()).or_default() += 1;
        let healed = self.end;
        self.changes.extend(forever.iter().map(|change| (Time::ZERO, change.clone())));
        self.changes.extend(forever.into_iter().map(|change| (healed, change)));
    }

    fn push(&mut self, at: Time, change: Change) {
        self.changes.push((at, change));
    }

    fn anyone(&self, rng: &mut Rng) -> Node {
        rng.below(u64::from(self.nodes)) as Node
    }

    fn deaths(&self) -> usize {
        self.changes.iter().filter(|(_, change)| matches!(change, Change::Crash(_))).count()
    }
}
