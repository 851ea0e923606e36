//! **The promise:** a worker loses its jobs only if something was wrong. As long as its process, its connection, the
//! servers and the store had no fault within its last lease, and the time it takes to come back after one, it is never
//! declared inactive. Two things are no fault: that a server is gone which is not its own, or whose workers another one has
//! taken over since, and that a server did not reach the store for less than the worker's lease.

use std::time::Duration;

use model::WorkerKey;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;

pub(super) const LAW: &str = "healthy_worker_reaped";

/// The longest a worker takes, after everything is well again, until its next heartbeat is taken: it may be waiting for
/// a welcome that will not come, then for its turn to ask again, then be sent from one server to the other.
const COME_BACK_MAX: Duration = Duration::from_secs(3);

/// A worker with this lease ran out of it, or was told that it is over; the last fault that concerned it ended at `trouble_until`.
pub(in super::super) fn check(
    key: &WorkerKey,
    ended_at: Time,
    lease: Duration,
    trouble_until: Time,
) -> Verdict {
    let had_trouble = trouble_until + lease + COME_BACK_MAX >= ended_at;
    holds(LAW, had_trouble, || {
        format!(
            "{key} is declared inactive although nothing was wrong since {trouble_until}; its lease is {lease:?}"
        )
    })
}
