//! Deliberate bugs, each of which some seed must expose: a law that no bug can break is not a law.

use lease::{ledger, registry};

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
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 12] = {
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
        }
    }

    /// The one with this name.
    pub fn from_word(word: &str) -> Option<Mutation> {
        Self::ALL.into_iter().find(|mutation| mutation.word() == word)
    }

    pub(super) fn of_registry(self) -> Option<registry::Mutation> {
        Some(match self {
            Mutation::ExpiresMovesEarlier => registry::Mutation::ExpiresMovesEarlier,
            Mutation::RenewOnMismatch => registry::Mutation::RenewOnMismatch,
            Mutation::RestartGraceSkipped => registry::Mutation::RestartGraceSkipped,
            Mutation::NonOwnerJudges => registry::Mutation::NonOwnerJudges,
            Mutation::UnsyncedIsNotBound => registry::Mutation::UnsyncedIsNotBound,
            Mutation::FullSetUndoesLaterBind => registry::Mutation::FullSetUndoesLaterBind,
            Mutation::RetireAskedOnce => registry::Mutation::RetireAskedOnce,
            Mutation::KnownWorkersThrottled => registry::Mutation::KnownWorkersThrottled,
            _ => return None,
        })
    }

    pub(super) fn of_ledger(self) -> Option<ledger::Mutation> {
        Some(match self {
            Mutation::LateAckAccepted => ledger::Mutation::LateAckAccepted,
            Mutation::StartsUnchecked => ledger::Mutation::StartsUnchecked,
            _ => return None,
        })
    }

    pub(super) fn of_store(self) -> Option<store::Mutation> {
        (self == Mutation::ReapWithoutFence).then_some(store::Mutation::ReapBlindly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_each_breaks_one_thing() {
        for mutation in Mutation::ALL {
            assert_eq!(Mutation::from_word(mutation.word()), Some(mutation));
            let places = [
                mutation.of_registry().is_some(),
                mutation.of_ledger().is_some(),
                mutation.of_store().is_some(),
                mutation == Mutation::TimersBeforeInbox,
            ];
            assert_eq!(places.into_iter().filter(|it| *it).count(), 1, "{mutation:?}");
        }
        assert_eq!(Mutation::from_word("no_such_bug"), None);
    }
}
