//! **The promise:** the fence decides. A result, a progress note, a push of a lease or a rescue that was meant for an
//! earlier claim than the latest one, or comes from someone who does not hold the job, changes nothing. This is judged by
//! the world's own books and not by what the store compared.

use model::{Hold, Job, LeaseTime, State, WorkerKey};
use store::Expired;

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::{JobBook, shown};

pub(super) const LAW: &str = "stale_write_accepted";

/// A holder's write was accepted; `book` is from before it.
pub(in super::super) fn check_write(book: &JobBook, hold: Hold, holder: &WorkerKey, verb: &str) -> Verdict {
    holds(LAW, book.is_held(hold, holder), || {
        format!(
            "a {verb} of {} by {holder} was accepted; the latest claim is fence {} by {:?}, {:?}",
            shown(hold),
            book.fence,
            book.holder,
            book.state
        )
    })
}

/// A rescue took a job back; `row` is the job before it.
pub(in super::super) fn check_reap(row: &Job, seen: &Expired, lease_clock: LeaseTime) -> Verdict {
    let is_as_seen = row.state == State::Running
        && row.fence == seen.hold.fence
        && row.lease_until == Some(seen.lease_until)
        && seen.lease_until <= lease_clock;
    holds(LAW, is_as_seen, || {
        format!(
            "a rescue meant for {} with a lease until {} took back fence {} with a lease until {:?}",
            shown(seen.hold),
            seen.lease_until,
            row.fence,
            row.lease_until
        )
    })
}

/// A push moved this many rows, of which so many could be moved.
pub(in super::super) fn check_push(moved: u64, current: u64) -> Verdict {
    holds(LAW, moved <= current, || format!("{moved} rows were pushed although only {current} were as seen"))
}
