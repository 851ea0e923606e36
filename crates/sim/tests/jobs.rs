//! The world of jobs as a whole: its laws hold, its runs can be told again, and every deliberate bug is noticed.

use std::num::NonZeroUsize;
use std::time::Duration;

use sim::jobs::{LAWS, Mutation, Options, percentile, replay, run};

#[test]
fn no_law_is_broken() {
    let options = Options { seeds: 100, minutes: 2, ..Options::default() };
    let report = run(&options, |_, _| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    // The world must not be idle, or its laws were not tried.
    let stats = &report.stats;
    assert_eq!(report.seeds, 100);
    assert!(
        stats.jobs > 10_000 && stats.completed + stats.cancelled + stats.buried >= stats.jobs,
        "{stats:?}"
    );
    for (what, count) in [
        ("expired", stats.expired),
        ("succeeded", stats.succeeded),
        ("stale reports", stats.stale_reports),
        ("rescues", stats.rescues.len() as u64),
        ("faults", stats.faults),
        ("exclusive runs", stats.exclusive_runs),
        ("hand-overs of exclusive jobs", stats.handovers.len() as u64),
        ("guardians killed", stats.guardians_killed),
        ("take-overs", stats.take_overs),
        ("redirects", stats.redirects),
        ("answers of servers that are not sure", stats.unsure_answers),
        ("usurpers refused", stats.usurpers_refused),
    ] {
        assert!(count > 100, "{what}: {count}");
    }
    for (what, count) in [
        ("dooms", stats.dooms),
        ("workers killed", stats.workers_killed),
        ("rescues by guardians", stats.crash_rescues.len() as u64),
    ] {
        assert!(count > 5, "{what}: {count}");
    }
    assert!(stats.margin_min.is_some_and(|margin| margin > 0), "{:?}", stats.margin_min);
    assert!(stats.ownership_margin_min.is_some_and(|margin| margin > 0), "{:?}", stats.ownership_margin_min);
    let rescue = percentile(&stats.crash_rescues, 99).expect("there were some");
    assert!(rescue < Duration::from_secs(1), "a guardian has crashes rescued at once, not after {rescue:?}");
}

#[test]
fn no_law_is_broken_at_the_edge() {
    let options = Options { seeds: 40, minutes: 5, at_the_edge: true, ..Options::default() };
    let report = run(&options, |_, _| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    assert!(report.stats.expired > 100 && report.stats.handovers.len() > 100, "{:?}", report.stats.expired);
}

#[test]
fn a_seed_tells_the_same_story_on_any_number_of_threads() {
    let options = Options { seeds: 8, first_seed: 500, minutes: 1, ..Options::default() };
    let alone = Options { threads: NonZeroUsize::new(1), ..options.clone() };
    let (many, one) = (run(&options, |_, _| {}), run(&alone, |_, _| {}));
    assert_eq!(many.trace_hash, one.trace_hash);
    assert_eq!(many.stats, one.stats);
    let others = run(&Options { first_seed: 501, ..options }, |_, _| {});
    assert_ne!(many.trace_hash, others.trace_hash);
}

#[test]
fn a_replay_is_the_run_with_words() {
    let options = Options { seeds: 1, first_seed: 3, minutes: 1, ..Options::default() };
    let mut lines = 0;
    let replayed = replay(3, &options, &mut |line| lines += usize::from(!line.is_empty()));
    assert_eq!(replayed.trace_hash, run(&options, |_, _| {}).trace_hash);
    assert!(lines > 100, "{lines} lines");
}

/// Runs seeds until one exposes the bug; the law it broke and the report's last words.
fn caught(mutation: Mutation, worlds: Options) -> Option<&'static str> {
    let batch = Options { seeds: 8, minutes: 5, mutation: Some(mutation), ..worlds };
    (0..25).find_map(|number| {
        let report = run(&Options { first_seed: 1 + number * batch.seeds, ..batch.clone() }, |_, _| {});
        let failure = report.failures.into_iter().next()?;
        assert!(LAWS.contains(&failure.violation.law));
        let last = failure.last_events.last().expect("a failure shows what happened last");
        assert!(last.contains("BROKEN") && last.contains(failure.violation.law), "{last}");
        Some(failure.violation.law)
    })
}

fn anywhere() -> Options {
    Options::default()
}

fn at_the_edge() -> Options {
    Options { at_the_edge: true, ..Options::default() }
}

macro_rules! caught_by {
    ($($test:ident: $mutation:ident $worlds:ident by $($law:literal)|+;)*) => {$(
        #[test]
        fn $test() {
            let law = caught(Mutation::$mutation, $worlds());
            assert!([$(Some($law)),+].contains(&law), "{law:?}");
        }
    )*

        #[test]
        fn every_mutation_is_tried() {
            assert_eq!(Mutation::ALL.as_slice(), [$(Mutation::$mutation),*]);
        }
    };
}

caught_by! {
    an_expiry_that_moves_earlier_is_caught:
        ExpiresMovesEarlier anywhere by "inactive_while_held" | "process_left_behind";
    a_renewal_on_mismatch_is_caught: RenewOnMismatch anywhere by "renewed_on_mismatch";
    a_rescue_without_fence_is_caught:
        ReapWithoutFence anywhere by "stale_write_accepted" | "taken_from_a_live_holder";
    a_restart_without_grace_is_caught: RestartGraceSkipped anywhere by "inactive_while_held";
    a_judge_who_is_not_the_owner_is_caught: NonOwnerJudges anywhere by "double_judge";
    unsynced_workers_without_their_jobs_are_caught:
        UnsyncedIsNotBound anywhere by "taken_from_a_live_holder";
    a_full_set_that_undoes_a_later_bind_is_caught: FullSetUndoesLaterBind anywhere by "bind_undone";
    timers_before_the_inbox_are_caught: TimersBeforeInbox anywhere by "inactive_with_heartbeat_waiting";
    a_late_acknowledgement_that_counts_is_caught: LateAckAccepted anywhere by "key_used_after_lapse";
    starts_that_nobody_checks_are_caught: StartsUnchecked anywhere by "started_twice_under_one_fence";
    a_retirement_asked_for_once_is_caught: RetireAskedOnce anywhere by "job_lost";
    known_workers_in_line_are_caught: KnownWorkersThrottled anywhere by "healthy_worker_reaped" | "job_lost";
    a_lease_counted_from_the_answer_is_caught:
        StampAtReceive anywhere by "inactive_while_held" | "key_used_after_lapse";
    clocks_believed_to_be_right_are_caught:
        RateErrorIgnored anywhere by "inactive_while_held" | "key_used_after_lapse";
    a_key_used_again_is_caught: KeyReused anywhere by "key_used_after_lapse";
    a_start_before_the_bind_is_acknowledged_is_caught: StartsBeforeBound at_the_edge by "running_twice";
    a_stop_when_the_lease_is_over_is_caught:
        StopsAtHoldUntil at_the_edge by "process_left_behind" | "running_twice";
    a_worker_that_never_ends_itself_is_caught:
        NeverDooms at_the_edge by "process_left_behind" | "running_twice";
    a_farewell_while_something_runs_is_caught: FarewellsEarly at_the_edge by "running_twice";
    a_silent_job_given_away_while_it_runs_is_caught:
        TakesBackSilentExclusive anywhere by "running_twice" | "taken_from_a_live_holder";
    a_kick_that_does_not_wait_is_caught: KickHandsOverAtOnce at_the_edge by "running_twice";
    a_leave_without_all_stopped_that_counts_is_caught: LeaveIgnoresRunningJobs anywhere by "running_twice";
    a_leave_before_all_has_stopped_is_caught:
        LeavesBeforeEmpty anywhere by "process_left_behind" | "running_twice";
    a_result_before_the_family_is_gone_is_caught: EndedBeforeEmpty anywhere by "reported_while_running";
    a_guardian_without_deadlines_is_caught: DeadlineIgnored anywhere by "process_left_behind";
    exclusive_jobs_for_everyone_are_caught: EveryoneIsFit anywhere by "exclusive_to_the_unfit";
    an_exclusive_hold_extended_by_a_former_owner_is_caught:
        ExclusiveHoldWhenNotOurs anywhere by "two_owners";
    an_exclusive_bind_acknowledged_by_a_former_owner_is_caught: BindsWhenNotOurs at_the_edge by "two_owners";
    a_judge_who_may_not_be_the_owner_is_caught:
        JudgesWhenNotOurs anywhere by "process_left_behind" | "inactive_while_held" | "healthy_worker_reaped";
    jobs_taken_from_workers_on_their_way_are_caught:
        TakenOverIsUnknown anywhere by "running_twice" | "taken_from_a_live_holder";
    an_exclusive_hold_that_nobody_vouched_for_is_caught:
        ExclusiveHoldAssumed at_the_edge by "process_left_behind" | "inactive_while_held";
    a_key_that_ends_with_its_exclusive_hold_is_caught:
        LapsesWithExclusiveHold anywhere by "healthy_worker_reaped" | "key_used_after_lapse";
    exclusive_families_that_live_on_the_lease_are_caught: LeaseKeepsFamilies at_the_edge by "process_left_behind";
    ownership_counted_from_the_answer_is_caught: BeatCountsFromAnswer anywhere by "two_owners";
    a_beat_that_may_have_failed_counted_is_caught: FailedBeatCounts anywhere by "two_owners";
    a_take_over_without_waiting_is_caught: TakesOverWithoutWaiting anywhere by "two_owners";
    a_take_over_from_one_who_has_beaten_is_caught: TakeOverWithoutBeatsCheck at_the_edge by "two_owners";
    an_end_by_another_registry_is_caught: RetireWithoutRegistryCheck anywhere by "double_judge";
    a_worker_of_a_registry_that_is_gone_is_caught: EnlistByGoneRegistry anywhere by "left_without_owner";
    an_unknown_worker_called_dead_is_caught: StrangersAreDead anywhere by "double_judge";
    a_take_over_that_was_done_and_forgotten_is_caught:
        FailedTakeOverForgotten at_the_edge by "running_twice";
    a_stream_believed_under_its_key_alone_is_caught:
        AnyNonceSpeaks anywhere by "reported_while_running" | "running_twice" | "stale_write_accepted";
}

/// Other laws notice many bugs before harm is done. Here nobody else is asked: without each of these rules what the law forbids
/// does happen.
macro_rules! leads_to {
    ($($test:ident: $mutation:ident $worlds:ident $law:literal;)*) => {$(
        #[test]
        fn $test() {
            let alone = Options { only_law: Some($law), ..$worlds() };
            assert_eq!(caught(Mutation::$mutation, alone), Some($law));
        }
    )*};
}

leads_to! {
    a_lease_counted_from_the_answer_lets_a_job_run_twice: StampAtReceive at_the_edge "running_twice";
    clocks_believed_to_be_right_let_a_job_run_twice: RateErrorIgnored at_the_edge "running_twice";
    a_worker_that_never_ends_itself_lets_a_job_run_twice: NeverDooms at_the_edge "running_twice";
    a_guardian_without_deadlines_lets_a_job_run_twice: DeadlineIgnored at_the_edge "running_twice";
    a_leave_before_all_has_stopped_lets_a_job_run_twice: LeavesBeforeEmpty anywhere "running_twice";
    a_take_over_without_grace_lets_a_job_run_twice: RestartGraceSkipped at_the_edge "running_twice";
    a_hold_extended_by_a_former_owner_lets_a_job_run_twice: ExclusiveHoldWhenNotOurs at_the_edge "running_twice";
    a_take_over_without_waiting_lets_a_job_run_twice: TakesOverWithoutWaiting at_the_edge "running_twice";
    a_take_over_that_is_not_certain_lets_a_job_run_twice: FailedTakeOverForgotten at_the_edge "running_twice";
    a_stream_believed_under_its_key_alone_lets_a_job_run_twice: AnyNonceSpeaks anywhere "running_twice";
    an_unknown_worker_called_dead_costs_it_its_jobs: StrangersAreDead anywhere "healthy_worker_reaped";
}
