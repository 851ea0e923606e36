//! **The promise:** a task that may be running anywhere is never started beside itself. By true time, nobody runs it when somebody
//! starts it.

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::{Fence, Instance, Task};

pub(super) const LAW: &str = "never_running_twice";

/// A task is started here, while it runs there, if it does.
pub(in super::super) fn check(
    task: Task,
    here: (Instance, Fence),
    there: Option<(Instance, Fence)>,
) -> Verdict {
    holds(LAW, there.is_none(), || {
        let (other, old) = there.unwrap_or_default();
        format!(
            "task {task} starts on instance {} with fence {} while it runs on instance {other} with fence {old}",
            here.0, here.1
        )
    })
}
