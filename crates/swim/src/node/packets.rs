//! Datagrams: who speaks to whom, what rides along, and what each message means to us.

use std::net::SocketAddr;

use super::suspicion::Suspected;
use super::{Node, Phase};
use crate::identity::{Epoch, Identity, NodeId};
use crate::io::{Event, Output, State};
use crate::message::{Message, PACKET_BYTES_MAX, Packet, Status, Update};
use crate::mutation::Mutation;

/// Whom a datagram is for when only the address is known: nobody. Whoever is there says who it is.
pub(super) const NOBODY: Identity = Identity { id: NodeId(u32::MAX), epoch: Epoch(0) };

impl Node {
    pub(super) fn on_packet(&mut self, addr: SocketAddr, packet: Packet) {
        let Packet { from, to, digest, mark, message, updates } = packet;
        if from.id == self.me.id {
            if from.epoch > self.me.epoch {
                self.be_expelled(Some(from.epoch));
            }
            return;
        }
        self.hear(from.id);
        if self.is_over(from) {
            // An earlier start, or one that left: what it says counts for nothing. It is told why, unless it may be
            // telling us the same: two such nodes would never stop.
            if !matches!(message, Message::Gossip | Message::NotMe) {
                self.send(from, addr, Message::Gossip);
            }
            return;
        }
        self.learn_all(updates);
        if self.phase == Phase::Silent {
            return;
        }
        self.heard_from(from);
        if to != self.me {
            if to.id == self.me.id && to.epoch > self.me.epoch {
                self.be_expelled(Some(to.epoch));
            } else if !matches!(message, Message::NotMe) {
                self.send(from, addr, Message::NotMe);
            }
            return;
        }
        self.note_mark(from, mark);
        self.note_digest(from, addr, digest);
        self.on_message(from, addr, digest, message);
    }

    fn on_message(&mut self, from: Identity, addr: SocketAddr, digest: u64, message: Message) {
        match message {
            Message::Ping { number } => self.send(from, addr, Message::Ack { number }),
            Message::Ack { number } => {
                self.probe_acked(from, number);
                self.scout_acked(from, number);
                self.relay_acked(from, number);
                self.measurement_acked(from, number);
                self.detour_acked(from, number);
                self.check_acked(from, number);
                self.reach_out_answered(from, addr, digest, number);
            }
            Message::PingFor { number, target, addr: there } => {
                self.ping_for(from, addr, number, target, there);
            }
            Message::Nack { number } => self.probe_nacked(from, number),
            Message::Ask { round, target, addr: there, incarnation } => {
                self.asked((from, addr, round), target, there, incarnation);
            }
            Message::Opinion { round, target, view } => self.opinion(from, round, target, view),
            Message::Gossip => {}
            Message::NotMe => self.somebody_else_is_there(from, addr),
        }
    }

    /// Sends a datagram. What concerns its receiver rides in front, then the news.
    pub(super) fn send(&mut self, to: Identity, addr: SocketAddr, message: Message) {
        let first = self.word_to(to);
        self.send_with(first, to, addr, message);
    }

    pub(super) fn send_with(
        &mut self,
        first: Option<Update>,
        to: Identity,
        addr: SocketAddr,
        message: Message,
    ) {
        let mut updates: Vec<Update> = Vec::new();
        let mut room = self.config.datagram_bytes_max.saturating_sub(PACKET_BYTES_MAX);
        if self.is_broken(Mutation::UnboundedPiggyback) {
            room = usize::MAX;
        }
        if let Some(first) = first {
            room = room.saturating_sub(first.bytes_max());
            updates.push(first);
        }
        if !self.queue.is_empty() {
            let most = self.tellings_max();
            self.queue.take(&mut updates, room, most);
        }
        let packet = Packet { from: self.me, to, digest: self.digest(), mark: self.mark, message, updates };
        self.outputs.push_back(Output::Send(addr, packet));
    }

    /// What a node should know about itself before all else: that it is suspected, dead, gone or superseded.
    pub(super) fn word_to(&self, to: Identity) -> Option<Update> {
        let entry = self.table.get(to.id)?;
        let status = if entry.epoch > to.epoch {
            Status::Alive
        } else if entry.epoch < to.epoch || self.flaps.is_held(to.id) {
            return None;
        } else {
            match entry.state {
                State::Suspected if self.config.buddy => Status::Suspect,
                State::Dead if entry.unreliable => Status::Unreliable,
                State::Dead => Status::Dead,
                State::Left => Status::Left,
                State::Alive | State::ProbeFailed | State::Suspected => return None,
            }
        };
        let info = (status == Status::Alive).then(|| entry.info.clone());
        let by = self.suspicions.get(&to.id).map_or(self.me.id, Suspected::accuser);
        let by = match status {
            Status::Suspect => by,
            // Ours would be a voucher.
            Status::Alive => to.id,
            Status::Dead | Status::Unreliable | Status::Left => self.me.id,
        };
        Some(Update { node: entry.identity(), incarnation: entry.incarnation, status, by, info })
    }

    /// True if we know that this start of that node is over for good.
    fn is_over(&self, node: Identity) -> bool {
        self.table.get(node.id).is_some_and(|entry| {
            entry.epoch > node.epoch && !self.is_broken(Mutation::EpochIgnored)
                || entry.epoch == node.epoch
                    && entry.state == State::Left
                    && !self.is_broken(Mutation::LeftForgotten)
        })
    }

    /// Another node is where we looked for somebody: perhaps a later start of it.
    pub(super) fn somebody_else_is_there(&mut self, who: Identity, addr: SocketAddr) {
        self.join.found(addr, who);
        let known =
            self.table.get(who.id).is_some_and(|entry| entry.epoch == who.epoch && entry.state.is_present());
        if !known {
            self.compare_with(addr);
        }
    }

    fn note_mark(&mut self, from: Identity, mark: crate::message::Mark) {
        if mark > self.mark && mark > self.mark_told && !self.is_broken(Mutation::MarkIgnored) {
            self.mark_told = mark;
            self.event(Event::LogAhead(from.id, mark));
        }
    }
}
