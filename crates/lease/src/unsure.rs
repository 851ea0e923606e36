//! Jobs that may be running or not: how long until somebody asks again.
//!
//! A start that failed without proof counts as running until its worker has said something that settles it. Most are settled
//! by the next heartbeat, a few only when the worker ends; so each question comes after twice the time of the one before.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Hold;

/// No pause is longer than this many periods.
const PERIODS_MAX: u32 = 256;
/// Most jobs whose place is remembered; beyond that those are forgotten, and begin anew, that were not asked about for longest.
pub const JOBS_MAX: usize = 100_000;

/// Where each job stands: 1, 2, 4 … 256 periods.
#[derive(Debug)]
pub struct Ladder {
    period: Duration,
    /// The next pause of each, in periods.
    young: BTreeMap<Hold, u32>,
    /// The same of those that were not asked about since `young` was full. A job that ended unasked goes with these.
    old: BTreeMap<Hold, u32>,
}

impl Ladder {
    /// Everybody's first pause is one period.
    pub fn new(period: Duration) -> Self {
        Ladder { period, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// This one could not be judged: how long until it is asked about again.
    pub fn next(&mut self, hold: Hold) -> Duration {
        let known = self.young.remove(&hold).or_else(|| self.old.remove(&hold));
        let periods = known.unwrap_or(1);
        if self.young.len() >= JOBS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hold, (periods * 2).min(PERIODS_MAX));
        self.period * periods
    }

    /// It was judged.
    pub fn forget(&mut self, hold: Hold) {
        self.young.remove(&hold);
        self.old.remove(&hold);
    }
}

#[cfg(test)]
mod tests {
    use model::{Fence, JobId};

    use super::*;

    const PERIOD: Duration = Duration::from_secs(2);

    fn hold(number: u64) -> Hold {
        Hold { job: JobId::from_bytes(u128::from(number).to_be_bytes()), fence: Fence::new(1) }
    }

    fn periods(ladder: &mut Ladder, number: u64) -> u64 {
        let pause = ladder.next(hold(number));
        assert_eq!(pause.as_secs() % PERIOD.as_secs(), 0);
        pause.as_secs() / PERIOD.as_secs()
    }

    #[test]
    fn each_pause_is_twice_the_one_before_up_to_256_periods() {
        let mut ladder = Ladder::new(PERIOD);
        let climb: Vec<u64> = (0..11).map(|_| periods(&mut ladder, 1)).collect();
        assert_eq!(climb, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
        assert_eq!(periods(&mut ladder, 2), 1, "each has its own place");
        ladder.forget(hold(1));
        assert_eq!([periods(&mut ladder, 1), periods(&mut ladder, 1)], [1, 2], "once judged it begins anew");
        assert_eq!(periods(&mut ladder, 2), 2, "and the other one goes on");
    }

    #[test]
    fn what_is_never_asked_about_again_is_forgotten() {
        let mut ladder = Ladder::new(PERIOD);
        let half = JOBS_MAX as u64 / 2;
        for round in 0..5 {
            for number in 0..half {
                assert_eq!(periods(&mut ladder, 1_000_000 * (round + 1) + number), 1);
                if number % 1_000 == 0 {
                    periods(&mut ladder, 7);
                }
            }
            assert!(ladder.young.len() + ladder.old.len() <= JOBS_MAX);
        }
        assert_eq!(periods(&mut ladder, 7), 256, "but not what is");
        assert_eq!(periods(&mut ladder, 1_000_000), 1, "it was forgotten");
        ladder.forget(hold(5_000_000 + half - 1));
        assert_eq!(periods(&mut ladder, 5_000_000 + half - 1), 1);
    }
}
