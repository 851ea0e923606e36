//! **The promise:** a heartbeat that does not show the current token renews nothing. Its sender has not seen the last
//! answer, or is a second process, or the heartbeat is old; none of these proves that the worker is alive and knows its
//! lease.

use model::{Instant, WorkerKey};

use super::holds;
use crate::law::Verdict;

pub(super) const LAW: &str = "renewed_on_mismatch";

/// A heartbeat was answered with a mismatch; the lease ended at these times before and after.
pub(in super::super) fn check(key: &WorkerKey, before: Instant, after: Instant) -> Verdict {
    holds(LAW, after <= before, || {
        format!("the lease of {key} was moved by {:?} by a heartbeat with a wrong token", after.since(before))
    })
}
