//! **The promise:** the clock rule. A registry ends a worker only after that worker, by its own clock, has stopped
//! believing in its lease: however late answers come, however differently the clocks run within the assumed bound, and
//! whether or not the server was stopped or started anew in between.

use model::WorkerKey;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;

pub(super) const LAW: &str = "inactive_while_held";

/// Instants are whole nanoseconds, and both sides of the rule round.
const ROUNDING_NANOS: i64 = 2;

/// How much later than the worker stopped believing the registry ended it, in nanoseconds of true time.
pub(in super::super) fn margin(ended_at: Time, held_until: Time) -> i64 {
    ended_at.as_nanos() as i64 - held_until.as_nanos() as i64
}

/// A registry ended a worker because its lease was over.
pub(in super::super) fn check(key: &WorkerKey, ended_at: Time, held_until: Time) -> Verdict {
    holds(LAW, margin(ended_at, held_until) >= -ROUNDING_NANOS, || {
        format!("{key} is declared inactive at {ended_at} s but may act on its lease until {held_until} s")
    })
}
