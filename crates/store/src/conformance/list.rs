//! The list of all cases, in one place, from which both [`cases`] and the test functions of a store are made.

use super::bench::Bench;
use super::harness::Case;
use super::{
    adopted, alone, cancel, claim, clients, durable, early, enqueue, exclusive, finish, handles, leases,
    once, progress, promote, purge, push, queues, random, reads, reap, redrive, registries, renew, retire,
    retry, room, servers, succeed, to_stop, volatile, workers,
};

/// What every store promises.
pub fn cases() -> Vec<Case> {
    crate::conformance_tests!(@every cases)
}

/// What a durable store promises besides: these close the store and open it again.
pub fn durable_cases() -> Vec<Case> {
    crate::conformance_tests!(@durable cases)
}

/// What a durable store for one server promises besides: these close the store and open it again, too.
pub fn alone_cases() -> Vec<Case> {
    crate::conformance_tests!(@alone cases)
}

/// What a store for several servers promises besides: these open more than one handle on it.
pub fn shared_cases() -> Vec<Case> {
    crate::conformance_tests!(@shared cases)
}

/// What a store with volatile queues promises besides.
pub fn volatile_cases() -> Vec<Case> {
    crate::conformance_tests!(@volatile cases)
}

/// The case with this name, of whichever list.
///
/// # Panics
///
/// If there is none.
pub fn case(name: &str) -> Case {
    let all = [cases(), durable_cases(), alone_cases(), shared_cases(), volatile_cases()];
    let found = all.into_iter().flatten().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("the suite has no case named {name}"))
}

