//! Watches who takes whom for gone, and when: about those who are gone in truth, and about others.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::{Belief, Node, Output, Protocol, Watch};

/// Who knows of which death, and who was taken for dead in error.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The nodes that crashed.
    dead: BTreeMap<Node, Death>,
    /// The nodes of which something is wrong; verdicts about others are false.
    troubled: BTreeSet<Node>,
    /// How many nodes live.
    live: usize,
    /// The run is over when all live nodes know of all deaths.
    ends_when_known: bool,
    /// Verdicts about nodes of which nothing is wrong, counted at each node that believes one.
    pub false_deaths: u64,
    /// Of these, at nodes of which nothing is wrong either.
    pub false_deaths_at_healthy: u64,
    /// Times that a node of which nothing is wrong came to be taken for dead by anybody at all: however far the error
    /// spreads, it counts once.
    pub errors: u64,
    /// Of these, begun by nodes of which nothing is wrong either.
    pub errors_of_healthy: u64,
    /// Who takes whom for dead in error.
    believers: BTreeMap<Node, BTreeSet<Node>>,
    /// The nodes that such verdicts were about.
    pub condemned: BTreeSet<Node>,
}

/// A death, and who knows of it.
#[derive(Clone, Debug, Default)]
pub struct Death {
    /// When it was.
    pub at: Time,
    /// Who knows of it since when.
    pub known: BTreeMap<Node, Time>,
    /// When the first node took it for dead.
    pub first: Option<Time>,
    /// When all did.
    pub all: Option<Time>,
}

impl Verdicts {
    /// So many nodes live, and nothing is wrong.
    pub fn new(live: u32) -> Self {
        Verdicts { live: live as usize, ..Verdicts::default() }
    }

    /// Something is wrong with these: it is no error to take them for dead.
    pub fn troubled(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.troubled.extend(nodes);
        self
    }

    /// The run may end when all live nodes know of all deaths.
    pub fn until_known(mut self) -> Self {
        self.ends_when_known = true;
        self
    }

    /// The deaths, by node.
    pub fn deaths(&self) -> impl Iterator<Item = (Node, &Death)> {
        self.dead.iter().map(|(node, death)| (*node, death))
    }

    /// When each live node knew of all deaths, in seconds since the first of them.
    pub fn known_to_each(&self) -> Vec<f64> {
        let Some(began) = self.dead.values().map(|death| death.at).min() else { return Vec::new() };
        let mut latest: BTreeMap<Node, (usize, Time)> = BTreeMap::new();
        for (node, at) in self.dead.values().flat_map(|death| &death.known) {
            let entry = latest.entry(*node).or_insert((0, *at));
            *entry = (entry.0 + 1, entry.1.max(*at));
        }
        let complete = latest.values().filter(|(count, _)| *count == self.dead.len());
        complete.map(|(_, at)| at.since(began).as_secs_f64()).collect()
    }

    fn heard(&mut self, now: Time, by: Node, about: Node, belief: Belief) {
        if let Some(death) = self.dead.get_mut(&about) {
            // The last words of one that is dead itself do not count.
            if belief == Belief::Gone {
                death.known.entry(by).or_insert(now);
                death.first.get_or_insert(now);
                if death.known.len() >= self.live {
                    death.all.get_or_insert(now);
                }
            } else {
                death.known.remove(&by);
            }
        } else if !self.troubled.contains(&about) && by != about {
            self.judged(by, about, belief);
        }
    }

    /// A node changed its mind about one of which nothing is wrong.
    fn judged(&mut self, by: Node, about: Node, belief: Belief) {
        let believers = self.believers.entry(about).or_default();
        if belief != Belief::Gone {
            believers.remove(&by);
            return;
        }
        let is_healthy = u64::from(!self.troubled.contains(&by));
        if believers.is_empty() {
            self.errors += 1;
            self.errors_of_healthy += is_healthy;
        }
        believers.insert(by);
        self.false_deaths += 1;
        self.false_deaths_at_healthy += is_healthy;
        self.condemned.insert(about);
    }
}

impl<P: Protocol> Watch<P> for Verdicts {
    fn output(&mut self, now: Time, node: Node, _: &P, output: &Output<P::Message>) {
        if let Output::Changed(about, _, belief) = output {
            self.heard(now, node, *about, *belief);
        }
    }

    fn change(&mut self, now: Time, change: &Change) {
        if let Change::Crash(node) = change {
            self.live -= 1;
            self.dead.values_mut().for_each(|death| _ = death.known.remove(node));
            self.dead.insert(*node, Death { at: now, ..Death::default() });
        }
    }

    fn is_over(&self) -> bool {
        self.ends_when_known && !self.dead.is_empty() && self.dead.values().all(|death| death.all.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_known_when_all_the_living_know() {
        let mut verdicts = Verdicts::new(4).until_known();
        let crash = |verdicts: &mut Verdicts, node| {
            Watch::<crate::worlds::swim::SwimNode>::change(
                verdicts,
                Time::from_millis(1_000),
                &Change::Crash(node),
            );
        };
        crash(&mut verdicts, 3);
        crash(&mut verdicts, 2);
        for (at, by, about) in [(3_000, 0, 3), (4_000, 1, 3), (5_000, 0, 2), (9_000, 1, 2)] {
            assert!(!Watch::<crate::worlds::swim::SwimNode>::is_over(&verdicts));
            verdicts.heard(Time::from_millis(at), by, about, Belief::Gone);
        }
        assert!(Watch::<crate::worlds::swim::SwimNode>::is_over(&verdicts));
        let all: Vec<Option<Time>> = verdicts.deaths().map(|(_, death)| death.all).collect();
        assert_eq!(all, [Some(Time::from_millis(9_000)), Some(Time::from_millis(4_000))]);
        assert_eq!(verdicts.known_to_each(), [4.0, 8.0]);
        assert_eq!(verdicts.false_deaths, 0);
    }

    #[test]
    fn verdicts_about_the_healthy_are_false_wherever_they_are_believed() {
        let mut verdicts = Verdicts::new(4).troubled([3]);
        for (by, about) in [(0, 3), (3, 1), (0, 1), (2, 1)] {
            verdicts.heard(Time::ZERO, by, about, Belief::Gone);
        }
        assert_eq!((verdicts.false_deaths, verdicts.false_deaths_at_healthy), (3, 2));
        assert_eq!(verdicts.condemned, BTreeSet::from([1]));
        // All this was one error, begun by the one that has trouble; when nobody believes it any more the next begins.
        assert_eq!((verdicts.errors, verdicts.errors_of_healthy), (1, 0));
        for by in [3, 0, 2] {
            verdicts.heard(Time::ZERO, by, 1, Belief::Present);
        }
        verdicts.heard(Time::ZERO, 2, 1, Belief::Gone);
        assert_eq!((verdicts.errors, verdicts.errors_of_healthy), (2, 1));
    }
}
