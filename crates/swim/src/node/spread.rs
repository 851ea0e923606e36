//! Spreading news: what is worth telling, to whom and how often.

use std::net::SocketAddr;

use super::evidence::Source;
use super::{Node, Phase};
use crate::identity::Identity;
use crate::message::{Message, Status, Update};
use crate::mutation::Mutation;
use crate::queue::Rank;
use crate::table::Entry;
use crate::timers::Timer;

/// With more news than this on the way, newcomers are left to the comparison of views: when a thousand nodes join at once,
/// telling each of them to everybody would take longer.
const QUEUE_JOINS_MAX: usize = 100;

impl Node {
    /// Tells others what we learned, if they are not better served by comparing.
    pub(super) fn pass_on(&mut self, update: Update, source: Source, rank: Rank) {
        let is_join = rank == Rank::Join && update.status == Status::Alive;
        if is_join {
            // Whoever is new itself learns joins that everybody else knows.
            let stale = source == Source::Sync && self.is_young();
            if stale || self.queue.len() > QUEUE_JOINS_MAX {
                return;
            }
        }
        let rank = if is_join { Rank::Join } else { Rank::of(update.status) };
        self.spread(update, rank);
    }

    pub(super) fn spread(&mut self, update: Update, rank: Rank) {
        self.queue.push(update, rank);
        if self.is_broken(Mutation::FloodsNews) {
            for (node, addr) in self.some_members(self.members_present(), |_| true) {
                self.send(node, addr, Message::Gossip);
            }
        }
        self.gossip_soon();
    }

    /// The next tick of gossip, if it is not under way.
    pub(super) fn gossip_soon(&mut self) {
        if !self.gossip_is_set {
            self.gossip_is_set = true;
            self.timers.set(self.now + self.config.gossip.every, Timer::Gossip);
        }
    }

    /// How often each update is told.
    pub(super) fn tellings_max(&self) -> u32 {
        if self.is_broken(Mutation::GossipForever) {
            return u32::MAX;
        }
        let magnitude = ((self.members_present() + 1) as f64).log10().ceil() as u32;
        (self.config.gossip.retransmit * magnitude).max(1)
    }

    pub(super) fn gossip(&mut self) {
        let fanout = self.config.gossip.fanout;
        self.gossip_is_set = false;
        if let Phase::Leaving(left) = self.phase {
            self.say_goodbye(left);
            return;
        }
        if self.phase != Phase::Member || self.queue.is_empty() {
            return;
        }
        for (node, addr) in self.some_members(fanout, |entry| entry.state.is_present()) {
            if self.queue.is_empty() {
                break;
            }
            self.send(node, addr, Message::Gossip);
        }
        self.gossip_soon();
    }

    /// Up to so many random members of which this is true.
    pub(super) fn some_members(
        &mut self,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Vec<(Identity, SocketAddr)> {
        if most == 0 || self.order.len() == 0 {
            return Vec::new();
        }
        // Nearly all of the order is present, so a short walk finds enough; a long one must not be taken.
        let walk = most * 4 + 16;
        let table = &self.table;
        self.order
            .walk_from_anywhere(walk, &mut self.random)
            .filter_map(|id| table.get(id))
            .filter(|entry| entry.state.is_present() && wanted(entry))
            .take(most)
            .map(|entry| (entry.identity(), entry.info.addr))
            .collect()
    }
}
