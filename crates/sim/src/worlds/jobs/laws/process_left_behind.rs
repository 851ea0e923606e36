//! **The promise:** no process of an exclusive job runs longer than its worker may act under the key it was started
//! under, whatever became of the worker; and a guardian does not go before everything it guarded is gone.

use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "process_left_behind";

/// Instants are whole nanoseconds, and clocks round.
const ROUNDING_NANOS: u64 = 2;

/// The last process of a claim ends; its worker might act under its key until then.
pub(in super::super) fn check_end(
    hold: Hold,
    key: &WorkerKey,
    ended_at: Time,
    held_until: Option<Time>,
) -> Verdict {
    let is_in_time = held_until.is_some_and(|until| ended_at.as_nanos() <= until.as_nanos() + ROUNDING_NANOS);
    holds(LAW, is_in_time, || {
        format!("{} ran until {ended_at} s, but {key} was over at {held_until:?}", shown(hold))
    })
}

/// A key is declared over by the clock while this still runs, if anything does.
pub(in super::super) fn check_expiry(key: &WorkerKey, live: Option<Hold>) -> Verdict {
    holds(LAW, live.is_none(), || {
        format!("{} still runs, but the lease of {key} is over", live.map(shown).unwrap_or_default())
    })
}

/// A guardian goes while this still runs, if anything does.
pub(in super::super) fn check_exit(worker: usize, live: Option<Hold>) -> Verdict {
    holds(LAW, live.is_none(), || {
        format!("a guardian of worker {worker} goes before {}", live.map(shown).unwrap_or_default())
    })
}
