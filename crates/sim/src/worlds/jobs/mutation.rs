//! Deliberate bugs, each of which some seed must expose: a law that no bug can break is not a law.

use lease::{guardian, ledger, ownership, registry};

/// A deliberate bug in one of the machines, or in the way a process runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// The registry lets a shorter grant take back what a longer one promised.
    ExpiresMovesEarlier,
    /// The registry renews the lease of a heartbeat with a wrong token.
    RenewOnMismatch,
    /// The store takes back jobs without comparing fence and lease.
    ReapWithoutFence,
    /// The registry ends workers that were taken over at once.
    RestartGraceSkipped,
    /// The store shows a registry the rows of others, and it judges their workers.
    NonOwnerJudges,
    /// The registry counts what a restored worker has not told yet as not held.
    UnsyncedIsNotBound,
    /// The registry lets a full set remove what was bound after it was taken.
    FullSetUndoesLaterBind,
    /// A server that was stopped looks at its timers before its inbox.
    TimersBeforeInbox,
    /// The ledger lives on by an acknowledgement that came after its lease was over.
    LateAckAccepted,
    /// The ledger does not ask whom a start is for.
    StartsUnchecked,
    /// The registry asks only once that a worker's end be made durable.
    RetireAskedOnce,
    /// The registry lets known workers wait in the line of the new ones.
    KnownWorkersThrottled,
    /// The ledger counts its lease from the arrival of the acknowledgement, not from the sending of the heartbeat.
    StampAtReceive,
    /// The ledger believes that all clocks run at the same rate.
    RateErrorIgnored,
    /// The ledger goes on under a key that has lapsed.
    KeyReused,
    /// The ledger starts an exclusive job before its bind is acknowledged.
    StartsBeforeBound,
    /// The ledger tells exclusive jobs to stop only when the lease is over.
    StopsAtHoldUntil,
    /// The ledger lets a job live on that it cannot stop.
    NeverDooms,
    /// The ledger says that nothing runs under a key any more while something does.
    FarewellsEarly,
    /// The registry takes an exclusive job back whose handler gives no sign, before it has stopped.
    TakesBackSilentExclusive,
    /// The registry gives the exclusive jobs of a kicked worker away before they have stopped.
    KickHandsOverAtOnce,
    /// The registry takes a leave for its word, also if that does not say that all has stopped.
    LeaveIgnoresRunningJobs,
    /// The guardian says that all has stopped before it has.
    LeavesBeforeEmpty,
    /// The guardian says that a job has ended when only its leader has.
    EndedBeforeEmpty,
    /// The guardian does not end what has come to the end of its lease.
    DeadlineIgnored,
    /// A server counts every worker as one that can stop a job for certain.
    EveryoneIsFit,
    /// The registry extends exclusive holds when it may be another server's already.
    ExclusiveHoldWhenNotOurs,
    /// The registry acknowledges exclusive binds then.
    BindsWhenNotOurs,
    /// The registry judges workers then.
    JudgesWhenNotOurs,
    /// The registry counts what is held by workers that are being taken over as held by nobody.
    TakenOverIsUnknown,
    /// The ledger extends exclusive holds by any answer.
    ExclusiveHoldAssumed,
    /// The ledger ends the key with the hold of its exclusive jobs.
    LapsesWithExclusiveHold,
    /// The guardian lets exclusive families live as long as the key.
    LeaseKeepsFamilies,
    /// A server counts its ownership from the arrival of the answer to a beat, not from its sending.
    BeatCountsFromAnswer,
    /// A server counts a beat that may not have been committed.
    FailedBeatCounts,
    /// A server takes over the workers of others as soon as it sees them.
    TakesOverWithoutWaiting,
    /// The store lets a server take over another that has beaten since it was seen.
    TakeOverWithoutBeatsCheck,
    /// The store lets a registry end the worker of another.
    RetireWithoutRegistryCheck,
    /// The store lets a registry that is gone have new workers.
    EnlistByGoneRegistry,
    /// A server calls a worker unknown without asking the store whose it is.
    StrangersAreDead,
    /// A server takes a take-over whose outcome it does not know for refused.
    FailedTakeOverForgotten,
    /// A server believes whatever is said on a stream under a worker's key, whoever opened it.
    AnyNonceSpeaks,
}

