//! **The promise:** two copies of an exclusive job never run at the same time. By true time, nothing of an earlier claim
//! runs any more, neither leader nor child nor grandchild, when the job is handed to its next holder; let alone when
//! that one starts it.

use model::Hold;

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "running_twice";

/// An exclusive job is claimed while something of this claim of it runs, if anything does.
pub(in super::super) fn check_claim(hold: Hold, live: Option<Hold>) -> Verdict {
    holds(LAW, live.is_none(), || told(hold, "is claimed", live))
}

/// An exclusive job is started while something of this claim of it runs, if anything does.
pub(in super::super) fn check_start(hold: Hold, live: Option<Hold>) -> Verdict {
    holds(LAW, live.is_none(), || told(hold, "starts", live))
}

fn told(hold: Hold, what: &str, live: Option<Hold>) -> String {
    format!("{} {what} while {} still runs", shown(hold), live.map(shown).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use model::Fence;

    use super::*;
    use crate::worlds::jobs::books::job_id;

    /// What starts beside itself was claimed beside itself before, so no bug gets as far as this check; hence a test of it.
    #[test]
    fn a_start_beside_a_live_claim_is_noticed() {
        let hold = |fence| Hold { job: job_id(1), fence: Fence::new(fence) };
        assert_eq!(check_start(hold(2), None), Ok(()));
        let broken = check_start(hold(2), Some(hold(1))).expect_err("two run");
        assert_eq!(broken.what, "job 1 fence 2 starts while job 1 fence 1 still runs");
    }
}
