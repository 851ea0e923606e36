//! What may come in: the way of a datagram from the socket to the machine, cheapest questions first.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use model::Instant;
use swim::{Identity, Packet};

use crate::codec::packet;
use crate::filter::Filter;
use crate::replay::Senders;
use crate::seal::Sealer;
use crate::sources::Sources;
use crate::stats::Dropped;

/// Lets in what is well formed, sealed with our key, of our cluster, and new.
#[derive(Debug)]
pub(crate) struct Gate {
    me: Identity,
    sealer: Arc<Sealer>,
    filter: Filter,
    senders: Senders,
    sources: Sources,
    /// Where members are to be found, says somebody with our key. At the most as many as there may be members; one more, and it
    /// begins anew with that one.
    announced: HashSet<SocketAddr>,
    members_max: usize,
    datagram_bytes_max: usize,
}

impl Gate {
    pub(crate) fn new(
        me: Identity,
        sealer: Arc<Sealer>,
        filter: Filter,
        members_max: usize,
        datagram_bytes_max: usize,
    ) -> Self {
        let (senders, sources) = (Senders::new(members_max), Sources::new());
        let announced = HashSet::new();
        Gate { me, sealer, filter, senders, sources, announced, members_max, datagram_bytes_max }
    }

    /// A member is to be found there. What comes from there is read, whatever else seems to come from there: a newcomer is
    /// announced over a stream, before its first datagram.
    pub(crate) fn announce(&mut self, addr: SocketAddr) {
        if self.announced.len() >= self.members_max {
            self.announced.clear();
        }
        self.announced.insert(addr);
    }

    /// The packet in this datagram, whose bytes are overwritten.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        addr: SocketAddr,
        bytes: &mut [u8],
    ) -> Result<Packet, Dropped> {
        if self.filter.cuts_from(addr) {
            return Err(Dropped::Filtered);
        }
        // Whoever forges a member's address must not be able to shut that member out.
        if self.sources.is_shut(now, addr) && !self.is_member(addr) {
            return Err(Dropped::RateLimited);
        }
        let read = self.read(addr, bytes);
        if read.is_err() {
            self.sources.refused(now, addr);
        }
        read
    }

    fn is_member(&self, addr: SocketAddr) -> bool {
        self.senders.is_proven(addr) || self.announced.contains(&addr)
    }

    fn read(&mut self, addr: SocketAddr, bytes: &mut [u8]) -> Result<Packet, Dropped> {
        if bytes.len() > self.datagram_bytes_max {
            return Err(Dropped::Oversized);
        }
        let plain = self.sealer.open_datagram(bytes).map_err(Dropped::Refused)?;
        let (sequence, mut packet) = packet::decode(plain).map_err(Dropped::Malformed)?;
        if packet.from == self.me || !self.senders.admit(packet.from, sequence, addr) {
            return Err(Dropped::Replayed);
        }
        // It may have been recorded before we started, or be diverted from another node: then its news is not for us. That it
        // missed its target is still to be said.
        if packet.to != self.me {
            packet.updates.clear();
        }
        Ok(packet)
    }
}

#[cfg(test)]
mod tests;
