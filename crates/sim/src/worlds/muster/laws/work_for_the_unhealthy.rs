//! **The promise:** work is given only to workers that do well: heard of lately, and with a healthcheck that came back and was *sent*
//! lately. One that takes long to come back proves only how the worker was when it was sent.

use model::Instant;
use muster::Rules;

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::Instance;
use crate::worlds::muster::scheduler::Stamps;

pub(super) const LAW: &str = "work_for_the_unhealthy";

/// An instance is given work; `stamps` are what truly came from it. Everybody is looked at once per update.
pub(in super::super) fn check(instance: Instance, now: Instant, stamps: &Stamps, rules: &Rules) -> Verdict {
    let is_recent = |since: Instant, age| now.since(since) <= age + rules.update_every;
    let was_heard = is_recent(stamps.heard, rules.heard_within);
    let was_checked = stamps.checked.is_some_and(|checked| is_recent(checked, rules.check_good_for()));
    holds(LAW, was_heard && was_checked, || {
        format!("instance {instance} is given work at {now:?}: {stamps:?}")
    })
}
