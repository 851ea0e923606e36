//! **The promise:** nobody loses its lease because others have not settled. Who is dismissed was silent, failed its healthchecks
//! or never said what it runs, for as long as the rules say.

use model::Instant;
use muster::Rules;

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::Instance;
use crate::worlds::muster::scheduler::Stamps;

pub(super) const LAW: &str = "held_back_worker_is_not_lost";

/// An instance is dismissed for how it does; `stamps` are what truly came from it.
pub(in super::super) fn check(instance: Instance, now: Instant, stamps: &Stamps, rules: &Rules) -> Verdict {
    let is_older = |since: Instant| now.since(since) > rules.lose_after;
    let is_silent = is_older(stamps.heard + rules.heard_within);
    let is_mute = match (stamps.fetched, stamps.checked) {
        (None, _) => is_older(stamps.joined),
        (Some(fetched), None) => is_older(fetched),
        (Some(_), Some(checked)) => is_older(checked + rules.check_good_for()),
    };
    holds(LAW, is_silent || is_mute, || {
        format!("instance {instance} is dismissed at {now:?} though all is well with it: {stamps:?}")
    })
}
