//! Who hears nobody condemns nobody: it is more likely that it is cut off itself. (Plain SWIM, which asks for no second
//! opinions, does not know this rule.)

use std::time::Duration;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::swim::protocol::Node;

pub(super) const LAW: &str = "deaf_node_condemned";

/// A node with so many members in view is deaf after this many periods; later, if few of them answer.
const PERIODS: u32 = 4;
const MEMBERS_MIN: usize = 3;

/// A node condemns another by its own judgement; it heard somebody last at that time.
pub(in super::super) fn check(
    now: Time,
    (by, about): (Node, Node),
    heard_at: Time,
    (present, alive): (usize, usize),
    period: Duration,
) -> Verdict {
    let silence = now.since(heard_at);
    let deaf_after = period * PERIODS * (present / alive.max(1)).max(1) as u32;
    holds(LAW, present < MEMBERS_MIN || silence < deaf_after, || {
        format!(
            "{by} condemns {about} and has heard nobody for {silence:?}, with {alive} of {present} alive in its view"
        )
    })
}
