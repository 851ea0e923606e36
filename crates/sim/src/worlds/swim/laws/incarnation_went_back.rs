//! The incarnation that a node knows of another start of a node never goes back, whatever it was learned from: an old
//! rumour would pass for news otherwise.

use swim::Incarnation;

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("incarnation_went_back");

/// A node knew the first incarnation of a start of another, has read evidence of up to the second, and now knows
/// the third.
pub(in super::super) fn check(
    (by, about): (Node, Node),
    knew: Incarnation,
    read: Option<Incarnation>,
    knows: Incarnation,
) -> Verdict {
    holds(LAW, knows >= knew, || {
        format!("{by} knows {about} at incarnation {}, and knew {} before", knows.0, knew.0)
    })?;
    holds(LAW, read.is_none_or(|read| knows >= read), || {
        let read = read.unwrap_or_default().0;
        format!("{by} knows {about} at incarnation {}, and has read of {read}", knows.0)
    })
}
