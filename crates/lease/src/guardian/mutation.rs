//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests and the simulator switch one on, with [`Guardian::broken`](super::Guardian::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// Takes leave with "all stopped" as soon as the worker is dead, whatever still runs.
    LeavesBeforeEmpty,
    /// Tells the worker that a family is gone when only its leader is.
    EndedBeforeEmpty,
    /// Nothing is ended when its time is over.
    DeadlineIgnored,
    /// Starts what a dead worker had ordered.
    LaunchesAfterDeath,
    /// Exclusive families live as long as the key, whatever their own hold is.
    LeaseKeepsFamilies,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 5] = {
        use Mutation::*;
        [LeavesBeforeEmpty, EndedBeforeEmpty, DeadlineIgnored, LaunchesAfterDeath, LeaseKeepsFamilies]
    };
}
