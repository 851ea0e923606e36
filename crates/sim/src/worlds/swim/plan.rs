//! What goes wrong in a world whose laws are tried: each seed enables a random part of the menu (swarm testing), until
//! calm begins. The whole plan is drawn before the world begins.

use std::time::Duration;

use super::change::{Change, Memory};
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
}

const MENU: [Trouble; 14] = [
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
];

/// Everything that is done to a world, with times; nothing of it lasts beyond `end`.
pub(super) fn draw(seed: u64, nodes: u32, period: Duration, begin: Time, end: Time) -> Vec<(Time, Change)> {
    let mut rng = Rng::stream(seed, 0, "faults");
    let mut plan = Plan { nodes, period, end, changes: Vec::new() };
    for (number, trouble) in (0..).zip(MENU) {
        if rng.chance(0.6) {
            continue;
        }
        let mut rng = Rng::stream(seed, number, "trouble");
        let mean = rng.span_of_any_size(period * 5, period * 60);
        let mut at = begin + until_next(&mut rng, mean);
        while at < end {
            plan.strike(&mut rng, at, trouble);
            at = at + until_next(&mut rng, mean);
        }
    }
    plan.changes.push((end, Change::Heal));
    plan.changes
}

struct Plan {
    nodes: u32,
    period: Duration,
    end: Time,
    changes: Vec<(Time, Change)>,
}

impl Plan {
    fn strike(&mut self, rng: &mut Rng, at: Time, trouble: Trouble) {
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
            Trouble::Death => {}
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
        }
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
