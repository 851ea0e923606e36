//! **The promise:** a claim is started at most once. An assignment that was delayed, repeated, or meant for an earlier
//! stream, key or life of the server is never started; whoever runs a job twice does so under two fences.

use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::{Books, shown};

pub(super) const LAW: &str = "started_twice_under_one_fence";

/// A handler starts.
pub(in super::super) fn check(books: &mut Books, hold: Hold, key: &WorkerKey) -> Verdict {
    let is_first = books.started(hold);
    holds(LAW, is_first, || format!("{key} starts {}, which was started before", shown(hold)))
}
