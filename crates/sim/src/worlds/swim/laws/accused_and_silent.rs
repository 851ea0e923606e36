//! A live node always contradicts: whoever reads that it is suspected or dead, at its present incarnation or a later one,
//! has a higher incarnation when it has read it; and some time after all faults ended nobody holds an accusation
//! against a live node that this one has not contradicted.

use swim::{Incarnation, State};

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::books::Seen;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("accused_and_silent");

/// A node has read an accusation at this incarnation, and now has that one.
pub(in super::super) fn check_read(node: Node, accused: Incarnation, now_has: Incarnation) -> Verdict {
    holds(LAW, now_has > accused, || {
        format!("{node} has read that it is accused at incarnation {}, and is at {}", accused.0, now_has.0)
    })
}

/// Long after the faults, this is what one live node knows about another, and the incarnation that one is at.
pub(in super::super) fn check_calm(by: Node, about: Node, seen: &Seen, is_at: Incarnation) -> Verdict {
    let is_accused = matches!(seen.state, State::Suspected | State::Dead);
    holds(LAW, !is_accused || seen.incarnation < is_at, || {
        format!(
            "{by} has {about} as {:?} at incarnation {}, which it never contradicted",
            seen.state, is_at.0
        )
    })
}
