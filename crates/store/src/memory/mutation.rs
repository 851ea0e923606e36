//! Deliberate bugs. The suite is only worth its name if it notices each of them; see `tests/mutations.rs`.

/// A deliberate bug for the mutation check. Only tests switch one on, with
/// [`MemoryStore::broken`](super::MemoryStore::broken) or [`MemoryStore::shared_broken`](super::MemoryStore::shared_broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// A holder's write is accepted whatever its fence.
    FenceNotCompared,
    /// A holder's write is accepted whoever sends it.
    HolderNotCompared,
    /// A holder's write is judged by the attempt its fence was minted with.
    AttemptComparedInsteadOfFence,
    /// A progress note is accepted whatever its fence.
    ProgressWithoutFence,
    /// Progress does not reset the count of losses.
    ProgressKeepsLosses,
    /// A renewal brings back a job that was taken away and not yet claimed again.
    RenewRevivesLost,
    /// A renewal grants the caller's lease even where job or queue has its own.
    RenewForgetsOwnLease,
    /// A repeated report is acknowledged whatever its fence.
    AlreadyDoneForAnyFence,
    /// A report is not remembered, so its repeat is stale.
    ReportForgotten,
    /// The error of a failed attempt is dropped.
    FailureForgetsError,
    /// A failed attempt does not end a row of losses.
    FailureKeepsLosses,
    /// A failing job is retried beyond its limit.
    FailureNeverBuried,
    /// A hand-back counts as an attempt.
    HandBackCountsAttempt,
    /// A cancelled running job ends as its holder says.
    CancelledRunningJobCompletes,
    /// A cancelled running job is offered again when its holder falls silent.
    CancelledLostJobComesBack,
    /// A lease is taken back before it is over.
    ReapWithoutLeaseCheck,
    /// A late reaper takes a job from its next holder.
    ReapWithoutFenceCheck,
    /// A late reaper takes a job although its lease is not the one it saw.
    ReapWithoutSeenLeaseCheck,
    /// A late reaper takes a job from the successor of the holder it saw.
    ReapWithoutHolderCheck,
    /// A running job is taken back whatever was seen, whether or not its lease is over.
    ReapBlindly,
    /// A lease is pushed out although another claim has it.
    PushWithoutFenceCheck,
    /// A lease is pushed out although it is not the one that was seen.
    PushWithoutSeenLeaseCheck,
    /// A push makes a lease end earlier.
    PushMovesEarlier,
    /// A live holder's jobs are taken back by name.
    ReapHolderNotTerminal,
    /// A second process is taken for the one that has the key.
    EnlistIgnoresNonce,
    /// A registry is given the worker of another.
    EnlistIgnoresRegistry,
    /// A terminal key is enlisted again.
    EnlistIgnoresEnd,
    /// The grant is the last one, not the largest.
    EnlistShrinksGrant,
    /// A registry is shown the workers of all.
    RosterShowsOthers,
    /// A registry is shown workers that have ended.
    RosterShowsTerminal,
    /// The end of a worker is the last one told, not the first.
    RetireRewritesEnd,
    /// A holder that left or was kicked starts over.
    ReadmitWhateverTheEnd,
    /// A worker that a registry judges starts over.
    ReadmitWithLease,
    /// A holder starts over with what it held before.
    ReadmitWhileHolding,
    /// Holders that were never enlisted take over from each other.
    SucceedNotEnlisted,
    /// The jobs of a terminal worker move before they are taken back.
    SucceedFromTerminal,
    /// Jobs move to a worker that is terminal.
    SucceedToTerminal,
    /// A worker that succeeds itself ends.
    SucceedItself,
    /// A worker goes on beside its successor.
    SucceedKeepsFormer,
    /// A holder is told to stop all it holds.
    ToStopShowsAll,
    /// The time limit of an attempt counts what the job waited before.
    TimeLimitSinceEnqueued,
    /// Losses caused by a drain count.
    UncountedLossCounts,
    /// A loss counts as an attempt.
    LossCountsAsAttempt,
    /// A poison pill comes back for ever.
    LossNeverBuried,
    /// Every loss comes back at once.
    LossWithoutBackoff,
    /// Leases follow steps of the wall clock.
    LeaseFollowsWallClock,
    /// A re-drive starts the fence over.
    FenceResetByRedrive,
    /// Fences count 1, 2, 3 and do not follow the clock.
    FenceNotIncreased,
    /// A retired holder still gets jobs.
    ClaimByTerminalHolder,
    /// A paused queue still offers jobs.
    ClaimFromPausedQueue,
    /// An exclusive queue gives to holders that cannot stop a job for certain.
    ExclusiveIgnoredInClaim,
    /// What a claim is changes with its queue.
    ExclusiveFollowsQueue,
    /// A job whose claim was exclusive stays so in its next claim.
    ExclusiveOutlivesClaim,
    /// Jobs by exclusive claims are ordinary once a successor has them.
    SucceedForgetsExclusive,
    /// Jobs are offered by time alone.
    ClaimIgnoresPriority,
    /// A queue asked for first is emptied first, whatever the others hold.
    ClaimQueueByQueue,
    /// A claim goes on although it has all the bytes it may.
    ClaimIgnoresBytes,
    /// Scheduled jobs become available before their time.
    PromoteEarly,
    /// A repeated request inserts again.
    RequestIdForgotten,
    /// A taken unique key stops nobody.
    UniqueKeyIgnored,
    /// A retained unique key is free as soon as its job ends.
    UniqueKeyFreedEarly,
    /// A re-drive takes the unique key from the job that has it now.
    RedriveStealsUniqueKey,
    /// A re-drive keeps the attempts counted so far.
    RedriveKeepsAttempts,
    /// A re-driven job is still marked as cancelled.
    RedriveKeepsCancel,
    /// A re-drive by filter starts from the oldest job again.
    RedriveIgnoresAfter,
    /// Dead jobs are removed as early as completed ones.
    PurgeTreatsDeadAsCompleted,
    /// Terminal workers are not remembered.
    PurgeForgetsWorkersAtOnce,
    /// Terminal workers are forgotten with what they hold.
    PurgeForgetsHolders,
    /// A worker that has a lease is taken for one that only pings, and the other way round.
    EnlistIgnoresPings,
    /// A registry that was taken over gets new workers.
    EnlistByGoneRegistry,
    /// A registry is shown the expired leases of all.
    ExpiredShowsOthers,
    /// A registry is told when the leases of others run out.
    DeadlinesShowOthers,
    /// A registry is told of jobs that others are to stop.
    CalledOffShowsOthers,
    /// A registry is told to stop everything.
    CalledOffShowsAll,
    /// A registry is told what ended workers of others hold.
    UnreapedShowsOthers,
    /// A registry that stood still prolongs the leases of all.
    ExtensionMovesOthers,
    /// A reaper takes from a holder that is in another registry than it was.
    ReapWithoutRegistryCheck,
    /// A registry ends the worker of another.
    RetireWithoutRegistryCheck,
    /// A registry that was taken over ends a holder that nobody knew.
    RetireByGoneRegistry,
    /// A registry readmits a holder of another.
    ReadmitByAnotherRegistry,
    /// A worker goes on in another registry.
    SucceedAcrossRegistries,
    /// The id of a registry that is gone is given again.
    RegistryIdGivenAgain,
    /// Others cannot see that a registry beats.
    BeatDoesNotCount,
    /// A registry is taken over although it has beaten since.
    TakeOverWithoutBeatsCheck,
    /// A registry that is gone takes another over.
    TakeOverByGoneRegistry,
    /// A registry takes itself over and is gone.
    TakeOverItself,
    /// Terminal workers stay in the registry that was taken over, with what they hold.
    TakeOverLeavesTerminal,
    /// A registry is still there after it was taken over.
    TakeOverLeavesRegistry,
    /// What is lost by a take-over counts against the jobs.
    TakeOverCountsLosses,
    /// Whoever tells news hears them too.
    NewsComeBack,
    /// A worker's hold of a job that is not here is lost.
    UnknownHoldNotAdopted,
    /// A job that waits stays so though a worker says that it runs it.
    WaitingJobNotAdopted,
    /// What a terminal holder says that it runs is believed.
    TerminalHolderAdopted,
    /// Of two that say they run a job that is not here, the second is believed.
    SecondCopyAdopted,
    /// A copy that should not exist raises no alarm.
    DoubleStartNotCounted,
    /// A claim that ended with its own report counts as a copy.
    OwnReportRaisesAlarm,
    /// A job that a worker runs waits for another one when it is submitted again.
    AdoptedJobStartsAgain,
    /// An adopted claim is ended by any worker, whatever its fence.
    AdoptedEndsByAnyone,
    /// Adopted claims stay when their holder is gone.
    AdoptedOutlivesHolder,
    /// The result of a job that is not here is not kept.
    EarlyResultDropped,
    /// A job whose result is here runs all the same when it is submitted again.
    EarlyResultIgnored,
    /// A job that was taken back is not ended by its holder's late report.
    LossBeatsLateReport,
    /// The late report of a claim that was taken back ends the attempt after it.
    LateReportEndsNextAttempt,
    /// A fence may be smaller than one that a worker reported.
    FenceIgnoresReported,
    /// What is below its client's mark is run.
    MarkIgnored,
    /// What its client has acknowledged is run.
    AcknowledgedRunsAgain,
    /// Nobody is told that a result is acknowledged.
    AcknowledgedResultStaysWithItsWorker,
    /// What clients know is forgotten with the next purge.
    ClientForgottenAtOnce,
    /// Jobs are taken though there is no room.
    RoomWithoutEnd,
    /// Ends go as soon as there is no room, though their clients had no time to hear of them.
    EndsMakeRoomAtOnce,
    /// A client is not told that an end was forgotten that it may wait for.
    EndForgottenSilently,
    /// A queue of a volatile store is ordinary if it is set so.
    VolatileQueueFollowsPatch,
    /// A volatile store takes jobs with any id.
    DurableIdTaken,
    /// A store for several servers has volatile queues.
    SharedStoreTakesVolatileQueue,
}

