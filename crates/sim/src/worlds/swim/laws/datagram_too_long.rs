//! No datagram is longer than the configuration allows: longer ones are cut to pieces on the way, and one lost piece
//! loses all.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("datagram_too_long");

/// A node sends a datagram of so many bytes.
pub(in super::super) fn check(from: Node, to: Node, bytes: usize, bytes_max: usize) -> Verdict {
    holds(LAW, bytes <= bytes_max, || format!("{from} sends {to} {bytes} bytes, more than {bytes_max}"))
}
