//! What becomes of a packet: lost, late, doubled, or there after a moment.
//!
//! Trouble is kept by node, by side of a partition and for a few cut pairs, never for every pair: ten thousand nodes have
//! a hundred million of these. As long as nothing is wrong anywhere a packet costs one random number.

use std::collections::BTreeSet;
use std::time::Duration;

use super::change::Change;
use super::protocol::Node;
use crate::rng::Rng;

/// How long packets take when nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// At least this long, one way.
    pub min: Duration,
    /// At most this long; all between are alike.
    pub max: Duration,
}

impl Default for Delay {
    /// Machines of one site: 0.2 to 1 ms.
    fn default() -> Self {
        Delay { min: Duration::from_micros(200), max: Duration::from_millis(1) }
    }
}

/// The network of one world.
#[derive(Debug)]
pub(super) struct Network {
    rng: Rng,
    delay_min: u64,
    /// Number of different delays, in nanoseconds.
    delay_range: u64,
    /// False while every packet arrives once and in time.
    is_troubled: bool,
    loss: f64,
    duplicates: f64,
    spikes: f64,
    spike_max: Duration,
    ends: Vec<End>,
    cuts: BTreeSet<(Node, Node)>,
}

/// One node's end of the network.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    egress: f64,
    ingress: f64,
    side: u16,
}

impl Network {
    pub(super) fn new(seed: u64, nodes: usize, delay: Delay) -> Self {
        let (min, max) = (delay.min.as_nanos() as u64, delay.max.as_nanos() as u64);
        Network {
            rng: Rng::stream(seed, 0, "network"),
            delay_min: min,
            delay_range: max.saturating_sub(min) + 1,
            is_troubled: false,
            loss: 0.0,
            duplicates: 0.0,
            spikes: 0.0,
            spike_max: Duration::ZERO,
            ends: vec![End::default(); nodes],
            cuts: BTreeSet::new(),
        }
    }

    /// Changes the network, if the change is about it.
    pub(super) fn apply(&mut self, change: &Change) {
        match *change {
            Change::Egress(node, share) => self.ends[node as usize].egress = share,
            Change::Ingress(node, share) => self.ends[node as usize].ingress = share,
            Change::Side(node, side) => self.ends[node as usize].side = side,
            Change::Loss(share) => self.loss = share,
            Change::Duplicates(share) => self.duplicates = share,
            Change::Spikes(share, max) => (self.spikes, self.spike_max) = (share, max),
            Change::Cut(from, to) => _ = self.cuts.insert((from, to)),
            Change::Mend(from, to) => _ = self.cuts.remove(&(from, to)),
            Change::Heal => {
                (self.loss, self.duplicates, self.spikes) = (0.0, 0.0, 0.0);
                self.ends.fill(End::default());
                self.cuts.clear();
            }
            _ => return,
        }
        self.is_troubled = self.loss > 0.0
            || self.duplicates > 0.0
            || self.spikes > 0.0
            || !self.cuts.is_empty()
            || self.ends.iter().any(|end| end.egress > 0.0 || end.ingress > 0.0 || end.side != 0);
    }

    /// How long this packet takes; `None` if it is lost.
    pub(super) fn carry(&mut self, from: Node, to: Node) -> Option<Duration> {
        if self.is_troubled && self.loses(from, to) {
            return None;
        }
        let mut nanos = self.delay_min + self.rng.below(self.delay_range);
        if self.spikes > 0.0 && self.rng.chance(self.spikes) {
            nanos += self.rng.below(self.spike_max.as_nanos() as u64 + 1);
        }
        Some(Duration::from_nanos(nanos))
    }

    /// True if this datagram comes a second time.
    pub(super) fn doubles(&mut self) -> bool {
        self.duplicates > 0.0 && self.rng.chance(self.duplicates)
    }

    fn loses(&mut self, from: Node, to: Node) -> bool {
        let (sender, receiver) = (self.ends[from as usize], self.ends[to as usize]);
        if sender.side != receiver.side || self.cuts.contains(&(from, to)) {
            return true;
        }
        let arrives = (1.0 - self.loss) * (1.0 - sender.egress) * (1.0 - receiver.ingress);
        arrives < 1.0 && !self.rng.chance(arrives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_lost(network: &mut Network, from: Node, to: Node) -> f64 {
        (0..4_000).filter(|_| network.carry(from, to).is_none()).count() as f64 / 4_000.0
    }

    #[test]
    fn losses_of_both_ends_and_of_the_network_add_up_and_heal() {
        let mut network = Network::new(1, 3, Delay::default());
        assert_eq!(share_lost(&mut network, 0, 1), 0.0);
        network.apply(&Change::Egress(0, 0.5));
        network.apply(&Change::Ingress(1, 0.5));
        let (both, one, none) =
            (share_lost(&mut network, 0, 1), share_lost(&mut network, 0, 2), share_lost(&mut network, 1, 0));
        assert!((0.72..0.78).contains(&both) && (0.47..0.53).contains(&one) && none == 0.0, "{both} {one}");
        network.apply(&Change::Loss(0.2));
        assert!((0.17..0.23).contains(&share_lost(&mut network, 1, 0)));
        network.apply(&Change::Heal);
        assert_eq!(share_lost(&mut network, 0, 1), 0.0);
    }

    #[test]
    fn cuts_have_a_direction_and_sides_have_none() {
        let mut network = Network::new(1, 3, Delay::default());
        network.apply(&Change::Cut(0, 1));
        assert!(network.carry(0, 1).is_none() && network.carry(1, 0).is_some());
        network.apply(&Change::Mend(0, 1));
        network.apply(&Change::Side(2, 1));
        assert!(network.carry(0, 1).is_some());
        assert!(network.carry(0, 2).is_none() && network.carry(2, 0).is_none());
    }

    #[test]
    fn delays_stay_within_their_bounds() {
        let mut network = Network::new(1, 2, Delay::default());
        let mut longest = |spikes| {
            network.apply(&Change::Spikes(spikes, Duration::from_millis(50)));
            let delays: Vec<Duration> = (0..2_000).filter_map(|_| network.carry(0, 1)).collect();
            assert!(delays.iter().all(|delay| *delay >= Duration::from_micros(200)));
            *delays.iter().max().expect("none is lost")
        };
        assert!(longest(0.0) <= Duration::from_millis(1));
        assert!((Duration::from_millis(30)..=Duration::from_millis(51)).contains(&longest(0.5)));
    }
}
