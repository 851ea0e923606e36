//! **The promise:** nobody is left alone. When a server is gone, its workers are another's within a bound that follows from
//! the configuration, as long as some server lives and reaches the store; and no worker is enlisted in a registry that is
//! not there any more, which nobody could ever take over.

use std::time::Duration;

use model::{RegistryId, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::jobs::setup::{BEAT_EVERY, OWNED_FOR};

pub(super) const LAW: &str = "left_without_owner";

/// A beat that shows the last counter, the time that it must stay the same, and a beat that shows that it did, with their ways
/// there and back; clocks that run differently are in it.
const TAKEN_WITHIN: Duration = OWNED_FOR.saturating_add(BEAT_EVERY.saturating_mul(3));

/// Some server beats; since `since` nothing was wrong with it or the store, and nobody has had this registry.
pub(in super::super) fn check_in_time(registry: RegistryId, since: Time, now: Time) -> Verdict {
    holds(LAW, now <= since + TAKEN_WITHIN, || {
        format!("nobody has taken over registry {}, which nobody has since {since} s", registry.0)
    })
}

/// A worker was enlisted.
pub(in super::super) fn check_enlisted(key: &WorkerKey, registry: RegistryId, is_there: bool) -> Verdict {
    holds(LAW, is_there, || format!("{key} was enlisted in registry {}, which is gone", registry.0))
}
