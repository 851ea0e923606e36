//! The cases notice every deliberate bug.

use std::panic::{self, AssertUnwindSafe};

use super::*;

type Case = (&'static str, fn(&mut Rig));

const CASES: [Case; 6] = [
    ("a late acknowledgement changes nothing", lapse::a_late_acknowledgement_changes_nothing),
    ("a mismatch keeps the changes", bindings::a_mismatch_keeps_the_changes),
    ("a start that is not current is refused", starts::a_start_that_is_not_current_is_refused),
    ("a lease counts from the send stamp", lapse::a_lease_counts_from_the_send_stamp),
    ("a lease ends early by the rate error", lapse::a_lease_ends_early_by_the_rate_error),
    ("a lapsed key is never used again", lapse::a_lapsed_key_is_never_used_again),
];

#[test]
fn every_mutation_is_noticed_by_the_case_that_is_about_it() {
    assert_eq!(failing(None), Vec::<&str>::new(), "without a bug no case may fail");
    for (mutation, (expected, _)) in Mutation::ALL.into_iter().zip(CASES) {
        let failed = failing(Some(mutation));
        assert!(failed.contains(&expected), "{mutation:?} is not noticed: only {failed:?}");
    }
}

/// The cases that a ledger with this bug fails.
fn failing(mutation: Option<Mutation>) -> Vec<&'static str> {
    let fails = |run: fn(&mut Rig)| {
        panic::catch_unwind(AssertUnwindSafe(|| run(&mut Rig::broken(mutation)))).is_err()
    };
    CASES.into_iter().filter(|(_, run)| fails(*run)).map(|(name, _)| name).collect()
}
