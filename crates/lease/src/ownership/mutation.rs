//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests and the simulator switch one on, with [`Ownership::broken`](super::Ownership::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// A beat counts from when its answer was received.
    StampAtReceive,
    /// All clocks are taken to run alike.
    RateErrorIgnored,
    /// Others are taken over as soon as they are seen.
    TakesOverWithoutWaiting,
    /// What was seen before we, or the store, stood still counts as if it had just been seen.
    OldSightingCounts,
    /// A beat that may not have been committed counts as committed.
    FailedBeatCounts,
    /// Our own registry is watched like the others'.
    TakesOverItself,
    /// Others are taken over again while that is under way.
    TakesOverTwice,
    /// Others are believed that our registry is gone, although they looked before it was there.
    OldHearsayCounts,
    /// The next registry is founded as soon as one is lost.
    FoundsWithoutPause,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 9] = {
        use Mutation::*;
        [
            StampAtReceive,
            RateErrorIgnored,
            TakesOverWithoutWaiting,
            OldSightingCounts,
            FailedBeatCounts,
            TakesOverItself,
            TakesOverTwice,
            OldHearsayCounts,
            FoundsWithoutPause,
        ]
    };
}
