//! **The promise:** only the owner of the registry that a worker is in judges it, and owns it in the store when the judgement
//! is made durable. Another server may know nothing of a worker that is perfectly well; its ignorance must never take
//! anything away from it.

use model::{RegistryId, WorkerKey};

use super::holds;
use crate::law::Verdict;

pub(super) const LAW: &str = "double_judge";

/// `judge` takes something back from a worker, or ends it, or calls it unknown, who belongs to `owner`.
pub(in super::super) fn check(
    key: &WorkerKey,
    owner: Option<RegistryId>,
    judge: Option<RegistryId>,
) -> Verdict {
    holds(LAW, owner.is_none() || owner == judge, || {
        format!("registry {judge:?} judges {key}, which belongs to {owner:?}")
    })
}
