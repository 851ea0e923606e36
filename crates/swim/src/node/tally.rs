//! What the votes of a round amount to: a suspicion, a verdict, an acquittal, or nothing yet.

use crate::config::Opinions;
use crate::io::Reason;

/// Votes, ours among the bad ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) expected: usize,
    pub(super) bad: usize,
    pub(super) good: usize,
    pub(super) silent: usize,
}

impl Tally {
    /// Voters who could tell.
    pub(super) fn present(self) -> usize {
        self.bad + self.good
    }

    pub(super) fn reaches(self, percent: u32, of: usize) -> bool {
        self.bad * 100 >= percent as usize * of
    }

    /// L of all expected voters are bad, somebody beside us among them.
    pub(super) fn is_suspect(self, rule: &Opinions) -> bool {
        self.bad >= 2 && self.reaches(rule.suspect_percent, self.expected)
    }

    pub(super) fn is_verdict(self, rule: &Opinions) -> bool {
        self.bad >= 2 && self.reaches(rule.condemn_percent, self.expected)
    }

    /// So many are good that the others are too few for a verdict.
    pub(super) fn is_acquittal(self, rule: &Opinions) -> bool {
        (self.expected - self.good) * 100 < rule.condemn_percent as usize * self.expected
    }

    /// When time is over: the verdict of those present, if they are not too few.
    pub(super) fn is_verdict_of_those_present(self, rule: &Opinions) -> bool {
        let enough = self.expected.div_ceil(3).max(2);
        self.bad >= 2 && self.present() >= enough && self.reaches(rule.condemn_percent, self.present())
    }

    /// These votes as the reason of what follows from them.
    pub(super) fn reason(self) -> Reason {
        let small = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        Reason::Opinions { bad: small(self.bad), of: small(self.present()) }
    }
}
