//! **The promise:** the end of an exclusive job is told only when it has ended for certain: a result or a hand-back is
//! not accepted as long as anything of that claim runs, also not a child that its leader left behind.

use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "reported_while_running";

/// A report was accepted; `is_live` says whether anything of that claim runs.
pub(in super::super) fn check(hold: Hold, key: &WorkerKey, is_live: bool) -> Verdict {
    holds(LAW, !is_live, || format!("{key} reported {} which still runs", shown(hold)))
}
