//! The cases notice every deliberate bug, and the case that is about it is among those that do.

use std::panic;

use super::{
    Bug, Case, answers, binding, bounds, checking, ending, exclusive, grants, late_words, memoryless, owned,
    restart, speaking, stopping, succession, synced, take_over, verification, volatile,
};
use crate::registry::Mutation;

/// Which case must notice which bug.
const NOTICED_BY: [(Mutation, &[&str]); Mutation::ALL.len()] = {
    use Mutation::*;
    [
        (ExpiresMovesEarlier, &["expires_never_moves_earlier"]),
        (RenewOnMismatch, &["mismatch_never_renews"]),
        (DeltasClearedOnMismatch, &["changes_survive_a_mismatch"]),
        (
            RestartGraceSkipped,
            &[
                "restored_worker_has_its_largest_grant_to_find_us",
                "taken_over_worker_has_its_largest_grant_to_find_us",
            ],
        ),
        (JudgedBeforeRestored, &["nobody_is_judged_before_the_store_was_read"]),
        (NonOwnerJudges, &["row_of_another_registry_is_not_ours_to_judge"]),
        (
            UnsyncedIsNotBound,
            &["unsynced_worker_is_asked_about_again", "restored_worker_is_unsynced_until_every_row_was_read"],
        ),
        (FullSetUndoesLaterBind, &["full_set_does_not_undo_a_later_bind"]),
        (
            OwnStallIgnored,
            &["own_stall_is_given_back_before_anybody_is_judged", "stall_is_noticed_by_whatever_comes_first"],
        ),
        (
            NonceIgnored,
            &[
                "second_process_with_one_key_changes_nothing",
                "second_process_is_told_while_the_first_joins",
                "early_bind_of_somebody_else_is_ignored",
                "leave_with_another_nonce_changes_nothing",
                "worker_speaks_for_its_key_and_nobody_else_does",
                "restored_worker_speaks_before_it_was_heard",
            ],
        ),
        (EndedIsRevived, &["heartbeat_after_the_end_is_inactive"]),
        (
            RefusedMarkForgotten,
            &[
                "refused_bind_is_lost_even_with_a_record",
                "refused_bind_is_lost_even_if_its_row_still_says_held",
            ],
        ),
        (RetireNotDurableFirst, &["ended_worker_is_taken_back_from_once_that_is_durable"]),
        (RetireAskedOnce, &["retirement_is_asked_for_until_it_is_done"]),
        (LargerGrantNotDurable, &["larger_grant_is_durable_before_it_is_answered"]),
        (UnbindNotFinal, &["delayed_early_bind_does_not_undo_an_unbind"]),
        (UnbindsBeforeBinds, &["binds_apply_before_unbinds"]),
        (
            BoundBeforeChecked,
            &[
                "early_bind_without_a_record_is_acknowledged_when_its_row_says_so",
                "exclusive_bind_without_a_record_waits_for_its_row",
            ],
        ),
        (BindNotChecked, &["bind_without_a_record_is_checked"]),
        (DigestIgnored, &["different_sets_are_noticed_and_healed"]),
        (
            StopToldOnce,
            &["stop_is_repeated_until_the_hold_is_unbound", "cancelled_job_is_stopped_until_it_is_unbound"],
        ),
        (KnownWorkersThrottled, &["known_workers_are_never_throttled"]),
        (
            FormerExpires,
            &[
                "former_cannot_expire_while_its_holds_move",
                "former_cannot_expire_from_the_first_heartbeat_of_its_successor_on",
            ],
        ),
        (LeaveIgnoresRunningJobs, &["worker_that_leaves_while_jobs_run_is_only_silent"]),
        (TakesBackSilentExclusive, &["silent_exclusive_job_is_told_to_stop_and_stays"]),
        (KickHandsOverAtOnce, &["kicked_worker_with_exclusive_jobs_stops_first"]),
        (GoneWithItsSession, &["kicked_worker_with_exclusive_jobs_stops_first"]),
        (RepeatedBindIgnored, &["repeated_bind_is_answered_again"]),
        (
            ExclusiveHoldWhenNotOurs,
            &[
                "exclusive_hold_is_extended_only_while_the_registry_is_ours",
                "heartbeat_that_waited_for_the_store_is_answered_by_what_is_certain_now",
                "last_word_counts",
            ],
        ),
        (
            BindsWhenNotOurs,
            &[
                "exclusive_bind_is_acknowledged_when_the_registry_is_ours_again",
                "early_exclusive_bind_is_withheld_and_said_later",
                "exclusive_bind_whose_row_was_read_is_withheld_and_said_later",
                "ordinary_binds_wait_for_nothing",
                "exclusive_lease_that_ran_out_stays_run_out",
            ],
        ),
        (
            WithheldIsForgotten,
            &[
                "exclusive_bind_is_acknowledged_when_the_registry_is_ours_again",
                "early_exclusive_bind_is_withheld_and_said_later",
                "exclusive_bind_whose_row_was_read_is_withheld_and_said_later",
            ],
        ),
        (
            EnlistsWhenNotOurs,
            &["first_heartbeat_comes_back_later", "nobody_new_is_taken_while_others_are_taken_over"],
        ),
        (JudgesWhenNotOurs, &["lease_timer_ends_nobody", "rows_are_asked_about_again", "kick_waits"]),
        (
            CutOffCountsAgainstWorkers,
            &[
                "lease_timer_ends_nobody",
                "silence_while_cut_off_does_not_count",
                "late_answers_do_not_hide_how_long_it_was_not_ours",
            ],
        ),
        (TakenOverIsUnknown, &["unknown_holder_may_be_one_that_is_being_taken_over"]),
        (JoiningIsNotRestored, &["worker_that_joins_here_while_it_is_taken_over_is_not_new"]),
        (LeaveOverlooksTakeOver, &["leave_waits_until_it_is_known_who_is_taken_over"]),
        (
            UnknownIsNew,
            &[
                "worker_from_before_says_everything_first",
                "task_of_a_worker_from_before_is_not_started_twice",
            ],
        ),
        (
            UnsureIsTakenBack,
            &[
                "start_that_may_be_on_its_way_is_not_taken_back",
                "start_over_an_older_stream_has_come_to_nothing",
                "volatile_job_that_must_stop_is_not_taken_back",
            ],
        ),
        (
            SyncedBeforeChecked,
            &[
                "worker_with_jobs_is_synced_when_their_rows_were_read",
                "worker_that_ends_before_is_never_synced",
                "task_of_a_worker_from_before_is_not_started_twice",
            ],
        ),
    ]
};

