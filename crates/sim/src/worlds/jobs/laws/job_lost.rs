//! **The promise:** a job that was acknowledged ends: it is completed, buried or cancelled, and does not wait for ever
//! for somebody who is gone. When nothing goes wrong any more it ends within a bound that follows from the
//! configuration.

use std::time::Duration;

use model::State;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::jobs::books::{Books, number};
use crate::worlds::jobs::database::Database;

pub(super) const LAW: &str = "job_lost";

/// The world has been calm for this long.
pub(in super::super) fn check_in_time(books: &Books, calm: Duration, bound: Duration) -> Verdict {
    holds(LAW, books.open() == 0 || calm <= bound, || {
        let open = books.jobs().find(|(_, job)| job.state.is_some_and(|state| !state.is_terminal()));
        let (id, job) = open.expect("one is open");
        format!(
            "{} jobs have not ended {bound:?} after the last fault; job {} is {job:?}",
            books.open(),
            number(id)
        )
    })
}

/// All jobs have ended, by our books; the store must agree. What it does not have any more must have ended before.
pub(in super::super) fn check_store(books: &Books, database: &Database, now: Time) -> Verdict {
    books.jobs().try_for_each(|(id, job)| {
        let row = database.look_at(now, id);
        let has_ended =
            row.is_some_and(|row| row.state.is_terminal()) || job.state.is_some_and(State::is_terminal);
        holds(LAW, has_ended || !job.is_acknowledged, || format!("job {} is gone: {job:?}", number(id)))
    })
}