/// Makes a `#[test]` of each case. `conformance_tests!(check)` makes those of every store,
/// `conformance_tests!(durable check)` those of durable ones, `conformance_tests!(alone check)` those of durable ones for
/// one server, `conformance_tests!(shared check)` those of stores for several and `conformance_tests!(volatile check)` those
/// of stores with volatile queues; `check` is a function that takes a [`Case`](crate::conformance::Case) and runs it.
#[macro_export]
macro_rules! conformance_tests {
    (durable $check:ident) => { $crate::conformance_tests!(@durable tests $check); };
    (alone $check:ident) => { $crate::conformance_tests!(@alone tests $check); };
    (shared $check:ident) => { $crate::conformance_tests!(@shared tests $check); };
    (volatile $check:ident) => { $crate::conformance_tests!(@volatile tests $check); };
    ($check:ident) => { $crate::conformance_tests!(@every tests $check); };

    (@every $make:ident $($check:ident)?) => {
        $crate::conformance_tests! { @$make $($check)?
            enqueue: new_job_keeps_what_the_producer_gave, extreme_values_survive,
                limits_come_from_the_job_else_the_queue_else_the_default, delayed_job_is_scheduled,
                future_date_is_scheduled, zero_delay_and_past_date_mean_at_once,
                enqueue_names_each_ready_queue_once, existing_id_is_answered_as_duplicate,
                same_id_twice_in_one_batch_inserts_once, mixed_batch_is_answered_in_input_order,
                empty_batch_changes_nothing, large_batch_is_one_batch;
            once: repeated_request_answers_as_the_first_time,
                repeated_request_inserts_nothing_whatever_it_carries,
                repeated_request_is_answered_after_its_job_is_gone, request_of_an_empty_batch_is_remembered,
                request_is_remembered_for_a_day, taken_unique_key_is_answered_with_its_owner,
                unique_key_is_free_once_its_job_ended, retained_unique_key_stays_taken_until_purge,
                unique_key_is_per_queue, same_unique_key_twice_in_one_batch_inserts_once,
                existing_id_is_answered_before_a_taken_key;
            promote: due_jobs_become_available, jobs_are_not_promoted_early, promotion_follows_the_wall_clock,
                promotion_takes_at_most_its_limit_in_order_of_time, scheduled_jobs_are_not_claimed;
            claim: claim_gives_all_a_worker_needs, claims_go_by_priority_then_time_then_id,
                claims_are_ordered_across_queues, claim_takes_at_most_its_limit,
                claim_stops_when_its_bytes_are_reached, claim_takes_a_single_job_larger_than_its_bytes,
                claim_from_an_unknown_queue_gets_nothing, queue_named_twice_gives_each_job_once,
                running_job_is_not_claimed_again, ended_jobs_are_not_claimed, paused_queue_offers_nothing,
                pause_lets_running_jobs_end, retired_holder_claims_nothing,
                lease_is_the_jobs_own_else_the_queues_else_the_claims, fence_is_the_time_of_the_claim,
                fence_grows_while_the_clock_stands, fence_grows_when_an_id_is_reused_after_purge,
                each_job_goes_to_one_holder;
            exclusive: exclusive_queue_gives_only_to_claims_that_say_so,
                claim_over_several_queues_gets_from_the_ordinary_ones,
                paused_exclusive_queue_offers_nothing, claim_from_an_ordinary_queue_is_ordinary,
                renewal_and_rescue_tell_which_claims_are_exclusive,
                exclusive_claim_stays_so_when_its_queue_changes,
                ordinary_claim_stays_so_when_its_queue_changes, next_claim_follows_the_queue,
                nothing_but_its_end_changes_what_a_claim_is, exclusive_claim_stays_so_with_the_successor;
            renew: renewal_moves_the_lease, renewal_with_a_stale_fence_is_lost,
                renewal_by_another_holder_is_lost, renewal_of_an_unknown_job_is_lost,
                renewal_does_not_revive_a_reaped_job, renewal_does_not_revive_a_finished_job,
                expired_hold_can_be_renewed_before_the_reaper_comes,
                renewal_grants_the_jobs_own_lease_else_the_queues_else_the_given, renewal_tells_of_a_cancel,
                mixed_renewals_are_answered_in_input_order, renewal_is_not_progress;
            progress: progress_and_checkpoint_replace_only_what_is_given,
                checkpoint_is_given_to_the_next_attempt, progress_needs_the_fence, progress_needs_the_holder,
                progress_needs_a_running_job, progress_ends_a_row_of_losses,
                mixed_progress_is_answered_in_input_order;
            finish: completed_job_keeps_its_result, empty_and_large_results_are_kept,
                stale_fence_cannot_complete, same_worker_reclaim_fences_its_own_zombie,
                fence_from_the_future_is_stale, another_holder_cannot_complete, waiting_job_cannot_be_finished,
                unknown_job_is_answered_as_unknown, late_report_counts_until_the_reaper_comes,
                reaped_job_cannot_be_finished_by_its_former_holder, repeated_report_is_already_done,
                repeated_report_is_already_done_while_the_next_attempt_runs,
                report_that_was_never_accepted_is_stale_after_the_end, handed_back_job_is_offered_at_once,
                hand_back_keeps_the_losses, long_error_keeps_its_end, mixed_reports_are_answered_in_input_order;
            retry: failed_job_comes_back_with_backoff,
                retry_policy_is_the_jobs_own_else_the_queues_else_the_default, asked_delay_is_kept,
                asked_delay_of_zero_means_at_once, asked_delay_does_not_buy_another_attempt,
                retry_never_buries_at_once, failure_ends_a_row_of_losses, completion_keeps_the_error_before_it,
                first_loss_is_offered_at_once_second_backs_off, loss_does_not_count_as_an_attempt,
                poison_pill_is_buried_with_its_reason, loss_limit_is_the_jobs_own,
                loss_backs_off_by_the_jobs_policy;
            to_stop: holder_is_told_what_was_called_off_and_nothing_else, time_limit_runs_from_the_claim,
                time_limit_begins_anew_with_each_attempt, rows_say_whether_their_time_limit_is_over;
            reap: lease_is_over_at_its_end_and_not_before, expired_are_listed_oldest_first,
                reaped_job_is_without_holder_and_lease, reap_needs_an_expired_lease,
                reap_needs_the_fence_that_was_seen, late_reaper_does_not_take_from_the_next_holder,
                renewed_lease_is_not_reaped_by_a_late_reaper, two_reapers_reap_once, finished_job_is_not_reaped,
                mixed_reap_answers_those_taken_in_input_order, cancelled_job_ends_when_it_is_lost,
                cancelled_poison_pill_is_not_buried, loss_of_one_holder_leaves_the_others;
            push: push_moves_leases_out, push_needs_the_fence_that_was_seen, push_needs_the_lease_that_was_seen,
                push_never_moves_a_lease_back, pushed_lease_is_not_reaped_by_a_late_reaper,
                push_leaves_jobs_that_ended, push_moves_jobs_that_beat_themselves_too, push_counts_a_job_once,
                push_grants_no_longer_lease;
            leases: wall_clock_steps_do_not_move_leases, fences_grow_while_the_wall_clock_steps_back,
                lease_after_a_step_is_as_long_as_before, extension_moves_every_lease,
                extended_lease_is_not_reaped_by_a_late_reaper, extension_of_nothing_is_nothing;
            retire: retired_holder_loses_everything_whatever_the_leases_say,
                holder_that_is_not_retired_loses_nothing, retirement_is_final_and_idempotent,
                retired_holder_may_report_what_was_not_taken_yet, uncounted_loss_is_offered_at_once,
                counted_loss_by_name_backs_off_and_buries, cancelled_job_ends_when_its_holder_is_gone,
                first_end_stays, every_end_is_remembered, silent_pinger_starts_over, only_silence_is_forgiven,
                worker_with_a_lease_is_not_readmitted, holder_is_not_readmitted_with_what_it_held;
            workers: enlisted_worker_is_known, grant_never_gets_smaller, key_of_another_process_is_taken,
                owner_of_another_registry_is_named, terminal_key_is_not_enlisted_again,
                mixed_enlistings_are_answered_in_input_order, key_that_only_claimed_is_no_worker,
                who_pings_and_who_has_a_lease_do_not_share_a_key, expired_tells_who_judges_the_holder, expired_tells_which_jobs_beat_themselves,
                roster_is_of_one_registry_by_key, roster_is_without_terminal_workers;
            registries: expired_are_those_of_the_registry_and_of_none, registry_without_workers_sees_nobody,
                deadlines_are_those_of_the_registry_and_of_none,
                extension_moves_the_leases_of_the_registry_and_of_none, reap_needs_the_registry_that_was_seen,
                holder_is_retired_by_its_registry_alone, plain_holder_is_retired_by_whoever_comes_first,
                holder_is_readmitted_by_its_registry_alone, succession_stays_in_one_registry;
            succeed: successor_goes_on_with_what_moved, succession_ends_the_former,
                succession_without_holds_ends_the_former, succession_needs_the_fence,
                succession_takes_only_from_the_former, terminal_worker_has_no_successor,
                terminal_worker_succeeds_nobody, succession_needs_both_enlisted, nobody_succeeds_itself,
                repeated_succession_answers_as_the_first_time, mixed_succession_is_answered_in_input_order,
                succession_keeps_the_cancel, succession_moves_jobs_of_every_queue,
                reaper_that_saw_the_former_does_not_take_from_its_successor;
            cancel: waiting_job_is_cancelled_at_once, running_job_is_cancelled_by_asking_its_holder,
                cancelled_attempt_ends_in_cancelled_whatever_its_outcome, ended_job_cannot_be_cancelled,
                mixed_cancels_are_answered_in_input_order;
            redrive: dead_job_is_offered_again, poison_pill_has_all_its_losses_again,
                cancelled_job_is_offered_again, redrive_keeps_the_fence_growing,
                live_and_completed_jobs_are_not_redriven, redrive_is_refused_while_another_has_the_unique_key,
                redriven_job_may_have_kept_its_own_key, of_two_with_one_key_the_first_is_redriven,
                mixed_redrives_are_answered_in_input_order, filter_redrives_the_oldest_first_up_to_the_limit,
                filter_redrives_only_what_matches_and_has_ended, filter_answers_for_jobs_whose_key_is_taken,
                redrive_by_filter_pages_past_taken_keys;
            purge: finished_jobs_go_after_their_retention, retention_counts_from_the_end,
                live_jobs_are_never_purged, redriven_job_is_not_purged, purge_takes_at_most_its_limit,
                purge_follows_the_wall_clock, purged_id_is_free_again, terminal_worker_is_remembered_for_a_day,
                terminal_worker_is_remembered_while_it_holds, readmitted_holder_is_not_forgotten,
                purge_forgets_workers_up_to_its_limit_oldest_first, purge_leaves_holders_of_running_jobs,
                holder_that_was_forgotten_is_nobody_else;
            queues: queue_exists_from_its_first_job, settings_can_come_before_the_first_job,
                patch_changes_only_what_it_names, settings_of_one_queue_are_not_anothers,
                stats_count_every_state, oldest_is_the_longest_ready_of_any_priority;
            reads: unknown_job_is_none, list_is_newest_id_first_in_pages, list_shows_whole_jobs,
                list_filters_by_queue_kind_and_state, list_reads_no_more_than_fits_the_page, nothing_is_due_in_an_empty_store,
                next_run_is_the_earliest_scheduled, next_lease_is_the_first_to_run_out, healthy_store_can_write;
            random: random_history_agrees_with_the_memory_store,
                second_random_history_agrees_with_the_memory_store,
                third_random_history_agrees_with_the_memory_store;
        }
    };

    (@durable $make:ident $($check:ident)?) => {
        $crate::conformance_tests! { @$make $($check)?
            durable: reopening_keeps_everything_acknowledged, waiting_jobs_go_on_after_reopening,
                holder_goes_on_after_reopening, fence_never_goes_back_over_a_reopening,
                reopening_shortens_no_lease,
                request_ids_survive_a_reopening, unique_keys_survive_a_reopening, pause_survives_a_reopening,
                exclusive_queue_survives_a_reopening, exclusive_claim_survives_a_reopening,
                cancel_survives_a_reopening,
                retired_holders_survive_a_reopening, workers_survive_a_reopening,
                succession_survives_a_reopening, many_reopenings_change_nothing;
        }
    };

    (@alone $make:ident $($check:ident)?) => {
        $crate::conformance_tests! { @$make $($check)?
            alone: fence_of_a_reused_id_grows_over_a_reopening, volatile_queue_survives_a_reopening,
                nothing_is_reaped_until_workers_had_time_to_come_back,
                short_leases_wait_no_longer_than_the_longest_after_reopening,
                long_lease_does_not_keep_others_from_rescue_after_reopening,
                long_lease_is_granted_in_full_after_reopening,
                loss_caused_by_our_own_restart_does_not_count, loss_after_a_renewal_counts_again,
                loss_by_restart_does_not_count_after_an_extension,
                loss_of_a_claim_made_after_reopening_counts, loss_by_restart_does_not_count_after_a_push,
                loss_after_a_succession_counts_again, reopening_leaves_a_pushed_lease_as_it_is,
                many_reopenings_end_no_lease;
        }
    };

    (@shared $make:ident $($check:ident)?) => {
        $crate::conformance_tests! { @$make $($check)?
            servers: store_for_several_servers_says_so, volatile_queue_is_refused_where_several_serve, registry_ids_never_repeat, beats_are_seen_by_everyone,
                called_off_are_those_of_the_registry_and_of_none, ended_holders_are_shown_until_all_is_taken_back,
                resignation_is_seen, take_over_needs_the_beats_that_were_seen,
                take_over_moves_everybody_at_once, holder_goes_on_through_a_take_over,
                second_take_over_finds_nothing, empty_registry_is_taken_over_too,
                taken_workers_can_be_taken_again, registry_that_is_gone_takes_nobody_over,
                nobody_takes_over_itself, beat_of_a_registry_that_was_taken_is_none,
                former_owner_enlists_nobody, former_owner_retires_nobody, former_owner_reaps_nobody,
                former_owner_readmits_nobody, loss_by_a_take_over_does_not_count,
                loss_after_a_renewal_counts_again_after_a_take_over,
                loss_after_a_succession_counts_again_after_a_take_over,
                loss_by_a_take_over_does_not_count_after_a_push, take_over_leaves_the_losses_of_others;
            handles: handles_show_the_same_jobs, settings_count_for_every_handle,
                handle_that_goes_leaves_the_others, two_handles_never_claim_one_job_twice,
                two_handles_reap_a_job_once, report_and_reap_do_not_both_win,
                unique_key_is_given_once_by_two_handles, request_is_answered_once_by_two_handles,
                claim_during_a_retirement_keeps_nothing, of_two_take_overs_one_succeeds,
                enlisting_during_a_take_over_is_refused_or_moved, beat_and_take_over_do_not_both_win,
                news_reach_the_others, news_do_not_come_back, news_are_kept_while_nobody_waits;
        }
    };

    (@volatile $make:ident $($check:ident)?) => {
        $crate::conformance_tests! { @$make $($check)?
            adopted: unknown_hold_is_adopted, job_that_waits_is_adopted, job_that_was_called_off_is_adopted_and_told,
                second_copy_of_an_unknown_job_is_lost, second_copy_of_a_running_job_is_lost,
                second_copy_of_an_ended_job_is_lost, claim_that_reported_is_lost_without_an_alarm,
                terminal_holder_is_not_believed, holder_that_is_gone_runs_nothing, adopted_job_is_lost_once,
                adopted_lease_runs_out_like_any_other, hold_that_was_taken_back_is_believed_until_the_next_start,
                claim_is_its_process_s_under_its_next_key_too,
                adopted_claim_is_its_process_s_under_its_next_key_too, fences_grow_past_what_was_reported,
                absurd_fence_is_refused;
            early: result_before_its_job_ends_it, failure_before_its_job_counts, result_of_a_job_that_waits_ends_it,
                adopted_claim_ends_with_its_holders_report_alone,
                early_result_is_its_process_s_under_its_next_key_too, adopted_job_can_be_handed_back,
                later_of_two_results_counts, retry_that_runs_replaces_the_failure_before_it,
                completed_job_does_not_run_again_unnoticed, unattended_result_is_not_kept,
                late_report_beats_a_loss, late_report_beats_a_burial, late_report_beats_a_hand_back,
                late_report_after_the_next_start_is_an_alarm, late_report_of_a_holder_that_is_over_is_no_alarm,
                result_of_a_former_life_after_our_start_is_an_alarm,
                loss_after_a_report_changes_nothing, report_of_nobody_is_stale_and_counted;
            clients: ids_below_the_mark_are_refused, acknowledged_job_is_not_run_again,
                ended_jobs_are_told_until_they_are_acknowledged, mark_takes_what_waits_away,
                running_job_below_the_mark_is_not_retried, early_results_below_the_mark_are_unneeded,
                known_id_is_a_duplicate, client_is_forgotten_after_a_day_of_silence,
                client_whose_job_waits_is_not_forgotten, ended_job_is_kept_by_retention;
            room: full_store_takes_no_more_and_loses_nothing, all_that_jobs_carry_is_counted,
                ends_that_nobody_waits_for_make_room_at_once, ends_are_kept_for_their_client_though_there_is_no_room,
                client_is_told_when_ends_were_forgotten;
            volatile: volatile_queue_is_exclusive_whatever_is_set, durable_id_is_refused;
        }
    };

    (@cases $($family:ident: $($name:ident),+;)+) => {
        vec![$($(Case {
            name: stringify!($name),
            // Whatever a case is about, it leaves a sound store behind.
            body: |harness| Box::pin(async move {
                let mut bench = Bench::open(harness).await;
                $family::$name(&mut bench).await;
                bench.audit().await;
            }),
        },)+)+]
    };

    (@tests $check:ident $($family:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                $check($crate::conformance::case(stringify!($name)));
            }
        )+)+
    };
}
