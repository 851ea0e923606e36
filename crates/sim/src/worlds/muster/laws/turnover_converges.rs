//! **The promise:** a good worker becomes healthy in bounded time, though a tenth of all others start and die in a loop.
//!
//! The bound: so many newcomers as the terms allow may delay the others. Then nobody is added until whoever is present and died
//! without a word is lost, within a lease; those who queued meanwhile are added together, among them again some that died,
//! which takes another lease. A healthcheck that was lost is sent again when it is too old, and updates are made at intervals.
//! If nobody comes for as long, there is nothing to wait for either.

use std::time::Duration;

use lease::clock_rule::RateError;
use muster::Rules;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::muster::event::Instance;

pub(super) const LAW: &str = "turnover_converges";

/// How long it may take when no more newcomers are added, or none come.
pub(in super::super) fn bound(rules: &Rules, rate_error: RateError) -> Duration {
    rate_error.longer(rules.lease) * 2 + rules.check_good_for() + rules.heartbeat + rules.update_every * 4
}

/// A good worker that is not healthy yet.
pub(in super::super) struct Waits<'a> {
    /// Who.
    pub(in super::super) instance: Instance,
    /// Since when it is known to a scheduler that does not wait any more.
    pub(in super::super) since: Time,
    /// When newcomers came, in order.
    pub(in super::super) joins: &'a [Time],
    /// How many of them may be added in a row.
    pub(in super::super) additions_max: usize,
}

/// It is `now`; `why` says what holds it back.
pub(in super::super) fn check(
    waits: &Waits<'_>,
    now: Time,
    bound: Duration,
    why: impl FnOnce() -> String,
) -> Verdict {
    let Waits { instance, since, joins, additions_max } = waits;
    let came_by = |time: Time| joins.partition_point(|join| *join <= time);
    let earlier = now - bound;
    let was_closed = came_by(earlier).saturating_sub(came_by(*since)) >= *additions_max;
    let is_alone = came_by(now) == came_by(earlier.max(*since));
    let is_late = now.since(*since) > bound && (was_closed || is_alone);
    holds(LAW, !is_late, || {
        format!(
            "instance {instance} is not healthy after {:?}; the bound is {bound:?}: {}",
            now.since(*since),
            why()
        )
    })
}
