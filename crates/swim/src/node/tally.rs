//! What the votes of a round amount to: a suspicion, a verdict, an acquittal, or nothing yet.

use crate::config::Opinions;
use crate::io::Reason;

/// So many tenths of the expected voters must be present where links are bad.
const PRESENT_TENTHS: usize = 7;

/// Votes, ours among the bad ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) expected: usize,
    pub(super) bad: usize,
    pub(super) good: usize,
    pub(super) silent: usize,
}

impl Tally {
    /// True if so many are silent that others had better be asked.
    pub(super) fn lacks_voters(self, links_are_bad: bool) -> bool {
        if links_are_bad {
            self.present() < self.expected * PRESENT_TENTHS / 10
        } else {
            self.silent * 2 > self.expected - 1
        }
    }

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

    /// When time is over: the verdict of those present, if they are not too few. Who is silent may be gone, or cut off together
    /// with the one in question. But where links are bad each voter is silent or wrong by itself, and few of them can be wrong
    /// together: then most must be present.
    pub(super) fn is_verdict_of_those_present(self, rule: &Opinions, links_are_bad: bool) -> bool {
        let enough =
            if links_are_bad { self.expected * PRESENT_TENTHS / 10 } else { self.expected.div_ceil(3) };
        self.bad >= 2 && self.present() >= enough.max(2) && self.reaches(rule.condemn_percent, self.present())
    }

    /// These votes as the reason of what follows from them.
    pub(super) fn reason(self) -> Reason {
        let small = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        Reason::Opinions { bad: small(self.bad), of: small(self.present()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Ten observers and the one who asks them.
    fn eleven(bad: usize, good: usize) -> Tally {
        Tally { expected: 11, bad, good, silent: 11 - bad - good }
    }

    #[test]
    fn four_of_eleven_suspect_eight_condemn_and_four_acquit() {
        let rule = Config::lan().opinions.expect("it asks");
        let least = |is: &dyn Fn(usize) -> bool| (0..=11).find(|votes| is(*votes));
        assert_eq!(least(&|bad| eleven(bad, 0).is_suspect(&rule)), Some(4));
        assert_eq!(least(&|bad| eleven(bad, 0).is_verdict(&rule)), Some(8));
        assert_eq!(least(&|good| eleven(0, good).is_acquittal(&rule)), Some(4));
    }

    #[test]
    fn when_time_is_over_seven_tenths_of_four_are_enough_but_not_where_links_are_bad() {
        let rule = Config::lan().opinions.expect("it asks");
        let condemns =
            |bad, good, links_are_bad| eleven(bad, good).is_verdict_of_those_present(&rule, links_are_bad);
        assert!(condemns(4, 0, false) && condemns(3, 1, false) && condemns(5, 2, false));
        assert!(!condemns(3, 0, false) && !condemns(3, 2, false));
        assert!(
            !condemns(6, 0, true) && condemns(7, 0, true) && condemns(6, 2, true) && !condemns(5, 3, true)
        );
    }
}
