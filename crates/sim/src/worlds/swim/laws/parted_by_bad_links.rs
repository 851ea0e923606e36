//! Faults that last: links that are dead in one direction for ever, and a node that hears nothing, or is not heard, for ever.
//! Whoever is connected well enough must be seen by all others who are, within the same time as after faults that ended, and for
//! most of the time from then on.

use swim::{Identity, State};

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("parted_by_bad_links");

/// A live, well connected node has this of another, whose present start is that one. A failed probe or a suspicion may be
/// under way at any time: the link stays bad.
pub(in super::super) fn check(
    (by, about): (Node, Node),
    has: Option<(Identity, State)>,
    live_epoch: u32,
) -> Verdict {
    let sees = has.is_some_and(|(identity, state)| identity.epoch.0 == live_epoch && state.is_present());
    holds(LAW, sees, || format!("{by} has {has:?} of {about}, which runs as {about}@{live_epoch}"))
}
