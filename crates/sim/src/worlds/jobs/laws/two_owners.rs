//! **The promise:** two servers never own one worker at the same time. Before a registry goes to another server, the one
//! that had it has stopped, by its own clock, to extend exclusive holds and to acknowledge exclusive binds: however late
//! its beats are committed or answered, and however differently the clocks run within the assumed bound.

use model::{RegistryId, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::time::Time;

pub(super) const LAW: &str = "two_owners";

/// Instants are whole nanoseconds, and both sides of the rule round.
const ROUNDING_NANOS: i64 = 2;

/// How much later than its server stopped believing in it a registry was taken over, in nanoseconds of true time.
pub(in super::super) fn margin(taken_at: Time, owned_until: Time) -> i64 {
    taken_at.as_nanos() as i64 - owned_until.as_nanos() as i64
}

/// A registry goes to another server; the one that had it lives and believes in it until then.
pub(in super::super) fn check_take_over(from: RegistryId, taken_at: Time, owned_until: Time) -> Verdict {
    holds(LAW, margin(taken_at, owned_until) >= -ROUNDING_NANOS, || {
        format!(
            "registry {} is taken over at {taken_at} s but its server has it until {owned_until} s",
            from.0
        )
    })
}

/// A registry extends the exclusive hold of a worker, or acknowledges an exclusive bind.
pub(in super::super) fn check_extension(key: &WorkerKey, by: RegistryId, is_owner: bool) -> Verdict {
    holds(LAW, is_owner, || {
        format!("registry {} extends what is exclusive for {key}, another's worker", by.0)
    })
}
