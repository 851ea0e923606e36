//! **The promise:** a worker that was healthy once is never held back by the set of workers again, for as long as its scheduler
//! lives.

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::Instance;

pub(super) const LAW: &str = "latch_is_permanent";

/// The health of an instance has changed.
pub(in super::super) fn check(instance: Instance, was_healthy: bool, is_held_back: bool) -> Verdict {
    holds(LAW, !(was_healthy && is_held_back), || format!("instance {instance} was healthy and is held back"))
}
