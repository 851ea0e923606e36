//! A node that was stopped for long condemns nobody for a silence it slept through: on waking its timers begin anew.

use std::time::Duration;

use swim::Reason;

use super::{Law, holds};
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("woken_node_condemned");

/// A stop is long if it is longer than this many periods.
const PERIODS: u32 = 4;

/// A node condemns another; it was last stopped from the first time to the second.
pub(in super::super) fn check(
    now: Time,
    (by, about): (Node, Node),
    reason: Reason,
    stopped: Option<(Time, Time)>,
    period: Duration,
) -> Verdict {
    let Some((since, until)) = stopped else { return Ok(()) };
    let woke_just_now = until.since(since) > period * PERIODS && now >= until && now.since(until) < period;
    let slept_through = matches!(reason, Reason::NoAnswer | Reason::NotRefuted);
    holds(LAW, !(woke_just_now && slept_through), || {
        format!("{by} condemns {about} for {reason:?}, {:?} after it woke", now.since(until))
    })
}
