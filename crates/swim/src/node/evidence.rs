//! What beats what. All evidence about one node meets here: rumours, entries of a compared view, our own verdicts.
//!
//! A higher epoch replaces a lower one. Within an epoch: `Left` is final; the stored incarnation only grows, whatever the
//! evidence; at equal incarnations a verdict beats a suspicion and a suspicion beats `Alive`; a higher incarnation beats
//! them all, except that a node which died too often, or as unreliable, is believed only after a while, if it is still
//! heard then, or when another vouches for it: `Alive`, by somebody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::{Node, Phase};
use crate::identity::{Epoch, Identity, Incarnation, Info, NodeId, SharedInfo};
use crate::io::{Event, Reason, State};
use crate::message::{Status, Update};
use crate::mutation::Mutation;
use crate::queue::Rank;
use crate::table::Entry;

/// No address.
pub(super) const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Where evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// We concluded it ourselves, for this reason.
    Ourselves(Reason),
    /// A rumour, or the node itself.
    Rumour,
    /// A comparison of views.
    Sync,
    /// The same, and the node was pinged in vain.
    Checked,
}

impl Node {
    pub(super) fn learn_all(&mut self, mut updates: Vec<Update>) {
        // A judgement before what contradicts it, or the node would be believed for a moment.
        updates.sort_by_key(|update| update.status != Status::Unreliable);
        for update in updates {
            self.learn(update, Source::Rumour);
            if self.phase == Phase::Silent {
                return;
            }
        }
    }

    /// Takes in evidence. True if it was news.
    pub(super) fn learn(&mut self, update: Update, source: Source) -> bool {
        let node = update.node;
        if node.id == self.me.id {
            return self.learn_about_me(&update);
        }
        let Some(entry) = self.table.get(node.id) else {
            return self.meet(update, source);
        };
        let forgotten = entry.state == State::Left && self.is_broken(Mutation::LeftForgotten);
        let other_epoch = node.epoch != entry.epoch && self.is_broken(Mutation::EpochIgnored);
        if node.epoch > entry.epoch || other_epoch || forgotten && update.status == Status::Alive {
            return self.replace(update, source);
        }
        if node.epoch < entry.epoch || entry.state == State::Left {
            return false;
        }
        match update.status {
            Status::Alive => self.learn_alive(&update, source),
            Status::Suspect => self.learn_suspect(update, source),
            Status::Dead | Status::Unreliable => self.learn_death(update, source),
            Status::Left => self.learn_left(update, source),
        }
    }

    /// Evidence about a node we never heard of, or have forgotten.
    fn meet(&mut self, update: Update, source: Source) -> bool {
        // What is forgotten must not come back by comparing with those who forget later.
        if update.status.is_gone() && source == Source::Sync {
            return false;
        }
        if self.table.len() + 1 >= self.config.members_max {
            if !update.status.is_gone() {
                self.tell_full(update.node);
            }
            return false;
        }
        let gone = update.status.is_gone();
        let Some(info) = update.info.clone().or_else(|| gone.then(nowhere)) else { return false };
        self.table.insert(Entry {
            info,
            since: self.now,
            id: update.node.id,
            epoch: update.node.epoch,
            incarnation: update.incarnation,
            state: match update.status {
                Status::Left => State::Left,
                Status::Dead | Status::Unreliable => State::Dead,
                Status::Alive | Status::Suspect => State::Alive,
            },
            unreliable: update.status == Status::Unreliable,
            listed: false,
        });
        if !gone {
            self.has_joined(update.node);
        }
        self.pass_on_or_suspect(update, source, Rank::Join);
        true
    }

    /// A later start of a known node.
    fn replace(&mut self, update: Update, source: Source) -> bool {
        let Some(entry) = self.table.get(update.node.id) else { return false };
        let info = update.info.clone().unwrap_or_else(|| entry.info.clone());
        let (now, status) = (self.now, update.status);
        self.forget_particulars(update.node.id);
        self.flaps.forget(update.node.id);
        self.table.change(update.node.id, |entry| {
            entry.epoch = update.node.epoch;
            entry.incarnation = update.incarnation;
            entry.info = info;
            entry.since = now;
            entry.unreliable = status == Status::Unreliable;
            entry.state = match status {
                Status::Left => State::Left,
                Status::Dead | Status::Unreliable => State::Dead,
                Status::Alive | Status::Suspect => State::Alive,
            };
        });
        match status {
            Status::Left => self.event(Event::Left(update.node)),
            Status::Dead | Status::Unreliable => {
                self.event(Event::Dead(update.node, update.incarnation, Reason::Told(update.by)));
            }
            Status::Alive | Status::Suspect => self.has_joined(update.node),
        }
        self.pass_on_or_suspect(update, source, Rank::Verdict);
        true
    }

