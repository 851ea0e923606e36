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
    /// An exclusive job starts when it is assigned.
    StartsBeforeBound,
    /// An exclusive job starts when a heartbeat that binds it is acknowledged.
    StartsOnHeartbeat,
    /// An exclusive job that had to stop before its start, by order or by the clock, starts all the same.
    StartsStopped,
    /// Exclusive jobs are told to stop when the lease is over, like others, and get their time after that.
    StopsAtHoldUntil,
    /// A renewal brings exclusive jobs back that were told to stop.
    RenewalRevives,
    /// A process that cannot stop an exclusive job lives on.
    NeverDooms,
    /// A successor key inherits exclusive jobs that still run.
    ExclusiveInherited,
    /// Good-bye is said under a dead key while something of it still runs.
    FarewellsEarly,
    /// Every answer extends the hold of exclusive jobs, whether its server vouches for them or not.
    ExclusiveHoldAssumed,
    /// Exclusive jobs are taken and started as long as the lease has room, whatever their own hold has.
    StartsWithoutHold,
    /// The key ends with the hold of its exclusive jobs.
    LapsesWithExclusiveHold,
    /// Credits and the leave go to a server that has not taken a heartbeat over this stream.
    TrustsEveryServer,
    /// An exclusive job that may start at once is started without a look at the time or at what else runs.
    AtOnceUnchecked,
    /// A volatile job starts although the worker is not healthy by its own clock.
    StartsUnwell,
    /// A new key goes on with the set of workers that the one before it was told.
    SetSurvivesKey,
    /// The set of workers that a server told is forgotten when another life of it is found.
    SetForgottenWithServer,
    /// A life of the server that knows nothing is told only what changed.
    NewServerToldChanges,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 23] = {
        use Mutation::*;
        [
            LateAckAccepted,
            DeltasClearedOnMismatch,
            StartsUnchecked,
            StampAtReceive,
            RateErrorIgnored,
            KeyReused,
            StartsBeforeBound,
            StartsOnHeartbeat,
            StartsStopped,
            StopsAtHoldUntil,
            RenewalRevives,
            NeverDooms,
            ExclusiveInherited,
            FarewellsEarly,
            ExclusiveHoldAssumed,
            StartsWithoutHold,
            LapsesWithExclusiveHold,
            TrustsEveryServer,
            AtOnceUnchecked,
            StartsUnwell,
            SetSurvivesKey,
            SetForgottenWithServer,
            NewServerToldChanges,
        ]
    };
}
