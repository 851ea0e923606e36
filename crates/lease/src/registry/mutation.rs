//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests and the simulator switch one on, with [`Registry::broken`](super::Registry::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// A shorter grant takes back what a longer one promised.
    ExpiresMovesEarlier,
    /// A heartbeat with a wrong token renews the lease.
    RenewOnMismatch,
    /// A heartbeat with a wrong token counts as applied, so its repeat is skipped.
    DeltasClearedOnMismatch,
    /// A restored worker's lease is over at once.
    RestartGraceSkipped,
    /// Rows are judged before the store told who is alive.
    JudgedBeforeRestored,
    /// Rows of another registry count as held by nobody.
    NonOwnerJudges,
    /// What a restored worker has not told yet counts as not held.
    UnsyncedIsNotBound,
    /// A full set removes what was bound after it was taken.
    FullSetUndoesLaterBind,
    /// The time that we stood still counts against the workers.
    OwnStallIgnored,
    /// Two processes with one key are taken for one.
    NonceIgnored,
    /// A worker that ended is answered as if it lived.
    EndedIsRevived,
    /// A bind that comes after the job was taken back is accepted.
    RefusedMarkForgotten,
    /// Rows of an ended worker are taken back before its end is durable.
    RetireNotDurableFirst,
    /// A retirement that failed is not asked for again.
    RetireAskedOnce,
    /// A larger lease is granted before the store knows it.
    LargerGrantNotDurable,
    /// A delayed bind brings back what was unbound.
    UnbindNotFinal,
    /// Unbinds apply before binds.
    UnbindsBeforeBinds,
    /// A bind is acknowledged before its row was read.
    BoundBeforeChecked,
    /// A bind without a record of ours is never checked.
    BindNotChecked,
    /// Different sets go unnoticed.
    DigestIgnored,
    /// A stop is told only once.
    StopToldOnce,
    /// Known workers wait in the line of the new ones.
    KnownWorkersThrottled,
    /// A former key expires while its holds are being moved.
    FormerExpires,
    /// A worker that leaves while jobs run loses them at once.
    LeaveIgnoresRunningJobs,
    /// An exclusive job that gives no sign is handed over while it may still run.
    TakesBackSilentExclusive,
    /// The exclusive jobs of a kicked worker are handed over while they may still run.
    KickHandsOverAtOnce,
    /// A worker that must stop exclusive jobs first counts as gone when its session ends.
    GoneWithItsSession,
    /// A bind that is repeated because its acknowledgement was lost is not acknowledged again.
    RepeatedBindIgnored,
    /// Exclusive holds are extended when the registry is not ours for certain.
    ExclusiveHoldWhenNotOurs,
    /// Exclusive binds are acknowledged then.
    BindsWhenNotOurs,
    /// What was not acknowledged then is not acknowledged later.
    WithheldIsForgotten,
    /// New workers are taken then.
    EnlistsWhenNotOurs,
    /// Workers are ended, kicked and their rows judged then.
    JudgesWhenNotOurs,
    /// Silence from then counts against the workers.
    CutOffCountsAgainstWorkers,
    /// Rows of a worker that is being taken over count as held by nobody.
    TakenOverIsUnknown,
    /// A worker that was taken over while it joined here counts as new.
    JoiningIsNotRestored,
    /// Whoever leaves while workers are taken over counts as a stranger if it is not known yet.
    LeaveOverlooksTakeOver,
    /// Without a durable store, a worker from the life before counts as a new one that holds nothing.
    UnknownIsNew,
    /// A volatile job that its worker has not bound is taken back although it may have started.
    UnsureIsTakenBack,
    /// A worker counts as known while rows are still being asked about what it holds.
    SyncedBeforeChecked,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 40] = {
        use Mutation::*;
        [
            ExpiresMovesEarlier,
            RenewOnMismatch,
            DeltasClearedOnMismatch,
            RestartGraceSkipped,
            JudgedBeforeRestored,
            NonOwnerJudges,
            UnsyncedIsNotBound,
            FullSetUndoesLaterBind,
            OwnStallIgnored,
            NonceIgnored,
            EndedIsRevived,
            RefusedMarkForgotten,
            RetireNotDurableFirst,
            RetireAskedOnce,
            LargerGrantNotDurable,
            UnbindNotFinal,
            UnbindsBeforeBinds,
            BoundBeforeChecked,
            BindNotChecked,
            DigestIgnored,
            StopToldOnce,
            KnownWorkersThrottled,
            FormerExpires,
            LeaveIgnoresRunningJobs,
            TakesBackSilentExclusive,
            KickHandsOverAtOnce,
            GoneWithItsSession,
            RepeatedBindIgnored,
            ExclusiveHoldWhenNotOurs,
            BindsWhenNotOurs,
            WithheldIsForgotten,
            EnlistsWhenNotOurs,
            JudgesWhenNotOurs,
            CutOffCountsAgainstWorkers,
            TakenOverIsUnknown,
            JoiningIsNotRestored,
            LeaveOverlooksTakeOver,
            UnknownIsNew,
            UnsureIsTakenBack,
            SyncedBeforeChecked,
        ]
    };
}
