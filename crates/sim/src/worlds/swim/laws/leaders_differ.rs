//! A node prefers as leader the lowest id among those it has as there; so some time after all faults ended all live
//! nodes prefer the same, the lowest live one.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("leaders_differ");

/// A node prefers this one; the lowest that is there, in its own view or in truth, is that one.
pub(in super::super) fn check(by: Node, prefers: Node, lowest: Node) -> Verdict {
    holds(LAW, prefers == lowest, || format!("{by} prefers {prefers} as leader, not {lowest}"))
}
