//! What others say.

use std::net::SocketAddr;

use model::Instant;

use super::machine::{Classic, Favour, Peer};
use crate::identity::{Identity, Incarnation, NodeId};
use crate::io::{Event, Output, State, Ticket};
use crate::message::{Message, Packet, Request, Response, Status, Update};

/// Most questions that we ask for others at the same time; further ones are answered by a nack at once.
const FAVOURS_MAX: usize = 1_024;

impl Classic {
    pub(super) fn datagram(&mut self, now: Instant, addr: SocketAddr, packet: Packet) {
        let Packet { from, to, mark, message, updates, .. } = packet;
        if from.id == self.me.id {
            if from.epoch > self.me.epoch {
                self.end();
            }
            return;
        }
        let known = self.peers.get(&from.id).map(|peer| peer.identity.epoch);
        if known.is_some_and(|epoch| epoch > from.epoch) || to.id != self.me.id {
            return;
        }
        if to != self.me {
            self.send(from, addr, Message::NotMe, Vec::new());
            return;
        }
        if self.peers.get(&from.id).is_some_and(|peer| peer.identity == from && peer.state == State::Left) {
            return;
        }
        if known.is_some_and(|epoch| epoch == from.epoch) {
            self.heard(now, from);
        } else {
            // Somebody new, or a new start of somebody: over a stream it tells where it is.
            self.strangers.push_back(addr);
            self.introduce();
        }
        if mark > self.best_mark && mark > self.mark {
            self.best_mark = mark;
            self.event(Event::LogAhead(from.id, mark));
        }
        self.message(now, addr, from, message);
        for update in updates {
            if update.status == Status::Left && update.node == from {
                self.gone(now, from);
            }
        }
    }

    /// It speaks. Who was dead is alive again; who is suspected has to wait for the verdict.
    fn heard(&mut self, now: Instant, from: Identity) {
        if self.peers.get(&from.id).is_some_and(|peer| peer.state == State::Dead) {
            self.set_state(now, from.id, State::Alive);
            self.has_returned = true;
            self.event(Event::Refuted(from, Incarnation::default()));
            self.check_fence();
        }
    }

    fn message(&mut self, now: Instant, addr: SocketAddr, from: Identity, message: Message) {
        match message {
            Message::Ping { number } => self.send(from, addr, Message::Ack { number }, Vec::new()),
            Message::Ack { number } => self.ack(now, from, number),
            Message::PingFor { number, target, addr: target_addr } => {
                if self.favours.len() >= FAVOURS_MAX {
                    self.send(from, addr, Message::Nack { number }, Vec::new());
                    return;
                }
                let until = now + self.config.classic.helper_timeout;
                let ours = self.next_number();
                self.favours.insert(ours, Favour { number, asker: from, addr, until });
                self.send(target, target_addr, Message::Ping { number: ours }, Vec::new());
            }
            Message::Nack { number } => self.nack(now, number),
            Message::Gossip | Message::NotMe | Message::Ask { .. } | Message::Opinion { .. } => {}
        }
    }

    fn ack(&mut self, now: Instant, from: Identity, number: u32) {
        if let Some(favour) = self.favours.remove(&number) {
            self.send(favour.asker, favour.addr, Message::Ack { number: favour.number }, Vec::new());
        } else if self.direct.get(&number).is_some_and(|probe| probe.target == from.id) {
            self.direct.remove(&number);
            self.set_state(now, from.id, State::Alive);
        } else if let Some(target) = self.target_of(number) {
            // A helper had an answer.
            self.indirect.remove(&target);
            self.set_state(now, target, State::Alive);
        }
    }

    fn nack(&mut self, now: Instant, number: u32) {
        let Some(target) = self.target_of(number) else { return };
        let Some(indirect) = self.indirect.get_mut(&target) else { return };
        indirect.waiting = indirect.waiting.saturating_sub(1);
        if indirect.waiting == 0 {
            self.indirect.remove(&target);
            self.suspect(now, target);
            self.check_fence();
        }
    }

    fn target_of(&self, number: u32) -> Option<NodeId> {
        self.indirect.iter().find(|(_, indirect)| indirect.number == number).map(|(target, _)| *target)
    }

    pub(super) fn request(&mut self, now: Instant, ticket: Ticket, request: Request) {
        let response = match request {
            Request::Ping { .. } => Response::Pong(self.me),
            Request::Compare { from, buckets } => {
                self.learn(now, from);
                let is_equal = buckets == [self.hash_of_members()];
                let present = self.peers.values().filter(|peer| peer.state.is_present() && !is_equal);
                let entries = present.map(Peer::as_update).chain([self.ourselves(Status::Alive)]).collect();
                Response::Differences { from: self.me, buckets: vec![0], entries }
            }
            Request::Push { .. } => Response::Done,
        };
        self.outputs.push_back(Output::Respond(ticket, response));
    }

    pub(super) fn response(&mut self, now: Instant, ticket: Ticket, response: Option<Response>) {
        if self.introductions.remove(&ticket.0).is_none() {
            return;
        }
        if let Some(Response::Differences { from, entries, .. }) = response {
            for entry in entries {
                // Those we did not know do not know us either, except for the one who answered.
                let is_new = !self.peers.contains_key(&entry.node.id) && entry.node.id != self.me.id;
                if is_new
                    && entry.node != from
                    && let Some(info) = &entry.info
                {
                    self.strangers.push_back(info.addr);
                }
                self.learn(now, entry);
            }
        }
        self.introduce();
    }

    /// Somebody is there, or somebody's new start.
    fn learn(&mut self, now: Instant, update: Update) {
        let Update { node, status: Status::Alive, info: Some(info), incarnation, .. } = update else {
            return;
        };
        if node.id == self.me.id {
            if node.epoch > self.me.epoch {
                self.end();
            }
            return;
        }
        let is_full = self.peers.len() + 1 >= self.config.members_max;
        match self.peers.get_mut(&node.id) {
            Some(peer) if peer.identity.epoch > node.epoch => {}
            Some(peer) if peer.identity == node => peer.info = info,
            None if is_full => self.event(Event::Full(node)),
            _ => {
                let peer =
                    Peer { identity: node, incarnation, info, state: State::Alive, state_changed_at: now };
                self.peers.insert(node.id, peer);
                self.direct.retain(|_, probe| probe.target != node.id);
                self.indirect.remove(&node.id);
                self.event(Event::Joined(node));
                self.check_fence();
            }
        }
    }

    /// It has left: nobody waits for it any more.
    pub(super) fn gone(&mut self, now: Instant, identity: Identity) {
        if identity == self.me {
            self.end();
        } else if self.peers.get(&identity.id).is_some_and(|peer| peer.identity == identity) {
            if self.peers[&identity.id].state == State::Left {
                return;
            }
            // Remembered for a while: others who have not heard of it would bring it back.
            self.set_state(now, identity.id, State::Left);
            self.indirect.remove(&identity.id);
            self.direct.retain(|_, probe| probe.target != identity.id);
            self.event(Event::Left(identity));
            self.check_fence();
        }
    }

    fn end(&mut self) {
        self.event(Event::Expelled);
        self.has_left = true;
    }
}

impl Peer {
    fn as_update(&self) -> Update {
        Update {
            node: self.identity,
            incarnation: self.incarnation,
            status: Status::Alive,
            by: self.identity.id,
            info: Some(self.info.clone()),
        }
    }
}
