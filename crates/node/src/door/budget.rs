//! How many bytes may be on their way at once, over all connections: bodies that are read and not yet answered, answers that are
//! written and not yet taken.
//!
//! Without it a client that sends bodies without end, or never reads, has the server keep as much as it likes. What is smaller
//! than [`FREE_BYTES`] is not counted, so that heartbeats always pass and cost nothing; the last part is kept for what is small.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::ErrorKind;
use rpc::ApiError;

/// Bodies and frames below this are not counted.
pub(super) const FREE_BYTES: usize = 1 << 10;
/// Up to this a body is small: it may take from the part that is kept.
const SMALL_BYTES: usize = 64 << 10;
/// The part of the budget that is kept for small bodies.
const KEPT_PART: usize = 8;
/// When trying again may help: as soon as others are done.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// The bytes of one server.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: AtomicUsize,
}

/// There is no room for this body now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Budget { max, used: AtomicUsize::new(0) })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes this many bytes more for something that has `before` already.
    fn take(&self, bytes: usize, before: usize) -> Result<(), NoRoom> {
        let is_small = before + bytes <= SMALL_BYTES;
        let max = if is_small { self.max } else { self.max - self.max / KEPT_PART };
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used + bytes > max {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(NoRoom);
        }
        Ok(())
    }
}

/// What one request or answer has of the budget. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Share {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Share { budget: Arc::clone(budget), bytes: AtomicUsize::new(0) }
    }

    /// Takes more.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        self.budget.take(bytes, self.bytes.load(Ordering::Relaxed))?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes more, whether there is room or not: for what cannot be refused any more.
    pub(crate) fn grow_anyway(&self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives everything back.
    pub(crate) fn clear(&self) {
        self.budget.used.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many bytes are on their way at once (--max-inflight-bytes); try again in a moment")
    }
}

impl std::error::Error for NoRoom {}

impl From<NoRoom> for ApiError {
    fn from(why: NoRoom) -> Self {
        let error = ApiError::new(ErrorKind::Unavailable, why.to_string());
        ApiError { retry_after: Some(RETRY_AFTER), ..error }
    }
}

/// The reason, if it is what lies behind this error.
pub(crate) fn no_room(error: &(dyn std::error::Error + 'static)) -> Option<NoRoom> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(no_room) = error.downcast_ref::<NoRoom>() {
            return Some(*no_room);
        }
        source = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let budget = Budget::new(800_000);
        let (large, small) = (Share::new(&budget), Share::new(&budget));
        large.grow(600_000).unwrap();
        assert_eq!(large.grow(200_000), Err(NoRoom), "the last eighth is kept");
        large.grow(100_000).unwrap();
        small.grow(60_000).unwrap();
        assert_eq!(small.grow(10_000), Err(NoRoom), "it is small no longer");
        assert_eq!(budget.used(), 760_000);
        let third = Share::new(&budget);
        assert_eq!(third.grow(50_000), Err(NoRoom), "beyond everything");
        third.grow(40_000).unwrap();
        drop(large);
        third.grow(600_000).unwrap();
        drop((small, third));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_cannot_be_refused_is_counted_and_given_back() {
        let budget = Budget::new(100);
        let share = Share::new(&budget);
        share.grow_anyway(1_000);
        assert_eq!((budget.used(), Share::new(&budget).grow(1)), (1_000, Err(NoRoom)));
        share.clear();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_reason_is_found_behind_other_errors() {
        let wrapped = axum::Error::new(NoRoom);
        assert_eq!(no_room(&wrapped), Some(NoRoom));
        assert_eq!(no_room(&std::io::Error::other("else")), None);
        assert!(ApiError::from(NoRoom).retry_after.is_some());
    }
}
