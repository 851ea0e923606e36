//! Every course of events of a few workers: the laws hold in all of them, and every rule that is left out shows why it is there.

use std::ops::ControlFlow;

use muster::Mutation;
use sim::explore::Limits;
use sim::muster::model::{Bounds, Findings, LAWS, explore};

const TWICE: &str = "never_running_twice";
const UNKNOWN: &str = "no_exit_before_all_runners_known";

fn whole(bounds: Bounds) -> Findings {
    explore(bounds, Limits::default(), |_| ControlFlow::Continue(()))
}

/// Explored to its end, and lawful; how many states it has.
#[track_caller]
fn lawful(bounds: Bounds) -> u64 {
    let found = whole(bounds);
    if let Some(story) = found.violation {
        panic!("{bounds:?}\n{story}");
    }
    assert!(found.is_complete, "{bounds:?}");
    found.states
}

#[test]
fn two_workers_and_three_schedulers_never_run_a_task_twice() {
    let states = lawful(Bounds { workers: 2, restarts: 2, ends: 0, ..Bounds::default() });
    assert!(states > 50_000, "a world with hardly any states shows nothing: {states}");
}

#[test]
fn nor_do_they_with_two_tasks() {
    let two = Bounds { workers: 2, restarts: 1, ends: 0, tasks: 2, in_flight: 1, ..Bounds::default() };
    let one = lawful(Bounds { tasks: 1, ..two });
    let both = lawful(two);
    assert!(both > one * 2, "{both} {one}");
}

#[test]
fn nor_when_newcomers_queue() {
    let bounds = Bounds { workers: 2, restarts: 1, ends: 0, in_flight: 1, ..Bounds::default() };
    let states = lawful(Bounds { batch_after: 1, ..bounds });
    assert_ne!(states, lawful(bounds), "some do queue");
}

#[test]
fn nor_when_a_worker_ends_again_and_again() {
    let states = lawful(Bounds { workers: 1, restarts: 2, ends: 2, in_flight: 1, ..Bounds::default() });
    assert!(states > 20_000, "{states}");
}

#[test]
fn limits_are_kept_where_there_is_more_than_a_test_can_see() {
    let bounds = Bounds { workers: 2, restarts: 2, ends: 1, ..Bounds::default() };
    let limits = Limits { states_max: 200_000, ..Limits::default() };
    let found = explore(bounds, limits, |_| ControlFlow::Continue(()));
    assert!(found.violation.is_none() && !found.is_complete);
    assert!((200_000..400_000).contains(&found.states), "{}", found.states);
}

/// With this rule left out and only this law asked, the story of how it is broken.
#[track_caller]
fn broken(mutation: Mutation, law: &'static str, restarts: u8) -> Vec<String> {
    assert!(LAWS.contains(&law));
    let bounds = Bounds {
        workers: 2,
        restarts,
        ends: 0,
        mutation: Some(mutation),
        only_law: Some(law),
        ..Bounds::default()
    };
    let found = whole(bounds).violation.expect("the rule is needed");
    assert!(found.violation.starts_with(law), "{}", found.violation);
    println!("{} leads to\n{found}", mutation.word());
    assert_eq!(found.story.len(), found.actions.len());
    found.story
}

#[track_caller]
fn tells(story: &[String], parts: &[&str]) {
    let mut lines = story.iter();
    for part in parts {
        assert!(lines.any(|line| line.contains(part)), "no {part:?} in its place:\n{}", story.join("\n"));
    }
}

#[test]
fn without_the_gate_a_restart_runs_a_task_twice() {
    let story = broken(Mutation::GateRemoved, TWICE, 1);
    // One worker is given a task and the other does not know of it; the next scheduler hears only the other.
    tells(
        &story,
        &["sends task 1 to", "scheduler 1 dies", "with id 1.1", "waits no longer", "starts task 1"],
    );
}

#[test]
fn without_asking_the_new_what_they_run_a_task_runs_twice() {
    let story = broken(Mutation::NewIgnored, TWICE, 1);
    tells(&story, &["starts task 1", "joins scheduler 2 with id 1.", "waits no longer", "starts task 1"]);
}

#[test]
fn with_ids_told_during_the_wait_three_schedulers_run_a_task_twice() {
    let story = broken(Mutation::IdsDuringWait, TWICE, 2);
    tells(
        &story,
        &["scheduler 1 dies", "scheduler 2 tells", "scheduler 2 dies", "with id 2.", "waits no longer"],
    );
}

#[test]
fn a_scheduler_that_waits_again_is_noticed() {
    broken(Mutation::ExitReentered, "exit_is_one_way", 0);
}

#[test]
fn every_other_rule_of_safety_is_needed_too() {
    for mutation in [
        Mutation::GateRemoved,
        Mutation::UnhealthyExcluded,
        Mutation::StrangersRaiseLabels,
        Mutation::TellingIsEnough,
        Mutation::HashIgnored,
        Mutation::LimboIgnored,
    ] {
        broken(mutation, UNKNOWN, 1);
    }
}
