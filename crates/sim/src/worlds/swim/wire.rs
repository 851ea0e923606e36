//! How many bytes messages have on the wire, without writing them: varints, tags of one byte, and the seal.
//!
//! Counted is what a datagram or a frame carries, seal included; the headers of UDP, TCP and IP are not. A ping between
//! idle nodes has 64 bytes.

use swim::{Identity, Info, Mark, Message, Packet, Request, Response, Update};

/// Version, number of the key, nonce and authentication tag.
const SEAL: usize = 1 + 1 + 12 + 16;
/// The number that tells a datagram from a repeated one.
const SEQUENCE: usize = 4;
/// The length of a frame of a stream.
const FRAME: usize = 4;
const HASH: usize = 8;
const TAG: usize = 1;

/// A datagram.
pub fn packet_bytes(packet: &Packet) -> usize {
    let updates: usize = packet.updates.iter().map(update_bytes).sum();
    let envelope = SEAL + SEQUENCE + identity(packet.from) + identity(packet.to) + HASH + mark(packet.mark);
    envelope + message(&packet.message) + TAG + updates
}

/// A request with its frame.
pub fn request_bytes(request: &Request) -> usize {
    FRAME
        + SEAL
        + TAG
        + match request {
            Request::Ping { from, to } => identity(*from) + identity(*to),
            Request::Compare { from, buckets } => {
                update_bytes(from) + count(buckets.len()) + HASH * buckets.len()
            }
            Request::Push { from, entries } => identity(*from) + many(entries),
        }
}

/// A response with its frame.
pub fn response_bytes(response: &Response) -> usize {
    FRAME
        + SEAL
        + TAG
        + match response {
            Response::Pong(who) => identity(*who),
            Response::Differences { from, buckets, entries } => {
                let numbers: usize = buckets.iter().map(|bucket| varint(u64::from(*bucket))).sum();
                identity(*from) + count(buckets.len()) + numbers + many(entries)
            }
            Response::Done | Response::Busy => 0,
        }
}

/// An update, in a datagram or in a comparison.
pub fn update_bytes(update: &Update) -> usize {
    identity(update.node)
        + varint(u64::from(update.incarnation.0))
        + TAG
        + varint(u64::from(update.by.0))
        + TAG
        + update.info.as_deref().map_or(0, info)
}

fn message(message: &Message) -> usize {
    TAG + match message {
        // Numbers begin anywhere, so they rarely are small.
        Message::Ping { .. } | Message::Ack { .. } | Message::Nack { .. } => 4,
        Message::PingFor { target, addr, .. } => 4 + identity(*target) + address(addr.is_ipv4()),
        Message::Ask { target, addr, incarnation, .. } => {
            4 + identity(*target) + address(addr.is_ipv4()) + varint(u64::from(incarnation.0))
        }
        Message::Opinion { target, .. } => 4 + identity(*target) + TAG,
        Message::Gossip | Message::NotMe => 0,
    }
}

fn many(updates: &[Update]) -> usize {
    count(updates.len()) + updates.iter().map(update_bytes).sum::<usize>()
}

fn info(info: &Info) -> usize {
    address(info.addr.is_ipv4()) + count(info.meta.len()) + info.meta.len()
}

const fn address(is_ipv4: bool) -> usize {
    TAG + 2 + if is_ipv4 { 4 } else { 16 }
}

fn identity(identity: Identity) -> usize {
    varint(u64::from(identity.id.0)) + varint(u64::from(identity.epoch.0))
}

fn mark(mark: Mark) -> usize {
    varint(u64::from(mark.epoch)) + varint(mark.index)
}

fn count(count: usize) -> usize {
    varint(count as u64)
}

fn varint(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use swim::{Epoch, NodeId};

    use super::*;

    #[test]
    fn varints_grow_every_seven_bits() {
        let sizes = [0, 1, 127, 128, 16_383, 16_384, u64::MAX].map(varint);
        assert_eq!(sizes, [1, 1, 1, 2, 2, 3, 10]);
    }

    #[test]
    fn an_idle_ping_is_small() {
        let node = |id| Identity { id: NodeId(id), epoch: Epoch(3) };
        let packet = Packet {
            from: node(300),
            to: node(7_000),
            digest: 1,
            mark: Mark { epoch: 5, index: 1_000_000 },
            message: Message::Ping { number: 1 },
            updates: Vec::new(),
        };
        let bytes = packet_bytes(&packet);
        assert!((55..=65).contains(&bytes), "{bytes}");
    }
}
