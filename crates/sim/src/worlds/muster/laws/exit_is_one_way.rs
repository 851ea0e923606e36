//! **The promise:** a scheduler that has left its initial wait never waits again, whoever joins and whatever the clock does.

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::event::Life;

pub(super) const LAW: &str = "exit_is_one_way";

/// Something happened to the scheduler of this life.
pub(in super::super) fn check(life: Life, has_left: bool, is_waiting: bool) -> Verdict {
    holds(LAW, !(has_left && is_waiting), || format!("scheduler {life} waits again"))
}
