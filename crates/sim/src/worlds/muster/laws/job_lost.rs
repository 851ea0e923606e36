//! **The promise:** what a client still wants ends. When nothing goes wrong any more, it does so within a bound that follows from the
//! configuration.

use std::time::Duration;

use super::holds;
use crate::law::Verdict;
use crate::worlds::muster::books::Books;

pub(super) const LAW: &str = "job_lost";

/// The world has been calm for this long.
pub(in super::super) fn check(books: &Books, calm: Duration, bound: Duration) -> Verdict {
    holds(LAW, books.open == 0 || calm <= bound, || {
        let open = books.tasks.iter().enumerate().find(|(_, task)| !task.is_done);
        format!("{} tasks have not ended {bound:?} after the last fault; the first is {open:?}", books.open)
    })
}
