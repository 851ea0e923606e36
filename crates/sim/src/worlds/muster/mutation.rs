//! Deliberate bugs, each of which some seed must expose: a law that no bug can break is not a law.

/// A deliberate bug: in the machine, or in what this world puts around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// One of the machine.
    Machine(muster::Mutation),
    /// A worker whose hold is over goes on.
    HoldIgnored,
    /// A worker takes starts of a stream, and so of a scheduler, that it has left.
    OldStartsTaken,
    /// A scheduler mints fences by the wall clock alone.
    FencesByWall,
    /// A scheduler never asks about starts that may not have arrived.
    UnsureForgotten,
    /// A scheduler counts leases from when it heard of a worker first.
    LeasesNeverRenewed,
}

impl Mutation {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Mutation> {
        use Mutation::*;
        let ours = [HoldIgnored, OldStartsTaken, FencesByWall, UnsureForgotten, LeasesNeverRenewed];
        muster::Mutation::ALL.into_iter().map(Machine).chain(ours)
    }

    /// Its name, as people type it.
    pub fn word(self) -> &'static str {
        match self {
            Mutation::Machine(mutation) => mutation.word(),
            Mutation::HoldIgnored => "hold_ignored",
            Mutation::OldStartsTaken => "old_starts_taken",
            Mutation::FencesByWall => "fences_by_wall",
            Mutation::UnsureForgotten => "unsure_forgotten",
            Mutation::LeasesNeverRenewed => "leases_never_renewed",
        }
    }

    /// The one with this name.
    pub fn from_word(word: &str) -> Option<Mutation> {
        Self::all().find(|mutation| mutation.word() == word)
    }

    pub(super) fn of_machine(self) -> Option<muster::Mutation> {
        if let Mutation::Machine(mutation) = self { Some(mutation) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mutation in Mutation::all() {
            assert_eq!(Mutation::from_word(mutation.word()), Some(mutation));
        }
        assert_eq!(Mutation::from_word("no_such_bug"), None);
    }
}
