//! **The promise:** every start of a task has a higher fence than all its starts before, whichever scheduler made them and
//! wherever the wall clock was stepped in between (by less than a safe wait).

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::{Fence, Task};

pub(super) const LAW: &str = "fence_monotone";

/// A task is started with `fence`; the highest before was `before`.
pub(in super::super) fn check(task: Task, before: Fence, fence: Fence) -> Verdict {
    holds(LAW, fence > before, || format!("task {task} is started with fence {fence} after {before}"))
}
