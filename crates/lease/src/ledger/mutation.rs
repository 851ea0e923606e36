//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests and the simulator switch one on, with [`Ledger::broken`](super::Ledger::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// While an answer is awaited the lease counts as running on: an acknowledgement that comes too late still counts, and
    /// the key lives on.
    LateAckAccepted,
    /// A mismatch clears the changes that were sent, as an acknowledgement does.
    DeltasClearedOnMismatch,
    /// A start is not asked whom it is for.
    StartsUnchecked,
    /// A lease counts from the arrival of its acknowledgement.
    StampAtReceive,
    /// The clocks of worker and registry are believed to run at the same rate.
    RateErrorIgnored,
    /// The old key goes on being used after it lapsed.
    KeyReused,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 6] = {
        use Mutation::*;
        [
            LateAckAccepted,
            DeltasClearedOnMismatch,
            StartsUnchecked,
            StampAtReceive,
            RateErrorIgnored,
            KeyReused,
        ]
    };
}