/// What a bug is in.
enum Place {
    Registry(registry::Mutation),
    Ledger(ledger::Mutation),
    Guardian(guardian::Mutation),
    Ownership(ownership::Mutation),
    Store(store::Mutation),
    /// The way a server process runs its machines.
    Server,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 42] = {
        use Mutation::*;
        [
            ExpiresMovesEarlier,
            RenewOnMismatch,
            ReapWithoutFence,
            RestartGraceSkipped,
            NonOwnerJudges,
            UnsyncedIsNotBound,
            FullSetUndoesLaterBind,
            TimersBeforeInbox,
            LateAckAccepted,
            StartsUnchecked,
            RetireAskedOnce,
            KnownWorkersThrottled,
            StampAtReceive,
            RateErrorIgnored,
            KeyReused,
            StartsBeforeBound,
            StopsAtHoldUntil,
            NeverDooms,
            FarewellsEarly,
            TakesBackSilentExclusive,
            KickHandsOverAtOnce,
            LeaveIgnoresRunningJobs,
            LeavesBeforeEmpty,
            EndedBeforeEmpty,
            DeadlineIgnored,
            EveryoneIsFit,
            ExclusiveHoldWhenNotOurs,
            BindsWhenNotOurs,
            JudgesWhenNotOurs,
            TakenOverIsUnknown,
            ExclusiveHoldAssumed,
            LapsesWithExclusiveHold,
            LeaseKeepsFamilies,
            BeatCountsFromAnswer,
            FailedBeatCounts,
            TakesOverWithoutWaiting,
            TakeOverWithoutBeatsCheck,
            RetireWithoutRegistryCheck,
            EnlistByGoneRegistry,
            StrangersAreDead,
            FailedTakeOverForgotten,
            AnyNonceSpeaks,
        ]
    };

    /// Its name, as people type it.
    pub const fn word(self) -> &'static str {
        match self {
            Mutation::ExpiresMovesEarlier => "expires_moves_earlier",
            Mutation::RenewOnMismatch => "renew_on_mismatch",
            Mutation::ReapWithoutFence => "reap_without_fence",
            Mutation::RestartGraceSkipped => "restart_grace_skipped",
            Mutation::NonOwnerJudges => "non_owner_judges",
            Mutation::UnsyncedIsNotBound => "unsynced_is_not_bound",
            Mutation::FullSetUndoesLaterBind => "full_set_undoes_later_bind",
            Mutation::TimersBeforeInbox => "timers_before_inbox",
            Mutation::LateAckAccepted => "late_ack_accepted",
            Mutation::StartsUnchecked => "starts_unchecked",
            Mutation::RetireAskedOnce => "retire_asked_once",
            Mutation::KnownWorkersThrottled => "known_workers_throttled",
            Mutation::StampAtReceive => "stamp_at_receive",
            Mutation::RateErrorIgnored => "rate_error_ignored",
            Mutation::KeyReused => "key_reused",
            Mutation::StartsBeforeBound => "starts_before_bound",
            Mutation::StopsAtHoldUntil => "stops_at_hold_until",
            Mutation::NeverDooms => "never_dooms",
            Mutation::FarewellsEarly => "farewells_early",
            Mutation::TakesBackSilentExclusive => "takes_back_silent_exclusive",
            Mutation::KickHandsOverAtOnce => "kick_hands_over_at_once",
            Mutation::LeaveIgnoresRunningJobs => "leave_ignores_running_jobs",
            Mutation::LeavesBeforeEmpty => "leaves_before_empty",
            Mutation::EndedBeforeEmpty => "ended_before_empty",
            Mutation::DeadlineIgnored => "deadline_ignored",
            Mutation::EveryoneIsFit => "everyone_is_fit",
            Mutation::ExclusiveHoldWhenNotOurs => "exclusive_hold_when_not_ours",
            Mutation::BindsWhenNotOurs => "binds_when_not_ours",
            Mutation::JudgesWhenNotOurs => "judges_when_not_ours",
            Mutation::TakenOverIsUnknown => "taken_over_is_unknown",
            Mutation::ExclusiveHoldAssumed => "exclusive_hold_assumed",
            Mutation::LapsesWithExclusiveHold => "lapses_with_exclusive_hold",
            Mutation::LeaseKeepsFamilies => "lease_keeps_families",
            Mutation::BeatCountsFromAnswer => "beat_counts_from_answer",
            Mutation::FailedBeatCounts => "failed_beat_counts",
            Mutation::TakesOverWithoutWaiting => "takes_over_without_waiting",
            Mutation::TakeOverWithoutBeatsCheck => "take_over_without_beats_check",
            Mutation::RetireWithoutRegistryCheck => "retire_without_registry_check",
            Mutation::EnlistByGoneRegistry => "enlist_by_gone_registry",
            Mutation::StrangersAreDead => "strangers_are_dead",
            Mutation::FailedTakeOverForgotten => "failed_take_over_forgotten",
            Mutation::AnyNonceSpeaks => "any_nonce_speaks",
        }
    }

    /// The one with this name.
    pub fn from_word(word: &str) -> Option<Mutation> {
        Self::ALL.into_iter().find(|mutation| mutation.word() == word)
    }

    pub(super) fn of_registry(self) -> Option<registry::Mutation> {
        if let Place::Registry(mutation) = self.place() { Some(mutation) } else { None }
    }

    pub(super) fn of_ledger(self) -> Option<ledger::Mutation> {
        match self.place() {
            Place::Ledger(mutation) => Some(mutation),
            // Starts cross with a full set only if a worker asks for them before that is taken.
            Place::Registry(registry::Mutation::FullSetUndoesLaterBind) => {
                Some(ledger::Mutation::TrustsEveryServer)
            }
            _ => None,
        }
    }

    pub(super) fn of_guardian(self) -> Option<guardian::Mutation> {
        if let Place::Guardian(mutation) = self.place() { Some(mutation) } else { None }
    }

    pub(super) fn of_ownership(self) -> Option<ownership::Mutation> {
        if let Place::Ownership(mutation) = self.place() { Some(mutation) } else { None }
    }

    pub(super) fn of_store(self) -> Option<store::Mutation> {
        match self.place() {
            Place::Store(mutation) => Some(mutation),
            // A registry can only judge what it is shown.
            Place::Registry(registry::Mutation::NonOwnerJudges) => Some(store::Mutation::ExpiredShowsOthers),
            _ => None,
        }
    }

    fn place(self) -> Place {
        use Place::*;
        match self {
            Mutation::ExpiresMovesEarlier => Registry(registry::Mutation::ExpiresMovesEarlier),
            Mutation::RenewOnMismatch => Registry(registry::Mutation::RenewOnMismatch),
            Mutation::ReapWithoutFence => Store(store::Mutation::ReapBlindly),
            Mutation::RestartGraceSkipped => Registry(registry::Mutation::RestartGraceSkipped),
            Mutation::NonOwnerJudges => Registry(registry::Mutation::NonOwnerJudges),
            Mutation::UnsyncedIsNotBound => Registry(registry::Mutation::UnsyncedIsNotBound),
            Mutation::FullSetUndoesLaterBind => Registry(registry::Mutation::FullSetUndoesLaterBind),
            Mutation::TimersBeforeInbox
            | Mutation::EveryoneIsFit
            | Mutation::StrangersAreDead
            | Mutation::FailedTakeOverForgotten
            | Mutation::AnyNonceSpeaks => Server,
            Mutation::LateAckAccepted => Ledger(ledger::Mutation::LateAckAccepted),
            Mutation::StartsUnchecked => Ledger(ledger::Mutation::StartsUnchecked),
            Mutation::RetireAskedOnce => Registry(registry::Mutation::RetireAskedOnce),
            Mutation::KnownWorkersThrottled => Registry(registry::Mutation::KnownWorkersThrottled),
            Mutation::StampAtReceive => Ledger(ledger::Mutation::StampAtReceive),
            Mutation::RateErrorIgnored => Ledger(ledger::Mutation::RateErrorIgnored),
            Mutation::KeyReused => Ledger(ledger::Mutation::KeyReused),
            Mutation::StartsBeforeBound => Ledger(ledger::Mutation::StartsBeforeBound),
            Mutation::StopsAtHoldUntil => Ledger(ledger::Mutation::StopsAtHoldUntil),
            Mutation::NeverDooms => Ledger(ledger::Mutation::NeverDooms),
            Mutation::FarewellsEarly => Ledger(ledger::Mutation::FarewellsEarly),
            Mutation::TakesBackSilentExclusive => Registry(registry::Mutation::TakesBackSilentExclusive),
            Mutation::KickHandsOverAtOnce => Registry(registry::Mutation::KickHandsOverAtOnce),
            Mutation::LeaveIgnoresRunningJobs => Registry(registry::Mutation::LeaveIgnoresRunningJobs),
            Mutation::LeavesBeforeEmpty => Guardian(guardian::Mutation::LeavesBeforeEmpty),
            Mutation::EndedBeforeEmpty => Guardian(guardian::Mutation::EndedBeforeEmpty),
            Mutation::DeadlineIgnored => Guardian(guardian::Mutation::DeadlineIgnored),
            Mutation::ExclusiveHoldWhenNotOurs => Registry(registry::Mutation::ExclusiveHoldWhenNotOurs),
            Mutation::BindsWhenNotOurs => Registry(registry::Mutation::BindsWhenNotOurs),
            Mutation::JudgesWhenNotOurs => Registry(registry::Mutation::JudgesWhenNotOurs),
            Mutation::TakenOverIsUnknown => Registry(registry::Mutation::TakenOverIsUnknown),
            Mutation::ExclusiveHoldAssumed => Ledger(ledger::Mutation::ExclusiveHoldAssumed),
            Mutation::LapsesWithExclusiveHold => Ledger(ledger::Mutation::LapsesWithExclusiveHold),
            Mutation::LeaseKeepsFamilies => Guardian(guardian::Mutation::LeaseKeepsFamilies),
            Mutation::BeatCountsFromAnswer => Ownership(ownership::Mutation::StampAtReceive),
            Mutation::FailedBeatCounts => Ownership(ownership::Mutation::FailedBeatCounts),
            Mutation::TakesOverWithoutWaiting => Ownership(ownership::Mutation::TakesOverWithoutWaiting),
            Mutation::TakeOverWithoutBeatsCheck => Store(store::Mutation::TakeOverWithoutBeatsCheck),
            Mutation::RetireWithoutRegistryCheck => Store(store::Mutation::RetireWithoutRegistryCheck),
            Mutation::EnlistByGoneRegistry => Store(store::Mutation::EnlistByGoneRegistry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mutation in Mutation::ALL {
            assert_eq!(Mutation::from_word(mutation.word()), Some(mutation));
        }
        assert_eq!(Mutation::from_word("no_such_bug"), None);
    }
}
