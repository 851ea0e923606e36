//! What travels over a stream: one request, one response.
//!
//! ```text
//! request    1 · from identity · to identity
//!            2 · from update · buckets (count varint · u64 each)
//!            3 · from identity · entries
//! response   1 · identity
//!            2 · from identity · buckets (count varint · varint each, ascending) · entries
//!            3
//!            4
//! ```

use swim::{Request, Response};

use super::Malformed;
use super::update::{identity, put_identity, put_update, put_updates, update, updates};
use super::wire::{Reader, put_count, put_varint};

/// Most entries in one exchange.
pub const ENTRIES_MAX: usize = 65_536;
/// Most buckets of a view.
pub const BUCKETS_MAX: usize = 65_536;

const PING: u8 = 1;
const COMPARE: u8 = 2;
const PUSH: u8 = 3;

const PONG: u8 = 1;
const DIFFERENCES: u8 = 2;
const DONE: u8 = 3;
const BUSY: u8 = 4;

/// Appends the request.
pub fn encode_request(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Ping { from, to } => {
            out.push(PING);
            put_identity(out, *from);
            put_identity(out, *to);
        }
        Request::Compare { from, buckets } => {
            out.push(COMPARE);
            put_update(out, from);
            put_count(out, buckets.len());
            out.extend(buckets.iter().flat_map(|hash| hash.to_le_bytes()));
        }
        Request::Push { from, entries } => {
            out.push(PUSH);
            put_identity(out, *from);
            put_updates(out, entries);
        }
    }
}

/// Reads what [`encode_request`] wrote.
pub fn decode_request(bytes: &[u8]) -> Result<Request, Malformed> {
    let mut reader = Reader::new(bytes);
    let request = match reader.byte()? {
        PING => Request::Ping { from: identity(&mut reader)?, to: identity(&mut reader)? },
        COMPARE => Request::Compare { from: update(&mut reader)?, buckets: hashes(&mut reader)? },
        PUSH => Request::Push { from: identity(&mut reader)?, entries: updates(&mut reader, ENTRIES_MAX)? },
        tag => return Err(Malformed::Tag(tag)),
    };
    reader.end()?;
    Ok(request)
}

/// Appends the response.
pub fn encode_response(response: &Response, out: &mut Vec<u8>) {
    match response {
        Response::Pong(identity) => {
            out.push(PONG);
            put_identity(out, *identity);
        }
        Response::Differences { from, buckets, entries } => {
            out.push(DIFFERENCES);
            put_identity(out, *from);
            put_count(out, buckets.len());
            for bucket in buckets {
                put_varint(out, (*bucket).into());
            }
            put_updates(out, entries);
        }
        Response::Done => out.push(DONE),
        Response::Busy => out.push(BUSY),
    }
}

/// Reads what [`encode_response`] wrote.
pub fn decode_response(bytes: &[u8]) -> Result<Response, Malformed> {
    let mut reader = Reader::new(bytes);
    let response = match reader.byte()? {
        PONG => Response::Pong(identity(&mut reader)?),
        DIFFERENCES => Response::Differences {
            from: identity(&mut reader)?,
            buckets: ascending(&mut reader)?,
            entries: updates(&mut reader, ENTRIES_MAX)?,
        },
        DONE => Response::Done,
        BUSY => Response::Busy,
        tag => return Err(Malformed::Tag(tag)),
    };
    reader.end()?;
    Ok(response)
}

fn hashes(reader: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let count = reader.count(size_of::<u64>(), BUCKETS_MAX)?;
    if !count.is_power_of_two() {
        return Err(Malformed::Buckets);
    }
    (0..count).map(|_| reader.array().map(u64::from_le_bytes)).collect()
}

fn ascending(reader: &mut Reader<'_>) -> Result<Vec<u32>, Malformed> {
    let count = reader.count(1, BUCKETS_MAX)?;
    let buckets = (0..count).map(|_| reader.small()).collect::<Result<Vec<_>, _>>()?;
    if !buckets.is_sorted_by(|one, next| one < next) {
        return Err(Malformed::Buckets);
    }
    Ok(buckets)
}
