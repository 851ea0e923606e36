//! The cases notice every deliberate bug.

use std::panic::{self, AssertUnwindSafe};

use super::*;

type Case = (&'static str, fn(&mut Rig));

const CASES: [Case; 23] = [
    ("a late acknowledgement changes nothing", lapse::a_late_acknowledgement_changes_nothing),
    ("a mismatch keeps the changes", bindings::a_mismatch_keeps_the_changes),
    ("a start that is not current is refused", starts::a_start_that_is_not_current_is_refused),
    ("a lease counts from the send stamp", lapse::a_lease_counts_from_the_send_stamp),
    ("a lease ends early by the rate error", lapse::a_lease_ends_early_by_the_rate_error),
    ("a lapsed key is never used again", lapse::a_lapsed_key_is_never_used_again),
    (
        "an exclusive job starts when its bind is taken",
        exclusive::an_exclusive_job_starts_when_its_bind_is_taken,
    ),
    ("an acknowledged heartbeat starts nothing", exclusive::an_acknowledged_heartbeat_starts_nothing),
    ("what must stop never starts", exclusive::what_must_stop_before_its_start_never_starts),
    ("exclusive jobs are gone in time", endings::exclusive_jobs_are_gone_before_the_lease_is_over),
    ("a renewal brings nothing back", endings::a_renewal_does_not_bring_back_what_was_told_to_stop),
    ("what does not end dooms the process", endings::what_does_not_end_takes_the_process_with_it),
    ("a running exclusive job is not inherited", endings::a_running_exclusive_job_is_not_inherited),
    ("a farewell waits for the last job", farewell::a_farewell_waits_for_the_last_job_of_its_key),
    ("an exclusive hold needs to be vouched for", holds::only_answers_that_vouch_extend_the_exclusive_hold),
    ("nothing exclusive starts without its hold", holds::nothing_exclusive_starts_without_its_hold),
    ("ordinary jobs outlive the exclusive hold", holds::ordinary_jobs_outlive_the_exclusive_hold),
    ("a server is trusted when it took a heartbeat", holds::a_server_is_trusted_when_it_took_a_heartbeat),
    ("what may start at once starts only in time", at_once::what_starts_at_once_starts_in_time_and_alone),
    ("who is not well starts nothing", at_once::whoever_is_not_well_starts_nothing),
    ("a new key is in no set", servers::a_new_key_is_in_no_set),
    ("a set outlives its server", servers::a_set_is_said_to_the_next_life_of_the_server),
    ("a new life of the server hears everything", servers::a_new_life_of_the_server_hears_everything),
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
