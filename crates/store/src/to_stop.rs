//! What a holder should stop, and since when its attempts have had their time.

use std::time::Duration;

use model::{Fence, Hold, LeaseTime};

/// A running job that its holder should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToStop {
    /// The claim.
    pub hold: Hold,
    /// It was called off.
    pub cancel: bool,
    /// The time limit of the attempt is over.
    pub timed_out: bool,
    /// The claim is exclusive.
    pub exclusive: bool,
}

/// Whether the time limit of an attempt is over. Counted from the claim, by the lease clock: its fence is never below that
/// clock's reading at the claim, and hardly ever above it.
pub fn is_timed_out(fence: Fence, limit: Option<Duration>, now: LeaseTime) -> bool {
    limit.is_some_and(|limit| LeaseTime::from_micros(fence.get()) + limit <= now)
}
