//! The world of muster as a whole: its laws hold, its runs can be told again, and every deliberate bug is noticed.

use std::num::NonZeroUsize;
use std::time::Duration;

use sim::muster::experiments::{self, Amount, Cell, Findings};
use sim::muster::{LAWS, Mutation, Options, percentile, replay, run};

#[test]
fn no_law_is_broken() {
    let report = run(&Options { seeds: 60, workers_max: 100, ..Options::default() }, |_, _| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    // The worlds must not be idle, or the laws were not tried.
    let stats = &report.stats;
    assert_eq!(report.seeds, 60);
    for (what, count) in [
        ("restarts", stats.restarts),
        ("tasks", stats.tasks),
        ("lapses", stats.lapses),
        ("leases over", stats.expired),
        ("labels", stats.labels),
        ("faults", stats.faults),
        ("healthy workers", stats.healthy_after.len() as u64),
    ] {
        assert!(count > 300, "{what}: {count}");
    }
    assert!(stats.starts >= stats.tasks, "what was wanted was done: {stats:?}");
    assert!(stats.waits_agreed.len() > 20 && stats.waits_full.len() > 100, "{stats:?}");
}

#[test]
fn no_law_is_broken_at_the_edge() {
    let report = run(&Options { seeds: 600, at_the_edge: true, ..Options::default() }, |_, _| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    let stats = &report.stats;
    for (what, count) in [
        ("agreed", stats.waits_agreed.len() as u64),
        ("turned away", stats.turned_away),
        ("stale results", stats.stale_results),
        ("refused starts", stats.starts_refused),
    ] {
        assert!(count > 50, "{what}: {count}");
    }
    let agreed = percentile(&stats.waits_agreed, 50).expect("some agreed");
    assert!(agreed < Duration::from_secs(5), "agreement is what makes a wait short: {agreed:?}");
}

#[test]
fn a_seed_tells_the_same_story_on_any_number_of_threads() {
    let options = Options { seeds: 8, first_seed: 500, workers_max: 40, seconds: 60, ..Options::default() };
    let alone = Options { threads: NonZeroUsize::new(1), ..options.clone() };
    let (many, one) = (run(&options, |_, _| {}), run(&alone, |_, _| {}));
    assert_eq!((many.trace_hash, &many.stats), (one.trace_hash, &one.stats));
    let others = run(&Options { first_seed: 501, ..options }, |_, _| {});
    assert_ne!(many.trace_hash, others.trace_hash);
}

#[test]
fn a_replay_is_the_run_with_words() {
    let options = Options { seeds: 1, first_seed: 3, workers_max: 20, seconds: 60, ..Options::default() };
    let mut lines = 0;
    let replayed = replay(3, &options, &mut |line| lines += usize::from(!line.is_empty()));
    assert_eq!(replayed.trace_hash, run(&options, |_, _| {}).trace_hash);
    assert!(lines > 100, "{lines} lines");
}

/// Runs seeds until one exposes the bug; the law it broke.
fn caught(mutation: Mutation, worlds: &Options) -> Option<&'static str> {
    let batch = Options { mutation: Some(mutation), ..worlds.clone() };
    (0..40).find_map(|number| {
        let report = run(&Options { first_seed: 1 + number * batch.seeds, ..batch.clone() }, |_, _| {});
        let failure = report.failures.into_iter().next()?;
        assert!(LAWS.contains(&failure.violation.law), "{failure}");
        let last = failure.last_events.last().expect("a failure shows what happened last");
        assert!(last.contains("BROKEN") && last.contains(failure.violation.law), "{last}");
        Some(failure.violation.law)
    })
}

fn anywhere() -> Options {
    Options { seeds: 8, workers_max: 60, ..Options::default() }
}

fn at_the_edge() -> Options {
    Options { seeds: 100, at_the_edge: true, ..Options::default() }
}

macro_rules! caught_by {
    ($($test:ident: $mutation:literal $worlds:ident by $($law:literal)|+;)*) => {$(
        #[test]
        fn $test() {
            let mutation = Mutation::from_word($mutation).expect("a mutation");
            let law = caught(mutation, &$worlds());
            assert!([$(Some($law)),+].contains(&law), "{law:?}");
        }
    )*

        #[test]
        fn every_mutation_is_tried() {
            let words: Vec<&str> = Mutation::all().map(Mutation::word).collect();
            assert_eq!(words, [$($mutation),*]);
        }
    };
}

caught_by! {
    work_before_all_know_of_its_worker_is_caught:
        "gate_removed" at_the_edge by "no_exit_before_all_runners_known";
    unhealthy_workers_that_do_not_count_are_caught:
        "unhealthy_excluded" at_the_edge by "no_exit_before_all_runners_known";
    new_workers_that_nobody_asks_are_caught: "new_ignored" at_the_edge by "no_exit_before_all_runners_known";
    ids_told_during_the_wait_are_caught: "ids_during_wait" at_the_edge by "no_exit_before_all_runners_known";
    a_healthy_worker_held_back_again_is_caught: "latch_forgotten" anywhere by "latch_is_permanent";
    labels_raised_by_strangers_are_caught:
        "strangers_raise_labels" at_the_edge by "indirect_never_exceeds_truth";
    labels_raised_by_telling_are_caught: "telling_is_enough" at_the_edge by "indirect_never_exceeds_truth";
    a_wait_that_begins_again_is_caught: "exit_reentered" at_the_edge by "exit_is_one_way";
    newcomers_that_never_queue_are_caught: "no_batching" anywhere by "turnover_converges";
    agreement_on_another_set_is_caught: "hash_ignored" at_the_edge by "no_exit_before_all_runners_known";
    the_dead_that_hold_others_back_are_caught: "must_die_counts" anywhere by "turnover_converges" | "job_lost";
    workers_in_limbo_that_do_not_count_are_caught:
        "limbo_ignored" at_the_edge by "no_exit_before_all_runners_known";
    newcomers_without_a_seat_that_do_not_count_are_caught:
        "turned_away_ignored" at_the_edge by "no_exit_before_all_runners_known";
    workers_without_their_seat_that_do_not_count_are_caught:
        "bumped_forgotten" at_the_edge by "no_exit_before_all_runners_known";
    a_healthcheck_credited_late_is_caught: "check_credited_late" at_the_edge by "work_for_the_unhealthy";
    a_worker_lost_for_lack_of_agreement_is_caught:
        "held_back_is_lost" anywhere by "held_back_worker_is_not_lost";
    a_hold_that_is_ignored_is_caught:
        "hold_ignored" at_the_edge by "never_running_twice" | "no_exit_before_all_runners_known";
    a_start_of_a_former_scheduler_is_caught: "old_starts_taken" at_the_edge by "never_running_twice";
    fences_by_the_wall_clock_are_caught: "fences_by_wall" at_the_edge by "fence_monotone";
    starts_that_nobody_asks_about_are_caught: "unsure_forgotten" at_the_edge by "job_lost";
    leases_that_are_never_renewed_are_caught:
        "leases_never_renewed" at_the_edge by "never_running_twice" | "no_exit_before_all_runners_known";
}

/// A law about the wait notices most bugs before harm is done. Here nobody else is asked: without each of these rules a task does
/// run twice.
#[test]
fn without_each_of_these_rules_a_task_runs_twice() {
    let law = "never_running_twice";
    for word in ["new_ignored", "ids_during_wait", "hash_ignored", "gate_removed", "hold_ignored"] {
        let mutation = Mutation::from_word(word).expect("a mutation");
        let alone = Options { only_law: Some(law), ..at_the_edge() };
        assert_eq!(caught(mutation, &alone), Some(law), "{word}");
    }
}

fn amount(workers: u32) -> Amount {
    Amount { seeds: 4, first_seed: 1, nodes: vec![workers], threads: None }
}

/// The number in this column of each row.
fn column(findings: &Findings, name: &str) -> Vec<Option<f64>> {
    let place = findings.columns.iter().position(|column| *column == name).expect("a column");
    let number = |cell: &Cell| match cell {
        Cell::Number(number, _) => Some(*number),
        Cell::Count(count) => Some(*count as f64),
        Cell::Text(_) | Cell::Missing => None,
    };
    findings.rows.iter().map(|row| number(&row[place])).collect()
}

#[test]
fn a_restart_among_workers_that_agree_is_short() {
    let findings = experiments::restart(&amount(20), &mut |_, _| {});
    assert_eq!(column(&findings, "restarts"), [Some(20.0), Some(20.0)]);
    assert_eq!(column(&findings, "agreed"), [Some(20.0), Some(20.0)]);
    let (p99, goal) = (column(&findings, "wait_p99"), column(&findings, "goal_p99"));
    assert!(p99.iter().zip(&goal).all(|(p99, goal)| p99 <= goal && p99.is_some()), "{p99:?} {goal:?}");
}

#[test]
fn newcomers_become_healthy_beside_a_crash_loop_because_others_queue() {
    let findings = experiments::turnover(&amount(40), &mut |_, _| {});
    let (bound, worst) = (column(&findings, "bound")[0], column(&findings, "healthy_max")[0]);
    assert!(worst.is_some() && worst <= bound, "{worst:?} {bound:?}");
    assert_eq!(
        column(&findings, "never"),
        [Some(0.0), Some(20.0)],
        "none without queueing in ten times the bound"
    );
}
