//! **The promise:** a scheduler leaves its initial wait only when it knows of everybody who runs anything, and what that is.

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::{Instance, Life, Task};

pub(super) const LAW: &str = "no_exit_before_all_runners_known";

/// The scheduler of this life leaves its wait; somebody whose tasks it does not know runs one.
pub(in super::super) fn check(life: Life, stranger: Option<(Instance, Task)>) -> Verdict {
    holds(LAW, stranger.is_none(), || {
        let (instance, task) = stranger.unwrap_or_default();
        format!("scheduler {life} waits no longer while instance {instance}, unknown to it, runs task {task}")
    })
}
