//! **The promise:** a label never says more than is so. What a scheduler believes a worker to require, directly or through others, it
//! truly requires: by the ids that workers hold at this moment, followed from set to set one by one.

use muster::{Member, Version};

use super::holds;
use crate::law::Verdict;

pub(super) const LAW: &str = "indirect_never_exceeds_truth";

/// A member has this label, and truly requires this version; none if it holds no id of this scheduler.
pub(in super::super) fn check(member: Member, label: Version, truth: Option<Version>) -> Verdict {
    let is_covered = truth.is_some_and(|truth| !label.is_newer_than(truth));
    holds(LAW, is_covered, || format!("{member:?} has label {label:?} and requires {truth:?}"))
}
