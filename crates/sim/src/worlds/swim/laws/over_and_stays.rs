//! Of two nodes with one name the later start stays: whoever reads of a later start of itself, or that its own was expelled,
//! or that another goes by its name and epoch at another address, says so and falls silent.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("over_and_stays");

/// A live node has read that it is over; it may have said so.
pub(in super::super) fn check(node: Node, epoch: u32, says_so: bool) -> Verdict {
    holds(LAW, says_so, || format!("{node}@{epoch} has read that it is over, and goes on"))
}
