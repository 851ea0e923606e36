//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests, the simulator and the model checker switch one on, with
/// [`Consensus::broken`](crate::Consensus::broken) or [`Muster::broken`](crate::Muster::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// Every worker is permitted at once.
    GateRemoved,
    /// Members that are not healthy do not count.
    UnhealthyExcluded,
    /// The wait ends although the tasks of some are not known.
    NewIgnored,
    /// Set ids are told during the wait.
    IdsDuringWait,
    /// Who was healthy is held back again.
    LatchForgotten,
    /// Labels rise to those of workers that are not in the set.
    StrangersRaiseLabels,
    /// What was told counts as echoed.
    TellingIsEnough,
    /// The wait begins again when a worker joins.
    ExitReentered,
    /// Newcomers never queue.
    NoBatching,
    /// Workers that agree on a set are enough, whoever is in it.
    HashIgnored,
    /// Who is dead holds others back for ever.
    MustDieCounts,
    /// Who has not said what it holds holds nobody back.
    LimboIgnored,
    /// A newcomer that did not get its seat is not counted during the wait.
    TurnedAwayIgnored,
    /// Who lost its seat is not counted any more, though it may still run.
    BumpedForgotten,
    /// A healthcheck counts from when it came back.
    CheckCreditedLate,
    /// Who is held back for long is renewed no more.
    HeldBackIsLost,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 16] = {
        use Mutation::*;
        [
            GateRemoved,
            UnhealthyExcluded,
            NewIgnored,
            IdsDuringWait,
            LatchForgotten,
            StrangersRaiseLabels,
            TellingIsEnough,
            ExitReentered,
            NoBatching,
            HashIgnored,
            MustDieCounts,
            LimboIgnored,
            TurnedAwayIgnored,
            BumpedForgotten,
            CheckCreditedLate,
            HeldBackIsLost,
        ]
    };

    /// Its name on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Mutation::GateRemoved => "gate_removed",
            Mutation::UnhealthyExcluded => "unhealthy_excluded",
            Mutation::NewIgnored => "new_ignored",
            Mutation::IdsDuringWait => "ids_during_wait",
            Mutation::LatchForgotten => "latch_forgotten",
            Mutation::StrangersRaiseLabels => "strangers_raise_labels",
            Mutation::TellingIsEnough => "telling_is_enough",
            Mutation::ExitReentered => "exit_reentered",
            Mutation::NoBatching => "no_batching",
            Mutation::HashIgnored => "hash_ignored",
            Mutation::MustDieCounts => "must_die_counts",
            Mutation::LimboIgnored => "limbo_ignored",
            Mutation::TurnedAwayIgnored => "turned_away_ignored",
            Mutation::BumpedForgotten => "bumped_forgotten",
            Mutation::CheckCreditedLate => "check_credited_late",
            Mutation::HeldBackIsLost => "held_back_is_lost",
        }
    }
}
