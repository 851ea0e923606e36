//! Probing for others: ping the node in question, pass its answer on, or say in time that there is none.

use std::net::SocketAddr;

use model::Instant;

use super::Node;
use crate::identity::Identity;
use crate::message::Message;
use crate::timers::Timer;

/// Most pings for others that are under way; beyond, the question is not taken.
const RELAYS_MAX: usize = 256;

/// A ping for somebody else.
#[derive(Debug)]
pub(super) struct Relay {
    origin: Identity,
    origin_addr: SocketAddr,
    origin_number: u32,
    target: Identity,
    began: Instant,
    nacked: bool,
}

impl Node {
    pub(super) fn ping_for(
        &mut self,
        origin: Identity,
        origin_addr: SocketAddr,
        origin_number: u32,
        target: Identity,
        addr: SocketAddr,
    ) {
        if self.relays.len() >= RELAYS_MAX {
            self.send(origin, origin_addr, Message::Nack { number: origin_number });
            return;
        }
        let number = self.next_number();
        let relay = Relay { origin, origin_addr, origin_number, target, began: self.now, nacked: false };
        self.relays.insert(number, relay);
        // Four fifths of what is left to the origin, whose period began a probe timeout ago.
        let left = self.config.period.saturating_sub(self.config.probe_timeout);
        self.timers.set(self.now + left * 4 / 5, Timer::Nack { number });
        self.send(target, addr, Message::Ping { number });
    }

    pub(super) fn relay_acked(&mut self, from: Identity, number: u32) {
        if self.relays.get(&number).is_none_or(|relay| relay.target != from) {
            return;
        }
        if let Some(relay) = self.relays.remove(&number) {
            self.send(relay.origin, relay.origin_addr, Message::Ack { number: relay.origin_number });
        }
    }

    /// First says that there is no answer; later, gives up waiting for one.
    pub(super) fn nack(&mut self, number: u32) {
        let Some(relay) = self.relays.get_mut(&number) else { return };
        if relay.nacked {
            self.relays.remove(&number);
            return;
        }
        relay.nacked = true;
        let (origin, addr, asked) = (relay.origin, relay.origin_addr, relay.origin_number);
        // A late answer is still passed on: the origin may have given itself more time than we know.
        self.timers.set((relay.began + self.config.period * 2).max(self.now), Timer::Nack { number });
        self.send(origin, addr, Message::Nack { number: asked });
    }
}
