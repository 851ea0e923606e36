//! **The promise:** a worker that cannot stop a job for certain never gets an exclusive one.

use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "exclusive_to_the_unfit";

/// An exclusive job is claimed for a worker, or started by it.
pub(in super::super) fn check(hold: Hold, key: &WorkerKey, can_stop: bool) -> Verdict {
    holds(LAW, can_stop, || {
        format!("{} is exclusive and goes to {key}, which cannot stop it for certain", shown(hold))
    })
}
