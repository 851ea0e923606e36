//! Finding the cluster, and finding it again: seeds while we are alone, and at a low rate seeds and the dead for ever after,
//! so that two halves meet again.

use std::net::SocketAddr;

use model::Instant;

use super::evidence::NOWHERE;
use super::packets::NOBODY;
use super::{Node, Phase};
use crate::identity::Identity;
use crate::io::State;
use crate::message::Message;
use crate::mutation::Mutation;
use crate::timers::Timer;

/// Most addresses that are remembered; further ones replace the oldest.
const SEEDS_MAX: usize = 64;
/// Whoever joined less than so many periods ago compares views as often as it may.
const YOUNG_PERIODS: u32 = 10;
/// The first pause between two tries is a fifth of a period, the longest so many times that.
const PAUSE_FIFTHS_MAX: u32 = 25;

/// Where to look.
#[derive(Debug)]
pub(super) struct Joining {
    seeds: Vec<(SocketAddr, Option<Identity>)>,
    mine: SocketAddr,
    next: usize,
    pause_fifths: u32,
    /// When we first knew somebody.
    joined_at: Option<Instant>,
    /// The cluster was there from the beginning.
    is_settled: bool,
    began: Instant,
    /// The number of the last ping to a seed or a dead node.
    reached_out: Option<u32>,
    dead_next: bool,
}

impl Joining {
    pub(super) fn new(now: Instant, seeds: Vec<SocketAddr>, mine: SocketAddr) -> Self {
        let mut joining = Joining {
            seeds: Vec::new(),
            mine,
            next: 0,
            pause_fifths: 1,
            joined_at: None,
            is_settled: false,
            began: now,
            reached_out: None,
            dead_next: true,
        };
        joining.add(seeds);
        joining
    }

    pub(super) fn has_seeds(&self) -> bool {
        !self.seeds.is_empty()
    }

    /// That node answered from this address.
    pub(super) fn found(&mut self, addr: SocketAddr, who: Identity) {
        if let Some(seed) = self.seeds.iter_mut().find(|seed| seed.0 == addr) {
            seed.1 = Some(who);
        }
    }

    pub(super) fn is_in(&mut self, now: Instant) {
        self.joined_at.get_or_insert(now);
    }

    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }

    fn add(&mut self, seeds: Vec<SocketAddr>) {
        for seed in seeds {
            let known = seed == self.mine || self.seeds.iter().any(|(addr, _)| *addr == seed);
            if !known {
                // Names come to mean other addresses in time; the oldest is the likeliest to be out of date.
                if self.seeds.len() == SEEDS_MAX {
                    self.seeds.remove(0);
                }
                self.seeds.push((seed, None));
            }
        }
    }

    fn next_seed(&mut self) -> Option<(SocketAddr, Option<Identity>)> {
        if self.seeds.is_empty() {
            return None;
        }
        self.next = (self.next + 1) % self.seeds.len();
        Some(self.seeds[self.next])
    }
}

impl Node {
    pub(super) fn add_seeds(&mut self, seeds: Vec<SocketAddr>) {
        let had = self.join.has_seeds();
        self.join.add(seeds);
        if !had && self.join.has_seeds() && self.is_alone() {
            self.timers.set(self.now, Timer::Join);
        }
    }

    /// Asks the next seed, and again after a while, for as long as we are alone.
    pub(super) fn look_for_cluster(&mut self) {
        if self.phase != Phase::Member || !self.is_alone() {
            return;
        }
        if let Some((addr, _)) = self.join.next_seed() {
            self.compare_with(addr);
        }
        let longest = self.config.period / 5 * self.join.pause_fifths;
        let pause = longest / 2 + self.random.within(longest);
        self.join.pause_fifths = (self.join.pause_fifths * 2).min(PAUSE_FIFTHS_MAX);
        self.timers.set(self.now + pause, Timer::Join);
    }

    /// A seed did not let us in. If it is only busy, it is soon asked again.
    pub(super) fn seed_was_busy(&mut self, busy: bool) {
        if busy {
            self.join.pause_fifths = 1;
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.table.present() == 0
    }

    /// True if we know others only for a short while.
    pub(super) fn is_young(&self) -> bool {
        let since = self.join.joined_at.unwrap_or(self.join.began);
        !self.join.is_settled && self.now.since(since) < self.periods(YOUNG_PERIODS)
    }

    /// Pings one of the dead, or a seed whom we do not see, in turn.
    pub(super) fn reach_out(&mut self) {
        let jitter = self.random.within(self.config.reach_out_every / 4);
        self.timers.set(self.now + self.config.reach_out_every - jitter, Timer::ReachOut);
        if self.phase != Phase::Member || self.is_broken(Mutation::ForgetsSeeds) {
            return;
        }
        self.join.dead_next = !self.join.dead_next;
        let found = if self.join.dead_next {
            self.some_dead().or_else(|| self.unseen_seed())
        } else {
            self.unseen_seed().or_else(|| self.some_dead())
        };
        if let Some((node, addr)) = found {
            let number = self.next_number();
            self.join.reached_out = Some(number);
            self.send(node, addr, Message::Ping { number });
        }
    }

    /// Somebody answers from beyond: compare views at once.
    pub(super) fn reach_out_answered(&mut self, _: Identity, addr: SocketAddr, digest: u64, number: u32) {
        if self.join.reached_out == Some(number) {
            self.join.reached_out = None;
            if digest != self.digest() {
                self.compare_with(addr);
            }
        }
    }

    fn some_dead(&mut self) -> Option<(Identity, SocketAddr)> {
        let dead = self.table.in_state(State::Dead);
        if dead == 0 {
            return None;
        }
        let nth = self.random.index(dead);
        let found = self.table.iter().filter(|entry| entry.state == State::Dead).nth(nth)?;
        (found.info.addr != NOWHERE).then(|| (found.identity(), found.info.addr))
    }

    fn unseen_seed(&mut self) -> Option<(Identity, SocketAddr)> {
        let (addr, who) = self.join.next_seed()?;
        let seen = who.is_some_and(|who| {
            self.table.get(who.id).is_some_and(|entry| entry.state.is_present() && entry.info.addr == addr)
        });
        (!seen).then_some((who.unwrap_or(NOBODY), addr))
    }
}
