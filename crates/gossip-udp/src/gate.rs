//! What may come in: the way of a datagram from the socket to the machine, cheapest questions first.

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
        Gate { me, sealer, filter, senders, sources, datagram_bytes_max }
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
        if self.sources.is_shut(now, addr) && !self.senders.is_proven(addr) {
            return Err(Dropped::RateLimited);
        }
        let read = self.read(addr, bytes);
        if read.is_err() {
            self.sources.refused(now, addr);
        }
        read
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