    fn pass_on_or_suspect(&mut self, update: Update, source: Source, rank: Rank) {
        if !update.status.is_gone() {
            let alive = Update { status: Status::Alive, by: update.node.id, ..update.clone() };
            self.pass_on(alive, source, rank);
        }
        if update.status == Status::Suspect {
            self.learn_suspect(update, source);
        } else if update.status.is_gone() {
            self.pass_on(update, source, rank);
        }
    }

    fn learn_alive(&mut self, update: &Update, source: Source) -> bool {
        let (id, now) = (update.node.id, self.now);
        let Some(entry) = self.table.get(id) else { return false };
        let vouched = update.status == Status::Alive && update.by != id;
        if update.incarnation <= entry.incarnation {
            let is_same = update.incarnation == entry.incarnation;
            if is_same && !vouched && source == Source::Sync && self.has_served(update.node) {
                // Whoever counts it as there has heard it. We may never: our own link to it may be bad.
                self.believe(update.node, update.incarnation, State::Dead);
                return true;
            }
            return vouched && update.incarnation == entry.incarnation && self.learn_voucher(update, source);
        }
        let state = entry.state;
        let info_counts = !self.is_broken(Mutation::InfoKept);
        let changed = info_counts && update.info.as_ref().is_some_and(|info| *info != entry.info);
        self.table.change(id, |entry| {
            entry.incarnation = update.incarnation;
            if let Some(info) = &update.info
                && info_counts
            {
                entry.info = info.clone();
            }
        });
        let by = if vouched { update.by } else { id };
        self.pass_on(Update { status: Status::Alive, by, ..update.clone() }, source, Rank::Verdict);
        if vouched {
            self.flaps.vouched(now, id, update.incarnation);
        }
        if matches!(state, State::Suspected | State::Dead) {
            self.flaps.contradicted(now, id);
        }
        let may_be_held = state == State::Dead && !vouched && !self.is_broken(Mutation::HoldDownSkipped);
        if may_be_held && self.hold_down(update.node, update.incarnation) {
            return true;
        }
        self.believe(update.node, update.incarnation, state);
        if changed {
            self.event(Event::Changed(update.node));
        }
        true
    }

    /// The node contradicted, and is believed.
    pub(super) fn believe(&mut self, node: Identity, incarnation: Incarnation, was: State) {
        let now = self.now;
        if !self.is_broken(Mutation::SuspicionTimerIgnoresRefutation) {
            self.suspicions.remove(&node.id);
        }
        if was != State::Alive {
            self.table.change(node.id, |entry| {
                entry.state = State::Alive;
                entry.unreliable = false;
                entry.since = now;
            });
        }
        if was == State::Dead {
            self.flaps.returned(now, node.id, self.config.probation);
            self.list(node.id);
        }
        if matches!(was, State::Suspected | State::Dead) {
            self.event(Event::Refuted(node, incarnation));
        }
        self.round_contradicted(node, incarnation);
        if was == State::Dead && self.flaps.was_condemned(now, node.id, &self.config) {
            self.examine(node);
        }
    }

    fn learn_suspect(&mut self, update: Update, source: Source) -> bool {
        let Some(entry) = self.table.get(update.node.id) else { return false };
        if update.incarnation < entry.incarnation {
            return false;
        }
        if entry.state == State::Dead {
            // Somebody has heard from it since: it was alive in that incarnation.
            let newer = update.incarnation > entry.incarnation;
            return newer && self.learn_alive(&update, source) && self.learn_suspect(update, source);
        }
        self.suspect(update, source)
    }

