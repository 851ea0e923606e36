//! How often a server comes back after others ended its epoch. Two servers with one number would otherwise expel each other
//! for ever: whoever was expelled too often gives up, and the other one stays.

use std::time::Duration;

use model::Instant;

/// This many within [`WINDOW`] are too many. Once is an operator or a lost data directory; twice may be both.
const EXPULSIONS_MAX: usize = 3;
/// Within which they count.
const WINDOW: Duration = Duration::from_secs(60);

/// The last expulsions.
#[derive(Debug, Default)]
pub(crate) struct Expulsions {
    times: Vec<Instant>,
}

/// What to do after one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Rejoin,
    GiveUp,
}

impl Expulsions {
    /// Notes one.
    pub(crate) fn note(&mut self, now: Instant) -> Verdict {
        self.times.retain(|time| now.since(*time) < WINDOW);
        self.times.push(now);
        if self.times.len() < EXPULSIONS_MAX { Verdict::Rejoin } else { Verdict::GiveUp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_quarrel_ends_and_rare_expulsions_do_not_add_up() {
        let mut expulsions = Expulsions::default();
        assert_eq!(
            [0, 10, 59].map(|t| expulsions.note(at(t))),
            [Verdict::Rejoin, Verdict::Rejoin, Verdict::GiveUp]
        );
        let mut expulsions = Expulsions::default();
        for t in [0, 40, 80, 120, 160] {
            assert_eq!(expulsions.note(at(t)), Verdict::Rejoin, "at {t} s");
        }
    }
}
