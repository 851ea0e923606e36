//! Who left has left: nobody who knew that takes the same start of that node for there again.

use swim::State;

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::books::Seen;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("left_came_back");

/// A node knew this of a start of another, and has it in that state now.
pub(in super::super) fn check((by, about): (Node, Node), knew: &Seen, state: State) -> Verdict {
    holds(LAW, knew.state != State::Left || state == State::Left, || {
        format!("{by} has {} of node {about} as {state:?}, which had left", knew.identity)
    })
}
