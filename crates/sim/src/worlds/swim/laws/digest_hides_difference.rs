//! Equal digests mean equal views: otherwise two nodes that differ would never compare, and who missed a verdict would
//! have to find out alone.

use swim::{Identity, Incarnation};

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("digest_hides_difference");

/// Those who are there in a node's view.
pub(in super::super) type View = Vec<(Identity, Incarnation)>;

/// Two nodes with their digests and views.
pub(in super::super) fn check(one: (Node, u64, &View), other: (Node, u64, &View)) -> Verdict {
    holds(LAW, one.1 != other.1 || one.2 == other.2, || {
        format!(
            "{} and {} have the same digest, and {} and {} members",
            one.0,
            other.0,
            one.2.len(),
            other.2.len()
        )
    })
}
