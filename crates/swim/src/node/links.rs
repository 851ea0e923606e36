//! Bad links of our own: what lies between us and a node is no evidence against it.
//!
//! A link may be dead in one direction for good while both its ends are well. Whoever has such links notices: its own pings
//! stay unanswered, and those of its helpers do not. It then asks more helpers, and a measurement in which nothing at all came
//! back directly is tried through helpers too. Where links are well this sends nothing, so neither a crash nor a partition
//! costs more by it.

use std::collections::BTreeMap;

use super::Node;
use crate::identity::{Identity, NodeId};
use crate::io::State;
use crate::message::{Message, View};
use crate::mutation::Mutation;

/// With so many of the last 16 probes answered through helpers and neither directly nor over a stream, our links are bad. Where
/// packets are merely lost a stream is slow but answers.
const BAD_FROM: u32 = 2;
/// Through how many helpers a measurement is tried, and how often through each.
const DETOURS: usize = 5;
const PINGS_THROUGH_EACH: u32 = 3;
/// The first of these is sent when this many direct pings are out, and one more after each so many more.
const DETOUR_AFTER_PINGS: u32 = 4;
const DETOUR_EVERY_PINGS: u32 = 3;
/// Most pings through helpers that are under way; beyond, a measurement has to do without.
const DETOURS_MAX: usize = 1_024;

/// What we know of our own links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The last probes: a bit is set where only a helper had an answer.
    relayed: u16,
    /// Pings through helpers, by number.
    detours: BTreeMap<u32, Detour>,
}

/// A ping of a measurement, through a helper.
#[derive(Debug)]
struct Detour {
    target: NodeId,
    /// Which measurement.
    first: u32,
    helper: NodeId,
}

impl Node {
    /// A probe is over.
    pub(super) fn note_probe(&mut self, was_relayed: bool) {
        self.links.relayed = self.links.relayed << 1 | u16::from(was_relayed);
    }

    pub(super) fn has_bad_links(&self) -> bool {
        self.links.relayed.count_ones() >= BAD_FROM && !self.is_broken(Mutation::BadLinksIgnored)
    }

    /// A measurement is about to send its next ping directly. If nothing came back so far, and our links are bad, it is tried
    /// through helpers too.
    pub(super) fn measure_through_helpers(&mut self, node: Identity) {
        let Some(measurement) = self.measurements.get(&node.id) else { return };
        let (sent, addr, first) = (measurement.sent, measurement.addr, measurement.first);
        let since = sent.wrapping_sub(DETOUR_AFTER_PINGS);
        let is_due = since % DETOUR_EVERY_PINGS == 0 && since / DETOUR_EVERY_PINGS < PINGS_THROUGH_EACH;
        if sent < DETOUR_AFTER_PINGS || !is_due || measurement.acked != 0 || !self.has_bad_links() {
            return;
        }
        let mut helpers = measurement.helpers.clone();
        if helpers.is_empty() {
            helpers = self.some_members(DETOURS, |entry| entry.state == State::Alive && entry.id != node.id);
            if let Some(measurement) = self.measurements.get_mut(&node.id) {
                measurement.helpers.clone_from(&helpers);
            }
        }
        for (helper, there) in helpers {
            if self.links.detours.len() >= DETOURS_MAX {
                return;
            }
            let number = self.next_number();
            self.links.detours.insert(number, Detour { target: node.id, first, helper: helper.id });
            self.send(helper, there, Message::PingFor { number, target: node, addr });
        }
    }

    /// A helper had an answer. One that always has one shows that the node is well: loss at its own end would be in the way of
    /// some.
    pub(super) fn detour_acked(&mut self, from: Identity, number: u32) {
        if self.links.detours.get(&number).is_none_or(|detour| detour.helper != from.id) {
            return;
        }
        let Some(Detour { target, first, helper }) = self.links.detours.remove(&number) else { return };
        let Some(measurement) = self.measurements.get_mut(&target).filter(|it| it.first == first) else {
            return;
        };
        measurement.through.push(helper);
        let answers = measurement.through.iter().filter(|through| **through == helper).count() as u32;
        if answers == PINGS_THROUGH_EACH && measurement.view.is_none() {
            self.judge(target, View::Good);
        }
    }

    /// That measurement is over.
    pub(super) fn forget_detours(&mut self, first: u32) {
        self.links.detours.retain(|_, detour| detour.first != first);
    }
}
