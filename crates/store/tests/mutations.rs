//! The suite notices every deliberate bug, and the case that is about it is among those that do.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use store::conformance::{
    BoxFuture, Case, Harness, TestClock, VOLATILE_BYTES, cases, ready, shared_cases, volatile_cases,
};
use store::{JobStore, MemoryStore, Mutation};

/// Which case must notice which bug.
const NOTICED_BY: [(Mutation, &[&str]); Mutation::ALL.len()] = {
    use Mutation::*;
    [
        (
            FenceNotCompared,
            &[
                "stale_fence_cannot_complete",
                "renewal_with_a_stale_fence_is_lost",
                "progress_needs_the_fence",
                "succession_needs_the_fence",
            ],
        ),
        (
            HolderNotCompared,
            &[
                "another_holder_cannot_complete",
                "renewal_by_another_holder_is_lost",
                "progress_needs_the_holder",
                "succession_takes_only_from_the_former",
            ],
        ),
        (AttemptComparedInsteadOfFence, &["same_worker_reclaim_fences_its_own_zombie"]),
        (ProgressWithoutFence, &["progress_needs_the_fence"]),
        (ProgressKeepsLosses, &["progress_ends_a_row_of_losses"]),
        (
            RenewRevivesLost,
            &["renewal_does_not_revive_a_reaped_job", "renewal_does_not_revive_a_finished_job"],
        ),
        (RenewForgetsOwnLease, &["renewal_grants_the_jobs_own_lease_else_the_queues_else_the_given"]),
        (AlreadyDoneForAnyFence, &["report_that_was_never_accepted_is_stale_after_the_end"]),
        (ReportForgotten, &["repeated_report_is_already_done"]),
        (FailureForgetsError, &["failed_job_comes_back_with_backoff"]),
        (FailureKeepsLosses, &["failure_ends_a_row_of_losses"]),
        (FailureNeverBuried, &["failed_job_comes_back_with_backoff"]),
        (HandBackCountsAttempt, &["handed_back_job_is_offered_at_once"]),
        (CancelledRunningJobCompletes, &["cancelled_attempt_ends_in_cancelled_whatever_its_outcome"]),
        (CancelledLostJobComesBack, &["cancelled_job_ends_when_it_is_lost"]),
        (ReapWithoutLeaseCheck, &["reap_needs_an_expired_lease"]),
        (ReapWithoutFenceCheck, &["reap_needs_the_fence_that_was_seen"]),
        (ReapWithoutSeenLeaseCheck, &["renewed_lease_is_not_reaped_by_a_late_reaper"]),
        (ReapWithoutHolderCheck, &["reaper_that_saw_the_former_does_not_take_from_its_successor"]),
        (
            ReapBlindly,
            &[
                "reap_needs_an_expired_lease",
                "reap_needs_the_fence_that_was_seen",
                "renewed_lease_is_not_reaped_by_a_late_reaper",
                "pushed_lease_is_not_reaped_by_a_late_reaper",
                "reaper_that_saw_the_former_does_not_take_from_its_successor",
            ],
        ),
        (PushWithoutFenceCheck, &["push_needs_the_fence_that_was_seen"]),
        (PushWithoutSeenLeaseCheck, &["push_needs_the_lease_that_was_seen"]),
        (PushMovesEarlier, &["push_never_moves_a_lease_back"]),
        (ReapHolderNotTerminal, &["holder_that_is_not_retired_loses_nothing"]),
        (EnlistIgnoresNonce, &["key_of_another_process_is_taken"]),
        (EnlistIgnoresRegistry, &["owner_of_another_registry_is_named"]),
        (EnlistIgnoresEnd, &["terminal_key_is_not_enlisted_again"]),
        (EnlistShrinksGrant, &["grant_never_gets_smaller"]),
        (RosterShowsOthers, &["roster_is_of_one_registry_by_key"]),
        (RosterShowsTerminal, &["roster_is_without_terminal_workers"]),
        (RetireRewritesEnd, &["first_end_stays"]),
        (ReadmitWhateverTheEnd, &["only_silence_is_forgiven"]),
        (ReadmitWithLease, &["worker_with_a_lease_is_not_readmitted"]),
        (ReadmitWhileHolding, &["holder_is_not_readmitted_with_what_it_held"]),
        (SucceedNotEnlisted, &["succession_needs_both_enlisted"]),
        (SucceedFromTerminal, &["terminal_worker_has_no_successor"]),
        (SucceedToTerminal, &["terminal_worker_succeeds_nobody"]),
        (SucceedItself, &["nobody_succeeds_itself"]),
        (SucceedKeepsFormer, &["succession_ends_the_former"]),
        (ToStopShowsAll, &["holder_is_told_what_was_called_off_and_nothing_else"]),
        (
            TimeLimitSinceEnqueued,
            &["time_limit_runs_from_the_claim", "time_limit_begins_anew_with_each_attempt"],
        ),
        (UncountedLossCounts, &["uncounted_loss_is_offered_at_once"]),
        (LossCountsAsAttempt, &["loss_does_not_count_as_an_attempt"]),
        (LossNeverBuried, &["poison_pill_is_buried_with_its_reason"]),
        (LossWithoutBackoff, &["first_loss_is_offered_at_once_second_backs_off"]),
        (LeaseFollowsWallClock, &["wall_clock_steps_do_not_move_leases"]),
        (FenceResetByRedrive, &["redrive_keeps_the_fence_growing"]),
        (FenceNotIncreased, &["fence_grows_when_an_id_is_reused_after_purge"]),
        (ClaimByTerminalHolder, &["retired_holder_claims_nothing"]),
        (ClaimFromPausedQueue, &["paused_queue_offers_nothing"]),
        (
            ExclusiveIgnoredInClaim,
            &[
                "exclusive_queue_gives_only_to_claims_that_say_so",
                "claim_over_several_queues_gets_from_the_ordinary_ones",
            ],
        ),
        (
            ExclusiveFollowsQueue,
            &[
                "exclusive_claim_stays_so_when_its_queue_changes",
                "ordinary_claim_stays_so_when_its_queue_changes",
            ],
        ),
        (ExclusiveOutlivesClaim, &["next_claim_follows_the_queue"]),
        (SucceedForgetsExclusive, &["exclusive_claim_stays_so_with_the_successor"]),
        (ClaimIgnoresPriority, &["claims_go_by_priority_then_time_then_id"]),
        (ClaimQueueByQueue, &["claims_are_ordered_across_queues"]),
        (ClaimIgnoresBytes, &["claim_stops_when_its_bytes_are_reached"]),
        (PromoteEarly, &["jobs_are_not_promoted_early"]),
        (RequestIdForgotten, &["repeated_request_answers_as_the_first_time"]),
        (UniqueKeyIgnored, &["taken_unique_key_is_answered_with_its_owner"]),
        (UniqueKeyFreedEarly, &["retained_unique_key_stays_taken_until_purge"]),
        (RedriveStealsUniqueKey, &["redrive_is_refused_while_another_has_the_unique_key"]),
        (RedriveKeepsAttempts, &["dead_job_is_offered_again"]),
        (RedriveKeepsCancel, &["cancelled_job_is_offered_again"]),
        (RedriveIgnoresAfter, &["redrive_by_filter_pages_past_taken_keys"]),
        (PurgeTreatsDeadAsCompleted, &["finished_jobs_go_after_their_retention"]),
        (
            PurgeForgetsWorkersAtOnce,
            &["terminal_worker_is_remembered_for_a_day", "retirement_is_final_and_idempotent"],
        ),
        (PurgeForgetsHolders, &["terminal_worker_is_remembered_while_it_holds"]),
        (EnlistIgnoresPings, &["who_pings_and_who_has_a_lease_do_not_share_a_key"]),
        (EnlistByGoneRegistry, &["former_owner_enlists_nobody"]),
        (ExpiredShowsOthers, &["expired_are_those_of_the_registry_and_of_none"]),
        (DeadlinesShowOthers, &["deadlines_are_those_of_the_registry_and_of_none"]),
        (CalledOffShowsOthers, &["called_off_are_those_of_the_registry_and_of_none"]),
        (CalledOffShowsAll, &["called_off_are_those_of_the_registry_and_of_none"]),
        (UnreapedShowsOthers, &["ended_holders_are_shown_until_all_is_taken_back"]),
        (ExtensionMovesOthers, &["extension_moves_the_leases_of_the_registry_and_of_none"]),
        (ReapWithoutRegistryCheck, &["reap_needs_the_registry_that_was_seen", "former_owner_reaps_nobody"]),
        (
            RetireWithoutRegistryCheck,
            &["holder_is_retired_by_its_registry_alone", "former_owner_retires_nobody"],
        ),
        (RetireByGoneRegistry, &["former_owner_retires_nobody"]),
        (
            ReadmitByAnotherRegistry,
            &["holder_is_readmitted_by_its_registry_alone", "former_owner_readmits_nobody"],
        ),
        (SucceedAcrossRegistries, &["succession_stays_in_one_registry"]),
        (RegistryIdGivenAgain, &["registry_ids_never_repeat"]),
        (BeatDoesNotCount, &["beats_are_seen_by_everyone"]),
        (
            TakeOverWithoutBeatsCheck,
            &["take_over_needs_the_beats_that_were_seen", "beat_and_take_over_do_not_both_win"],
        ),
        (TakeOverByGoneRegistry, &["registry_that_is_gone_takes_nobody_over"]),
        (TakeOverItself, &["nobody_takes_over_itself"]),
        (TakeOverLeavesTerminal, &["take_over_moves_everybody_at_once"]),
        (
            TakeOverLeavesRegistry,
            &["beat_of_a_registry_that_was_taken_is_none", "second_take_over_finds_nothing"],
        ),
        (TakeOverCountsLosses, &["loss_by_a_take_over_does_not_count"]),
        (NewsComeBack, &["news_do_not_come_back"]),
        (UnknownHoldNotAdopted, &["unknown_hold_is_adopted"]),
        (WaitingJobNotAdopted, &["job_that_waits_is_adopted"]),
        (TerminalHolderAdopted, &["terminal_holder_is_not_believed"]),
        (SecondCopyAdopted, &["second_copy_of_an_unknown_job_is_lost"]),
        (
            DoubleStartNotCounted,
            &[
                "second_copy_of_an_unknown_job_is_lost",
                "second_copy_of_a_running_job_is_lost",
                "second_copy_of_an_ended_job_is_lost",
                "late_report_after_the_next_start_is_an_alarm",
                "result_of_a_former_life_after_our_start_is_an_alarm",
                "completed_job_does_not_run_again_unnoticed",
            ],
        ),
        (OwnReportRaisesAlarm, &["claim_that_reported_is_lost_without_an_alarm"]),
        (AdoptedJobStartsAgain, &["unknown_hold_is_adopted"]),
        (AdoptedEndsByAnyone, &["adopted_claim_ends_with_its_holders_report_alone"]),
        (AdoptedOutlivesHolder, &["holder_that_is_gone_runs_nothing"]),
        (EarlyResultDropped, &["result_before_its_job_ends_it"]),
        (EarlyResultIgnored, &["result_before_its_job_ends_it", "failure_before_its_job_counts"]),
        (
            LossBeatsLateReport,
            &["late_report_beats_a_loss", "late_report_beats_a_burial", "late_report_beats_a_hand_back"],
        ),
        (LateReportEndsNextAttempt, &["late_report_after_the_next_start_is_an_alarm"]),
        (FenceIgnoresReported, &["fences_grow_past_what_was_reported"]),
        (MarkIgnored, &["ids_below_the_mark_are_refused"]),
        (AcknowledgedRunsAgain, &["acknowledged_job_is_not_run_again", "ids_below_the_mark_are_refused"]),
        (AcknowledgedResultStaysWithItsWorker, &["acknowledged_job_is_not_run_again"]),
        (ClientForgottenAtOnce, &["client_is_forgotten_after_a_day_of_silence"]),
        (RoomWithoutEnd, &["full_store_takes_no_more_and_loses_nothing"]),
        (EndsMakeRoomAtOnce, &["ends_are_kept_for_their_client_though_there_is_no_room"]),
        (
            EndForgottenSilently,
            &[
                "ends_are_kept_for_their_client_though_there_is_no_room",
                "client_is_told_when_ends_were_forgotten",
            ],
        ),
        (VolatileQueueFollowsPatch, &["volatile_queue_is_exclusive_whatever_is_set"]),
        (DurableIdTaken, &["durable_id_is_refused"]),
        (SharedStoreTakesVolatileQueue, &["volatile_queue_is_refused_where_several_serve"]),
    ]
};

