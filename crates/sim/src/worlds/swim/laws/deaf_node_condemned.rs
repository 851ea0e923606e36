//! Who hears nobody condemns nobody: it is more likely that it is cut off itself. (Plain SWIM, which asks for no second
//! opinions, does not know this rule.)
//!
//! Nobody is heard if nobody is for as long as observers take to be asked and to answer: in that time a node hears one of
//! them, or one who probes it, or the answer to its own probe. Neither its doubt in itself nor how few are left in its view
//! makes this longer. Both make it likelier that a node which is not cut off is silent for so long; but it loses nothing by
//! waiting with its verdict until somebody is heard, and a node which is cut off cannot know that it is not one of those.

use std::time::Duration;

use super::{Law, holds};
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("deaf_node_condemned");

/// Observers ping for two periods, wait half a period for the last answer, and have half a period for the way.
const PERIODS: u32 = 3;
/// Clocks may be a little slow.
const CLOCK_ERROR: f64 = 1.001;
/// Whoever knows one other only would have to hear the very node it judges.
const MEMBERS_MIN: usize = 3;

/// A node condemns another by its own judgement; it heard somebody last at that time, and has so many members in view.
pub(in super::super) fn check(
    now: Time,
    (by, about): (Node, Node),
    heard_at: Time,
    present: usize,
    period: Duration,
) -> Verdict {
    let silence = now.since(heard_at);
    let silence_max = (period * PERIODS).mul_f64(CLOCK_ERROR);
    holds(LAW, present < MEMBERS_MIN || silence < silence_max, || {
        format!("{by} condemns {about} and has heard nobody for {silence:?}, with {present} in its view")
    })
}