impl Mutation {
    /// Those that a store for one registry can have.
    pub const ALL: [Mutation; 114] = {
        use Mutation::*;
        [
            FenceNotCompared,
            HolderNotCompared,
            AttemptComparedInsteadOfFence,
            ProgressWithoutFence,
            ProgressKeepsLosses,
            RenewRevivesLost,
            RenewForgetsOwnLease,
            AlreadyDoneForAnyFence,
            ReportForgotten,
            FailureForgetsError,
            FailureKeepsLosses,
            FailureNeverBuried,
            HandBackCountsAttempt,
            CancelledRunningJobCompletes,
            CancelledLostJobComesBack,
            ReapWithoutLeaseCheck,
            ReapWithoutFenceCheck,
            ReapWithoutSeenLeaseCheck,
            ReapWithoutHolderCheck,
            ReapBlindly,
            PushWithoutFenceCheck,
            PushWithoutSeenLeaseCheck,
            PushMovesEarlier,
            ReapHolderNotTerminal,
            EnlistIgnoresNonce,
            EnlistIgnoresRegistry,
            EnlistIgnoresEnd,
            EnlistShrinksGrant,
            RosterShowsOthers,
            RosterShowsTerminal,
            RetireRewritesEnd,
            ReadmitWhateverTheEnd,
            ReadmitWithLease,
            ReadmitWhileHolding,
            SucceedNotEnlisted,
            SucceedFromTerminal,
            SucceedToTerminal,
            SucceedItself,
            SucceedKeepsFormer,
            ToStopShowsAll,
            TimeLimitSinceEnqueued,
            UncountedLossCounts,
            LossCountsAsAttempt,
            LossNeverBuried,
            LossWithoutBackoff,
            LeaseFollowsWallClock,
            FenceResetByRedrive,
            FenceNotIncreased,
            ClaimByTerminalHolder,
            ClaimFromPausedQueue,
            ExclusiveIgnoredInClaim,
            ExclusiveFollowsQueue,
            ExclusiveOutlivesClaim,
            SucceedForgetsExclusive,
            ClaimIgnoresPriority,
            ClaimQueueByQueue,
            ClaimIgnoresBytes,
            PromoteEarly,
            RequestIdForgotten,
            UniqueKeyIgnored,
            UniqueKeyFreedEarly,
            RedriveStealsUniqueKey,
            RedriveKeepsAttempts,
            RedriveKeepsCancel,
            RedriveIgnoresAfter,
            PurgeTreatsDeadAsCompleted,
            PurgeForgetsWorkersAtOnce,
            PurgeForgetsHolders,
            EnlistIgnoresPings,
            EnlistByGoneRegistry,
            ExpiredShowsOthers,
            DeadlinesShowOthers,
            CalledOffShowsOthers,
            CalledOffShowsAll,
            UnreapedShowsOthers,
            ExtensionMovesOthers,
            ReapWithoutRegistryCheck,
            RetireWithoutRegistryCheck,
            RetireByGoneRegistry,
            ReadmitByAnotherRegistry,
            SucceedAcrossRegistries,
            RegistryIdGivenAgain,
            BeatDoesNotCount,
            TakeOverWithoutBeatsCheck,
            TakeOverByGoneRegistry,
            TakeOverItself,
            TakeOverLeavesTerminal,
            TakeOverLeavesRegistry,
            TakeOverCountsLosses,
            NewsComeBack,
            UnknownHoldNotAdopted,
            WaitingJobNotAdopted,
            TerminalHolderAdopted,
            SecondCopyAdopted,
            DoubleStartNotCounted,
            OwnReportRaisesAlarm,
            AdoptedJobStartsAgain,
            AdoptedEndsByAnyone,
            AdoptedOutlivesHolder,
            EarlyResultDropped,
            EarlyResultIgnored,
            LossBeatsLateReport,
            LateReportEndsNextAttempt,
            FenceIgnoresReported,
            MarkIgnored,
            AcknowledgedRunsAgain,
            AcknowledgedResultStaysWithItsWorker,
            ClientForgottenAtOnce,
            RoomWithoutEnd,
            EndsMakeRoomAtOnce,
            EndForgottenSilently,
            VolatileQueueFollowsPatch,
            DurableIdTaken,
            SharedStoreTakesVolatileQueue,
        ]
    };
}
