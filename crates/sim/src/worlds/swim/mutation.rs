//! Deliberate bugs, each of which some seed must expose: a law that no bug can break is not a law.

/// A deliberate bug in all machines of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutation(swim::Mutation);

impl Mutation {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Mutation> {
        swim::Mutation::ALL.into_iter().map(Mutation)
    }

    /// Its name, as people type it.
    pub fn word(self) -> &'static str {
        self.0.word()
    }

    /// The one with this name.
    pub fn from_word(word: &str) -> Option<Mutation> {
        Self::all().find(|mutation| mutation.word() == word)
    }

    pub(super) fn of_machine(self) -> swim::Mutation {
        self.0
    }
}

impl From<swim::Mutation> for Mutation {
    fn from(mutation: swim::Mutation) -> Self {
        Mutation(mutation)
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
        assert_eq!(Mutation(swim::Mutation::NeverRefutes).word(), "never_refutes");
        assert_eq!(Mutation::from_word("no_such_bug"), None);
    }
}
