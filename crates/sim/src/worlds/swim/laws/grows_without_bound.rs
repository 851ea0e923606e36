//! Nothing grows without bound: a node knows no more members than there ever were, and one input or deadline makes it
//! want no more than a few things for each of them.

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("grows_without_bound");

/// What a single turn may want done: so much in any case, and so much for each node there is.
const OUTPUTS_ALWAYS: usize = 64;
const OUTPUTS_FOR_EACH: usize = 8;

/// After a turn in which it wanted so many things a node knows so many members; there are so many nodes.
pub(in super::super) fn check(node: Node, outputs: usize, members: usize, nodes: usize) -> Verdict {
    holds(LAW, members <= nodes, || format!("{node} knows {members} members of {nodes} nodes"))?;
    holds(LAW, outputs <= OUTPUTS_ALWAYS + OUTPUTS_FOR_EACH * nodes, || {
        format!("{node} wants {outputs} things done in one turn, with {nodes} nodes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug that breaks this law makes a machine want too much, not know too many; so that half is tried by hand.
    #[test]
    fn too_many_members_and_too_many_wishes_are_noticed() {
        assert_eq!(check(1, 64 + 80, 10, 10), Ok(()));
        let many_members = check(1, 0, 11, 10).expect_err("one too many");
        assert_eq!(many_members.what, "1 knows 11 members of 10 nodes");
        let many_outputs = check(1, 64 + 81, 10, 10).expect_err("one too many");
        assert_eq!(many_outputs.what, "1 wants 145 things done in one turn, with 10 nodes");
    }
}
