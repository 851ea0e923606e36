//! Whether holders that were told to stop a job have had their time to do so.
//!
//! A holder that renews or pings is told in the answer that a job was called off or that its time limit is over. It has a grace
//! from the first time it is told. If it holds the job after that, the job is taken back, and what the holder reports of it is
//! refused. Exclusive jobs are never asked about here: they move by their holder's word or with its lease, whatever it heeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Hold, Instant};

/// Most jobs that are remembered. Beyond that the one whose holder was told first is forgotten: it is told anew.
pub const JOBS_MAX: usize = 100_000;

/// What becomes of a job that its holder should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its holder is told, and has time.
    Told,
    /// Its holder was told long ago: take the job back.
    Unheeded,
}

/// When the holder of each job was first told to stop it.
#[derive(Debug, Default)]
pub struct Heed {
    told: BTreeMap<Hold, Instant>,
    by_age: BTreeSet<(Instant, Hold)>,
}

impl Heed {
    /// The holder should stop this job, and has this long to do so from the first time.
    pub fn tell(&mut self, now: Instant, hold: Hold, grace: Duration) -> Verdict {
        if let Some(first) = self.told.get(&hold) {
            return if now.since(*first) >= grace { Verdict::Unheeded } else { Verdict::Told };
        }
        if self.told.len() == JOBS_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.told.remove(&oldest);
        }
        self.told.insert(hold, now);
        self.by_age.insert((now, hold));
        Verdict::Told
    }

    /// The claim has ended.
    pub fn forget(&mut self, hold: Hold) {
        if let Some(first) = self.told.remove(&hold) {
            self.by_age.remove(&(first, hold));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Fence, JobId};

    use super::*;

    const GRACE: Duration = Duration::from_secs(20);

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    fn hold(number: u64) -> Hold {
        Hold { job: JobId::from_bytes(u128::from(number).to_be_bytes()), fence: Fence::new(1) }
    }

    #[test]
    fn a_holder_has_its_grace_from_the_first_time_it_is_told() {
        let mut heed = Heed::default();
        for (secs, verdict) in
            [(5, Verdict::Told), (15, Verdict::Told), (24, Verdict::Told), (25, Verdict::Unheeded)]
        {
            assert_eq!(heed.tell(at(secs), hold(1), GRACE), verdict, "at {secs} s");
        }
        assert_eq!(heed.tell(at(26), hold(1), GRACE), Verdict::Unheeded, "until the job is taken back");
        assert_eq!(heed.tell(at(26), hold(2), GRACE), Verdict::Told, "each job has its own");
        let next_claim = Hold { fence: Fence::new(2), ..hold(1) };
        assert_eq!(heed.tell(at(26), next_claim, GRACE), Verdict::Told, "and each claim");
        heed.forget(hold(1));
        assert_eq!(heed.tell(at(60), hold(1), GRACE), Verdict::Told);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut heed = Heed::default();
        for number in 0..=JOBS_MAX as u64 {
            heed.tell(at(number), hold(number), GRACE);
        }
        assert_eq!((heed.told.len(), heed.by_age.len()), (JOBS_MAX, JOBS_MAX));
        let late = at(JOBS_MAX as u64 + 100);
        assert_eq!(heed.tell(late, hold(1), GRACE), Verdict::Unheeded);
        assert_eq!(heed.tell(late, hold(0), GRACE), Verdict::Told, "the oldest is told anew");
        (0..=JOBS_MAX as u64).for_each(|number| heed.forget(hold(number)));
        assert!(heed.told.is_empty() && heed.by_age.is_empty());
    }
}