fn cases() -> impl Iterator<Item = &'static Case> {
    let files = [
        answers::CASES,
        binding::CASES,
        bounds::CASES,
        checking::CASES,
        ending::CASES,
        exclusive::CASES,
        grants::CASES,
        late_words::CASES,
        memoryless::CASES,
        owned::CASES,
        restart::CASES,
        speaking::CASES,
        stopping::CASES,
        succession::CASES,
        synced::CASES,
        take_over::CASES,
        verification::CASES,
        volatile::CASES,
    ];
    files.into_iter().flatten()
}

fn fails(name: &str, bug: Bug) -> bool {
    let (_, case) = cases().find(|(it, _)| *it == name).expect("the table names cases");
    panic::catch_unwind(|| case(bug)).is_err()
}

#[test]
fn every_bug_is_noticed_by_the_cases_that_are_about_it() {
    let mut missed = Vec::new();
    for (mutation, expected) in NOTICED_BY {
        for case in expected {
            assert!(!fails(case, None), "{case} fails without a bug");
            if !fails(case, Some(mutation)) {
                missed.push(format!("{mutation:?} by {case}"));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new(), "each bug must be noticed by the cases that are about it");
    for mutation in Mutation::ALL {
        assert!(NOTICED_BY.iter().any(|(other, _)| *other == mutation), "{mutation:?} is not in the table");
    }
}
