//! Holding: who died too often, or as unreliable, is not believed for a while when it contradicts.
//!
//! ```text
//!   dead ── contradicts ──► held ── its time is over ──► pinged ── heard from it, or of a later incarnation ──► believed
//!                            └──────────────────── somebody vouches for it ──────────────────────────────────────┘
//! ```
//!
//! When the time is over the contradiction is old, and its node may have died since. So it is believed when it is heard
//! next, or when somebody who compares views counts it as there, and it is pinged so that this is soon; otherwise everybody
//! would take a dead node for alive, and find out again.

use super::Node;
use super::evidence::{NOWHERE, Source, reason_of};
use crate::identity::{Identity, Incarnation, NodeId};
use crate::io::{Event, State};
use crate::message::{Message, Update};
use crate::mutation::Mutation;
use crate::queue::Rank;
use crate::timers::Timer;

impl Node {
    /// A contradiction of a death is known. True if it is not believed yet.
    pub(super) fn hold_down(&mut self, node: Identity, incarnation: Incarnation) -> bool {
        let unreliable = self.table.get(node.id).is_some_and(|entry| entry.unreliable);
        let members = self.members_for_flaps();
        let until = self.flaps.hold(self.now, node.id, incarnation, unreliable, members, &self.config);
        if let Some(until) = until {
            self.timers.set(until, Timer::HoldDown { node, incarnation });
        }
        until.is_some()
    }

    /// Of how many nodes some died lately: all who did not leave.
    pub(super) fn members_for_flaps(&self) -> usize {
        self.members_present() + self.table.in_state(State::Dead)
    }

    /// Its time is over: let us hear from it.
    pub(super) fn hold_down_over(&mut self, node: Identity, incarnation: Incarnation) {
        let Some(entry) = self.table.get(node.id) else { return };
        let addr = entry.info.addr;
        if !self.has_served(node) || entry.incarnation != incarnation || addr == NOWHERE {
            return;
        }
        let number = self.next_number();
        self.send(node, addr, Message::Ping { number });
    }

    /// This node speaks to us. If it was only waiting for that, it is believed.
    pub(super) fn heard_from(&mut self, node: Identity) {
        if self.has_served(node)
            && let Some(incarnation) = self.table.get(node.id).map(|entry| entry.incarnation)
        {
            self.believe(node, incarnation, State::Dead);
        }
    }

    /// True if it is dead and held, and its time is over.
    pub(super) fn has_served(&self, node: Identity) -> bool {
        self.table.get(node.id).is_some_and(|entry| {
            entry.state == State::Dead && entry.identity() == node && self.flaps.has_served(self.now, node.id)
        })
    }

    /// Somebody vouches for a node in the incarnation that we know.
    pub(super) fn learn_voucher(&mut self, update: &Update, source: Source) -> bool {
        let (node, incarnation) = (update.node, update.incarnation);
        let Some(state) = self.table.get(node.id).map(|entry| entry.state) else { return false };
        let held = state == State::Dead && self.flaps.is_held(node.id);
        // Whoever believes it anyway remembers it for a judgement that comes late, but need not be told by comparing.
        let counts = held || state.is_present() && source != Source::Sync;
        if !counts || !self.flaps.vouched(self.now, node.id, incarnation) {
            return false;
        }
        self.pass_on(update.clone(), source, Rank::Verdict);
        if held {
            self.believe(node, incarnation, State::Dead);
        }
        true
    }

    /// A node was judged as unreliable, and its contradiction came here first. The order must not matter: it is dead, and
    /// believed after a while.
    pub(super) fn learn_old_judgement(&mut self, update: Update, source: Source) -> bool {
        let (id, now) = (update.node.id, self.now);
        let settled = self.flaps.voucher(id).is_some_and(|vouched| vouched > update.incarnation);
        if settled || self.is_broken(Mutation::HoldDownSkipped) || !self.flaps.judged(id, update.incarnation)
        {
            return false;
        }
        let Some(entry) = self.table.get(id) else { return false };
        let (state, incarnation) = (entry.state, entry.incarnation);
        self.forget_particulars(id);
        self.table.change(id, |entry| {
            entry.state = State::Dead;
            entry.unreliable = true;
            if state != State::Dead {
                entry.since = now;
            }
        });
        if state != State::Dead {
            self.event(Event::Dead(update.node, incarnation, reason_of(source, update.by)));
        }
        self.flaps.died(now, id, true, self.members_for_flaps(), &self.config);
        self.hold_down(update.node, incarnation);
        self.review_anew(update.node);
        self.pass_on(update, source, Rank::Verdict);
        true
    }

    /// True if this node's contradiction is known and its time runs: others may find that it answers by now.
    pub(super) fn is_serving(&self, id: NodeId) -> bool {
        self.flaps.is_held(id) && !self.flaps.has_served(self.now, id)
    }
}
