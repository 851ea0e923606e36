//! The parts that several messages share: identities, addresses, rumours.
//!
//! ```text
//! identity   id varint · epoch varint
//! address    4 or 16 bytes · port u16
//! update     status | info · identity · incarnation varint · by varint [· address · meta length varint · meta]
//! ```
//!
//! The first byte of an update holds its status in the lower four bits and in the upper four whether information follows: 0
//! none, 1 with an IPv4 address, 2 with an IPv6 address. Flow label and scope of an IPv6 address mean something to one
//! machine only and do not travel.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use swim::{Epoch, Identity, Incarnation, Info, META_BYTES_MAX, NodeId, Status, Update};

use super::Malformed;
use super::wire::{Reader, put_count, put_varint};

/// Shortest spelling of an update.
const UPDATE_BYTES_MIN: usize = 5;

const WITHOUT_INFO: u8 = 0;
const V4: u8 = 1;
const V6: u8 = 2;

pub(super) fn put_identity(out: &mut Vec<u8>, identity: Identity) {
    put_varint(out, identity.id.0.into());
    put_varint(out, identity.epoch.0.into());
}

pub(super) fn identity(reader: &mut Reader<'_>) -> Result<Identity, Malformed> {
    Ok(Identity { id: NodeId(reader.small()?), epoch: Epoch(reader.small()?) })
}

/// An address with its family before it.
pub(super) fn put_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    out.push(family(addr));
    put_bare_addr(out, addr);
}

pub(super) fn addr(reader: &mut Reader<'_>) -> Result<SocketAddr, Malformed> {
    let family = reader.byte()?;
    bare_addr(reader, family)?.ok_or(Malformed::Tag(family))
}

pub(super) fn put_update(out: &mut Vec<u8>, update: &Update) {
    let info = update.info.as_ref().map_or(WITHOUT_INFO, |info| family(info.addr));
    out.push(status_code(update.status) | info << 4);
    put_identity(out, update.node);
    put_varint(out, update.incarnation.0.into());
    put_varint(out, update.by.0.into());
    if let Some(info) = &update.info {
        put_bare_addr(out, info.addr);
        put_count(out, info.meta.len());
        out.extend_from_slice(&info.meta);
    }
}

pub(super) fn update(reader: &mut Reader<'_>) -> Result<Update, Malformed> {
    let first = reader.byte()?;
    let status = status(first & 0x0f).ok_or(Malformed::Tag(first))?;
    let node = identity(reader)?;
    let incarnation = Incarnation(reader.small()?);
    let by = NodeId(reader.small()?);
    let info = match first >> 4 {
        WITHOUT_INFO => None,
        family => {
            let addr = bare_addr(reader, family)?.ok_or(Malformed::Tag(first))?;
            Some(Arc::new(Info { addr, meta: meta(reader)? }))
        }
    };
    Ok(Update { node, incarnation, status, by, info })
}

pub(super) fn put_updates(out: &mut Vec<u8>, updates: &[Update]) {
    put_count(out, updates.len());
    for update in updates {
        put_update(out, update);
    }
}

/// At most `most` updates.
pub(super) fn updates(reader: &mut Reader<'_>, most: usize) -> Result<Vec<Update>, Malformed> {
    let count = reader.count(UPDATE_BYTES_MIN, most)?;
    let mut updates = Vec::with_capacity(count);
    for _ in 0..count {
        updates.push(update(reader)?);
    }
    Ok(updates)
}

fn meta(reader: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    let length = reader.varint()?;
    let fitting = usize::try_from(length).ok().filter(|length| *length <= META_BYTES_MAX);
    Ok(Bytes::copy_from_slice(reader.bytes(fitting.ok_or(Malformed::Meta(length))?)?))
}

fn family(addr: SocketAddr) -> u8 {
    if addr.is_ipv4() { V4 } else { V6 }
}

fn put_bare_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    match addr.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&addr.port().to_le_bytes());
}

/// `None` if there is no such family.
fn bare_addr(reader: &mut Reader<'_>, family: u8) -> Result<Option<SocketAddr>, Malformed> {
    let ip = match family {
        V4 => IpAddr::from(reader.array::<4>()?),
        V6 => IpAddr::from(reader.array::<16>()?),
        _ => return Ok(None),
    };
    Ok(Some(SocketAddr::new(ip, u16::from_le_bytes(reader.array()?))))
}

const fn status_code(status: Status) -> u8 {
    match status {
        Status::Alive => 0,
        Status::Suspect => 1,
        Status::Dead => 2,
        Status::Unreliable => 3,
        Status::Left => 4,
    }
}

const fn status(code: u8) -> Option<Status> {
    Some(match code {
        0 => Status::Alive,
        1 => Status::Suspect,
        2 => Status::Dead,
        3 => Status::Unreliable,
        4 => Status::Left,
        _ => return None,
    })
}
