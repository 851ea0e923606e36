//! A node that is told how late its event loop was doubts itself more than before: what it did not hear in that time is no
//! evidence against others.

use std::time::Duration;

use swim::Config;

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("late_and_sure");

/// A node was told of this lag; its doubt was the first number before, and is the second now.
pub(in super::super) fn check(
    config: &Config,
    node: Node,
    lag: Duration,
    (before, now): (u32, u32),
) -> Verdict {
    let counts = lag >= config.probe_timeout / 2;
    let least = if counts { (before + 1).min(config.health_max) } else { before };
    holds(LAW, now >= least, || format!("{node} was late by {lag:?}, and its doubt is {now} after {before}"))
}
