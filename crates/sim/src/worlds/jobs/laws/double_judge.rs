//! **The promise:** only the registry that enlisted a worker judges it. Another server may know nothing of a worker that
//! is perfectly well; its ignorance must never take anything away from it.

use model::{RegistryId, WorkerKey};

use super::holds;
use crate::law::Verdict;

pub(super) const LAW: &str = "double_judge";

/// `judge` takes something back from a worker, or ends it, who belongs to `owner`.
pub(in super::super) fn check(key: &WorkerKey, owner: Option<RegistryId>, judge: RegistryId) -> Verdict {
    holds(LAW, owner.is_none_or(|owner| owner == judge), || {
        format!("registry {} judges {key}, which belongs to {owner:?}", judge.0)
    })
}
