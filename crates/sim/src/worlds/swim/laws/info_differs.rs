//! What a node tells of itself reaches all, and so does where it is: some time after all faults ended everybody has every live
//! node at its present address, with its present metadata. (Profile `classic` tells it only to those it introduces itself to.)

use swim::Info;

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("info_differs");

/// A live node has this of another, which tells that of itself.
pub(in super::super) fn check((by, about): (Node, Node), has: &Info, tells: &Info) -> Verdict {
    holds(LAW, has == tells, || format!("{by} has {about} as {has:?}, and it is {tells:?}"))
}
