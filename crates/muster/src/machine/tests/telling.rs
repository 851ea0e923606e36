//! Who is told of the set, and when.

use super::*;

fn tells(stage: &Stage) -> Vec<(u64, WorkerKey)> {
    let tell = |(at, output): &(u64, Output)| match output {
        Output::Tell { key, .. } => Some((*at, key.clone())),
        _ => None,
    };
    stage.log.iter().filter_map(tell).collect()
}

#[test]
fn nobody_is_told_during_the_wait() {
    let story = |mutation| {
        let mut stage = Stage::new(mutation);
        stage.enter("a", UNSEATED);
        stage.enter("b", UNSEATED);
        stage.run_until(20_000);
        assert!(stage.muster.is_waiting());
        (tells(&stage).len(), stage.muster.current_for(&key("a")).is_some())
    };
    assert_eq!(story(None), (0, false));
    assert_ne!(story(Some(Mutation::IdsDuringWait)), (0, false));
}

#[test]
fn all_are_told_at_the_moment_the_wait_ends() {
    let mut stage = Stage::new(None);
    stage.enter("a", UNSEATED);
    stage.enter("b", UNSEATED);
    stage.run_until(22_000);
    assert_eq!(tells(&stage), [(21_020, key("a")), (21_020, key("b"))]);
}

#[test]
fn a_burst_of_changes_is_told_once() {
    let mut stage = Stage::settled(&["a", "b"], None);
    for name in ["c", "d", "e"] {
        stage.enter(name, UNSEATED);
        stage.run_until(stage.now + 10);
    }
    stage.gone("b");
    stage.run_until(30_060);
    let told = tells(&stage);
    assert!(told.iter().all(|(at, _)| *at == 30_050), "{told:?}");
    let whom: Vec<WorkerKey> = told.into_iter().map(|(_, key)| key).collect();
    assert_eq!(whom, [key("a"), key("c"), key("d"), key("e")], "each once, and not who is gone");
    stage.run_until(40_000);
    assert_eq!(tells(&stage).len(), 4, "nothing new, nothing told");
}

#[test]
fn a_lost_push_is_made_up_for_by_the_next_heartbeat() {
    let mut stage = Stage::settled(&["a"], None);
    stage.actor("a").hears_tells = false;
    stage.enter("b", UNSEATED);
    stage.run_until(30_500);
    assert!(!stage.muster.may_run(&key("b")), "a has not said that it knows of b");
    let status = stage.muster.status();
    let held_back = status.workers[1].held_back.as_ref().expect("it is held back");
    assert_eq!(held_back.by, Some(key("a")));
    assert!(held_back.to_string().ends_with("(a)"), "{held_back}");
    stage.run_until(39_000);
    assert!(stage.muster.may_run(&key("b")), "a's heartbeats told and echoed it");
}

#[test]
fn who_knows_is_not_told() {
    let mut stage = Stage::settled(&["a", "b"], None);
    stage.enter("c", UNSEATED);
    stage.beat(&key("a"));
    stage.beat(&key("a"));
    stage.run_until(30_060);
    let whom: Vec<WorkerKey> = tells(&stage).into_iter().map(|(_, key)| key).collect();
    assert_eq!(whom, [key("b"), key("c")], "a's heartbeats said and echoed it");
}

#[test]
fn an_echo_permits_without_waiting_for_the_next_update() {
    let mut stage = Stage::settled(&["a", "b"], None);
    stage.actor("a").hears_tells = false;
    stage.actor("b").hears_tells = false;
    stage.enter("c", UNSEATED);
    stage.run_until(30_300);
    assert!(!stage.muster.may_run(&key("c")));
    let id = stage.muster.current_for(&key("a")).unwrap();
    stage.give(Input::Echoed { key: key("a"), id });
    stage.run_until(30_360);
    assert!(stage.muster.may_run(&key("c")), "b requires a, which requires c");
}