    fn learn_death(&mut self, update: Update, source: Source) -> bool {
        let (id, now) = (update.node.id, self.now);
        let Some(entry) = self.table.get(id) else { return false };
        let (state, incarnation) = (entry.state, entry.incarnation);
        if update.incarnation < incarnation {
            return update.status == Status::Unreliable && self.learn_old_judgement(update, source);
        }
        if source == Source::Sync
            && state.is_present()
            && update.status == Status::Dead
            && self.check_death(&update)
        {
            return true;
        }
        let held = self.flaps.is_held(id);
        if state == State::Dead && update.incarnation == incarnation && !held {
            return false;
        }
        let unreliable = update.status == Status::Unreliable;
        let monotone = !self.is_broken(Mutation::IncarnationNotMonotone);
        self.table.change(id, |entry| {
            if monotone {
                entry.incarnation = update.incarnation;
            }
            if state != State::Dead {
                entry.since = now;
            }
            entry.state = State::Dead;
            entry.unreliable = unreliable;
        });
        self.forget_particulars(id);
        if state != State::Dead || held {
            self.flaps.died(now, id, unreliable, self.members_for_flaps(), &self.config);
        }
        if unreliable {
            self.flaps.judged(id, update.incarnation);
        }
        if state != State::Dead {
            let reason = reason_of(source, update.by);
            self.event(Event::Dead(update.node, update.incarnation, reason));
            self.be_alert();
        }
        if matches!(source, Source::Ourselves(_)) {
            self.review_later(update.node);
        } else if unreliable {
            self.review_anew(update.node);
        }
        self.pass_on(update, source, Rank::Verdict);
        true
    }

    pub(super) fn learn_left(&mut self, update: Update, source: Source) -> bool {
        let (id, now) = (update.node.id, self.now);
        self.forget_particulars(id);
        self.table.change(id, |entry| {
            entry.incarnation = entry.incarnation.max(update.incarnation);
            entry.state = State::Left;
            entry.since = now;
        });
        self.event(Event::Left(update.node));
        self.pass_on(update, source, Rank::Verdict);
        true
    }

    fn learn_about_me(&mut self, update: &Update) -> bool {
        if update.node.epoch != self.me.epoch {
            if update.node.epoch > self.me.epoch {
                self.be_expelled(Some(update.node.epoch));
            }
            return false;
        }
        match update.status {
            Status::Left if self.phase == Phase::Member => self.be_expelled(None),
            Status::Left => {}
            // Somebody else says our name, at another address.
            Status::Alive if update.info.as_ref().is_some_and(|info| info.addr != self.info.addr) => {
                self.be_expelled(Some(self.me.epoch));
            }
            Status::Alive if update.incarnation <= self.incarnation => {}
            _ if update.incarnation < self.incarnation => {}
            Status::Alive | Status::Suspect | Status::Dead | Status::Unreliable => {
                self.contradict(update.incarnation);
            }
        }
        false
    }

    fn contradict(&mut self, said: Incarnation) {
        if self.is_broken(Mutation::NeverRefutes) || self.phase != Phase::Member {
            return;
        }
        self.incarnation = Incarnation(said.0.saturating_add(1));
        self.health.worse_by(1);
        self.spread(self.about_me(), Rank::Verdict);
        self.event(Event::WeRefuted(self.incarnation));
    }

    /// This epoch of ours is over.
    pub(super) fn be_expelled(&mut self, by: Option<Epoch>) {
        if self.phase == Phase::Silent || self.is_broken(Mutation::StaysExpelled) {
            return;
        }
        self.superseded_by = by.or(Some(self.me.epoch));
        self.event(Event::Expelled);
        self.fall_silent();
    }

    fn has_joined(&mut self, node: Identity) {
        self.list(node.id);
        self.event(Event::Joined(node));
        self.join.is_in(self.now);
    }

    /// Puts a node into the probing order, unless it is there.
    fn list(&mut self, id: NodeId) {
        let mut was_listed = true;
        self.table.change(id, |entry| was_listed = std::mem::replace(&mut entry.listed, true));
        if !was_listed {
            self.order.insert(id, &mut self.random);
        }
    }

    /// What we had under way about a node is over.
    pub(super) fn forget_particulars(&mut self, id: NodeId) {
        if !self.is_broken(Mutation::SuspicionTimerIgnoresRefutation) {
            self.suspicions.remove(&id);
        }
        self.rounds.remove(&id);
    }

    fn tell_full(&mut self, node: Identity) {
        // Once in a while is enough: those who are not taken in are heard of again and again.
        if self.full_told_at.is_none_or(|at| self.now.since(at) >= self.config.period) {
            self.full_told_at = Some(self.now);
            self.event(Event::Full(node));
        }
    }
}

/// For the gone of whom nobody said where they were.
fn nowhere() -> SharedInfo {
    Arc::new(Info { addr: NOWHERE, meta: bytes::Bytes::new() })
}

pub(super) fn reason_of(source: Source, by: NodeId) -> Reason {
    match source {
        Source::Ourselves(reason) => reason,
        Source::Rumour | Source::Sync | Source::Checked => Reason::Told(by),
    }
}
