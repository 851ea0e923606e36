//! No verdict after a refutation: nobody is condemned at an incarnation below one that the judge already knew, nor
//! because a suspicion was not contradicted that began before it was.

use std::time::Duration;

use swim::{Incarnation, Reason};

use super::{Law, holds};
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::swim::books::Seen;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("condemned_after_refutation");

/// A node condemns another at this incarnation; before its turn it knew this.
pub(in super::super) fn check(
    now: Time,
    (by, about): (Node, Node),
    incarnation: Incarnation,
    reason: Reason,
    seen: &Seen,
    suspicion_min: Duration,
) -> Verdict {
    holds(LAW, incarnation >= seen.incarnation, || {
        let (old, known) = (incarnation.0, seen.incarnation.0);
        format!("{by} condemns {about} at incarnation {old}, and knew {known} before")
    })?;
    let known_for = now.since(seen.raised_at);
    let is_too_early =
        reason == Reason::NotRefuted && seen.incarnation == incarnation && known_for < suspicion_min;
    holds(LAW, !is_too_early, || {
        format!(
            "{by} condemns {about} because nobody contradicted, {known_for:?} after incarnation {} did",
            incarnation.0
        )
    })
}
