//! The world of jobs as a whole: its laws hold, its runs can be told again, and every deliberate bug is noticed.

use std::num::NonZeroUsize;

use sim::jobs::{LAWS, Mutation, Options, replay, run};

#[test]
fn no_law_is_broken() {
    let options = Options { seeds: 200, minutes: 2, ..Options::default() };
    let report = run(&options, |_, _| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    // The world must not be idle, or its laws were not tried.
    let stats = &report.stats;
    assert_eq!(report.seeds, 200);
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
    ] {
        assert!(count > 100, "{what}: {count}");
    }
    assert!(stats.margin_min.is_some_and(|margin| margin > 0), "{:?}", stats.margin_min);
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
fn caught(mutation: Mutation) -> Option<&'static str> {
    let batch = Options { seeds: 8, minutes: 5, mutation: Some(mutation), ..Options::default() };
    (0..25).find_map(|number| {
        let report = run(&Options { first_seed: 1 + number * batch.seeds, ..batch.clone() }, |_, _| {});
        let failure = report.failures.into_iter().next()?;
        assert!(LAWS.contains(&failure.violation.law));
        let last = failure.last_events.last().expect("a failure shows what happened last");
        assert!(last.contains("BROKEN") && last.contains(failure.violation.law), "{last}");
        Some(failure.violation.law)
    })
}

macro_rules! caught_by {
    ($($test:ident: $mutation:ident by $($law:literal)|+;)*) => {$(
        #[test]
        fn $test() {
            let law = caught(Mutation::$mutation);
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
    an_expiry_that_moves_earlier_is_caught: ExpiresMovesEarlier by "inactive_while_held";
    a_renewal_on_mismatch_is_caught: RenewOnMismatch by "renewed_on_mismatch";
    a_rescue_without_fence_is_caught: ReapWithoutFence by "stale_write_accepted" | "taken_from_a_live_holder";
    a_restart_without_grace_is_caught: RestartGraceSkipped by "inactive_while_held";
    a_judge_who_is_not_the_owner_is_caught: NonOwnerJudges by "double_judge";
    unsynced_workers_without_their_jobs_are_caught: UnsyncedIsNotBound by "taken_from_a_live_holder";
    a_full_set_that_undoes_a_later_bind_is_caught: FullSetUndoesLaterBind by "bind_undone";
    timers_before_the_inbox_are_caught: TimersBeforeInbox by "inactive_with_heartbeat_waiting";
    a_late_acknowledgement_that_counts_is_caught: LateAckAccepted by "key_used_after_lapse";
    starts_that_nobody_checks_are_caught: StartsUnchecked by "started_twice_under_one_fence";
    a_retirement_asked_for_once_is_caught: RetireAskedOnce by "job_lost";
    known_workers_in_line_are_caught: KnownWorkersThrottled by "healthy_worker_reaped" | "job_lost";
}