#[test]
fn every_mutation_is_noticed_by_the_case_that_is_about_it() {
    // Hundreds of cases are meant to panic here; their messages would bury the one that matters.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let baseline = failing(None);
    let noticed: Vec<_> = NOTICED_BY
        .iter()
        .map(|(mutation, expected)| (mutation, expected, failing(Some(*mutation))))
        .collect();
    panic::set_hook(loud);

    assert_eq!(baseline, Vec::<&str>::new(), "without a bug no case may fail");
    let mut missed = Vec::new();
    for (mutation, expected, failed) in &noticed {
        println!("{mutation:?}: {} cases fail", failed.len());
        missed.extend(
            expected
                .iter()
                .filter(|case| !failed.contains(case))
                .map(|case| format!("{mutation:?} by {case}")),
        );
    }
    assert_eq!(missed, Vec::<String>::new(), "each bug must be noticed by the cases that are about it");
    for mutation in Mutation::ALL {
        assert!(NOTICED_BY.iter().any(|(other, _)| *other == mutation), "{mutation:?} is not in the table");
    }
}

/// The cases that a memory store with this bug fails.
fn failing(mutation: Option<Mutation>) -> Vec<&'static str> {
    let shared = cases().into_iter().chain(shared_cases());
    let shared = shared.filter(|case| fails(case, Shared { mutation, store: OnceLock::new() }));
    let volatile = volatile_cases().into_iter().filter(|case| fails(case, volatile(mutation)));
    shared.chain(volatile).map(|case| case.name).collect()
}

fn fails(case: &Case, harness: impl Harness) -> bool {
    panic::catch_unwind(AssertUnwindSafe(|| ready(case.run(harness)))).is_err()
}

/// A volatile store with this bug.
fn volatile(mutation: Option<Mutation>) -> impl Harness {
    move |clock: Arc<TestClock>| -> Arc<dyn JobStore> {
        Arc::new(match mutation {
            None => MemoryStore::volatile_within(clock, VOLATILE_BYTES),
            Some(mutation) => MemoryStore::volatile_broken(clock, VOLATILE_BYTES, mutation),
        })
    }
}

/// A shared store with this bug, made when it is opened.
struct Shared {
    mutation: Option<Mutation>,
    store: OnceLock<MemoryStore>,
}

impl Harness for Shared {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let store = self.store.get_or_init(|| match self.mutation {
            None => MemoryStore::shared(clock),
            Some(mutation) => MemoryStore::shared_broken(clock, mutation),
        });
        let seat: Arc<dyn JobStore> = Arc::new(store.seat());
        Box::pin(async { seat })
    }

    fn join(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        self.open(clock)
    }
}
