//! Views converge: within a time that follows from the configuration after all faults ended, every live node has exactly
//! the live ones as alive, each in its present start.

use swim::{Identity, State};

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("views_differ");

/// What a live node has of another at the end, and the start of it that runs, if any does.
pub(in super::super) fn check(
    (by, about): (Node, Node),
    has: Option<(Identity, State)>,
    live_epoch: Option<u32>,
) -> Verdict {
    let agrees = match (has, live_epoch) {
        (Some((identity, state)), Some(epoch)) => identity.epoch.0 == epoch && state == State::Alive,
        (None, Some(_)) => false,
        (Some((_, state)), None) => !state.is_present(),
        (None, None) => true,
    };
    holds(LAW, agrees, || {
        let has = has.map_or("nothing".to_owned(), |(identity, state)| format!("{identity} as {state:?}"));
        let is = live_epoch.map_or("is not there".to_owned(), |epoch| format!("runs as {about}@{epoch}"));
        format!("{by} has {has}, and {about} {is}")
    })
}
