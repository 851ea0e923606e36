//! A start of a node that is over never comes back: whoever knows a later one never takes an earlier one for the
//! node again, and nobody ever knows one that has not begun.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("dead_epoch_came_back");

/// A node now knows this start of another; it knew that one before, and the true one is the last.
pub(in super::super) fn check((by, about): (Node, Node), knows: u32, knew: Option<u32>, is: u32) -> Verdict {
    holds(LAW, knew.is_none_or(|knew| knows >= knew), || {
        format!("{by} knows {about}@{knows}, and knew {about}@{} before", knew.unwrap_or_default())
    })?;
    holds(LAW, knows <= is, || format!("{by} knows {about}@{knows}, and there was only {about}@{is}"))
}
