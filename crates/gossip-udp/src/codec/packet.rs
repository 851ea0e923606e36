//! A datagram's inside.
//!
//! ```text
//! sequence varint · from identity · to identity · digest u64 · mark (epoch varint · index varint)
//!   · message (tag · fields) · updates (count varint · each)
//! ```

use swim::{Incarnation, Mark, Message, PACKET_BYTES_MAX, Packet, Update, View};

use super::update::{addr, identity, put_addr, put_identity, put_updates, updates};
use super::wire::{Reader, put_varint};
use super::{ENVELOPE_BYTES_MAX, Malformed};

/// Most updates in one datagram; no datagram of the usual size holds as many.
pub const UPDATES_MAX: usize = 1_024;

const PING: u8 = 1;
const ACK: u8 = 2;
const PING_FOR: u8 = 3;
const NACK: u8 = 4;
const ASK: u8 = 5;
const OPINION: u8 = 6;
const GOSSIP: u8 = 7;
const NOT_ME: u8 = 8;

/// Appends the packet. `sequence` counts what its sender has sent in this epoch.
///
/// # Panics
///
/// If the result is longer than the machine was promised when it filled the datagram.
pub fn encode(sequence: u64, packet: &Packet, out: &mut Vec<u8>) {
    let start = out.len();
    put_varint(out, sequence);
    put_identity(out, packet.from);
    put_identity(out, packet.to);
    out.extend_from_slice(&packet.digest.to_le_bytes());
    put_varint(out, packet.mark.epoch.into());
    put_varint(out, packet.mark.index);
    put_message(out, &packet.message);
    put_updates(out, &packet.updates);
    let promised = PACKET_BYTES_MAX + packet.updates.iter().map(Update::bytes_max).sum::<usize>();
    let length = ENVELOPE_BYTES_MAX + out.len() - start;
    assert!(length <= promised, "a datagram of {length} bytes where {promised} were promised");
}

/// Reads what [`encode`] wrote: the sequence number and the packet.
pub fn decode(bytes: &[u8]) -> Result<(u64, Packet), Malformed> {
    let mut reader = Reader::new(bytes);
    let sequence = reader.varint()?;
    let packet = Packet {
        from: identity(&mut reader)?,
        to: identity(&mut reader)?,
        digest: u64::from_le_bytes(reader.array()?),
        mark: Mark { epoch: reader.small()?, index: reader.varint()? },
        message: message(&mut reader)?,
        updates: updates(&mut reader, UPDATES_MAX)?,
    };
    reader.end()?;
    Ok((sequence, packet))
}

fn put_message(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::Ping { number } => put_numbered(out, PING, *number),
        Message::Ack { number } => put_numbered(out, ACK, *number),
        Message::PingFor { number, target, addr } => {
            put_numbered(out, PING_FOR, *number);
            put_identity(out, *target);
            put_addr(out, *addr);
        }
        Message::Nack { number } => put_numbered(out, NACK, *number),
        Message::Ask { round, target, addr, incarnation } => {
            put_numbered(out, ASK, *round);
            put_identity(out, *target);
            put_addr(out, *addr);
            put_varint(out, incarnation.0.into());
        }
        Message::Opinion { round, target, view } => {
            put_numbered(out, OPINION, *round);
            put_identity(out, *target);
            out.push(view_code(*view));
        }
        Message::Gossip => out.push(GOSSIP),
        Message::NotMe => out.push(NOT_ME),
    }
}

/// Numbers begin anywhere, so seven-bit groups would only make them longer.
fn put_numbered(out: &mut Vec<u8>, tag: u8, number: u32) {
    out.push(tag);
    out.extend_from_slice(&number.to_le_bytes());
}

fn message(reader: &mut Reader<'_>) -> Result<Message, Malformed> {
    Ok(match reader.byte()? {
        PING => Message::Ping { number: number(reader)? },
        ACK => Message::Ack { number: number(reader)? },
        PING_FOR => {
            Message::PingFor { number: number(reader)?, target: identity(reader)?, addr: addr(reader)? }
        }
        NACK => Message::Nack { number: number(reader)? },
        ASK => Message::Ask {
            round: number(reader)?,
            target: identity(reader)?,
            addr: addr(reader)?,
            incarnation: Incarnation(reader.small()?),
        },
        OPINION => {
            Message::Opinion { round: number(reader)?, target: identity(reader)?, view: view(reader)? }
        }
        GOSSIP => Message::Gossip,
        NOT_ME => Message::NotMe,
        tag => return Err(Malformed::Tag(tag)),
    })
}

fn number(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    reader.array().map(u32::from_le_bytes)
}

const fn view_code(view: View) -> u8 {
    match view {
        View::Good => 0,
        View::Bad => 1,
        View::Unable => 2,
    }
}

fn view(reader: &mut Reader<'_>) -> Result<View, Malformed> {
    match reader.byte()? {
        0 => Ok(View::Good),
        1 => Ok(View::Bad),
        2 => Ok(View::Unable),
        code => Err(Malformed::Tag(code)),
    }
}
