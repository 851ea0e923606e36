//! Deliberate bugs, each of which some seed must expose: a law that no bug can break is not a law.

use lease::{guardian, ledger, registry};

/// A deliberate bug in one of the machines, or in the way a process runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// The registry lets a shorter grant take back what a longer one promised.
    ExpiresMovesEarlier,
    /// The registry renews the lease of a heartbeat with a wrong token.
    RenewOnMismatch,
    /// The store takes back jobs without comparing fence and lease.
    ReapWithoutFence,
    /// The registry ends restored workers at once.
    RestartGraceSkipped,
    /// The registry judges workers of another one.
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
}

/// What a bug is in.
enum Place {
    Registry(registry::Mutation),
    Ledger(ledger::Mutation),
    Guardian(guardian::Mutation),
    Store(store::Mutation),
    /// The way a server process runs its machines.
    Server,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 26] = {
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
        if let Place::Ledger(mutation) = self.place() { Some(mutation) } else { None }
    }

    pub(super) fn of_guardian(self) -> Option<guardian::Mutation> {
        if let Place::Guardian(mutation) = self.place() { Some(mutation) } else { None }
    }

    pub(super) fn of_store(self) -> Option<store::Mutation> {
        if let Place::Store(mutation) = self.place() { Some(mutation) } else { None }
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
            Mutation::TimersBeforeInbox | Mutation::EveryoneIsFit => Server,
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
