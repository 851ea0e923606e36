//! Whoever reads that another is further in the control log than itself, and further than any of whom it told, tells the
//! layers above; and it tells of no place in the log where nobody is.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("ahead_and_untold");

/// How far somebody has come: epoch and index.
pub(in super::super) type Place = (u32, u64);

/// A node has read this place; itself it is at `own`, and the highest of which it told is `told`. Nobody is beyond `most`.
pub(in super::super) fn check(node: Node, read: Place, own: Place, told: Place, most: Place) -> Verdict {
    holds(LAW, read <= own.max(told), || {
        format!("{node} has read that another is at {read:?}; it is at {own:?}, and told of {told:?}")
    })?;
    holds(LAW, told <= most, || {
        format!("{node} told that another is at {told:?}, and nobody is beyond {most:?}")
    })
}
