//! Two instances want one seat.

use super::*;

/// `old` sits on host a, started at 10, healthy.
fn seated(allow_bump_unhealthy: bool, mutation: Option<Mutation>) -> Stage {
    let terms = Terms { allow_bump_unhealthy, ..Terms::new(Generation(1), SAFE_WAIT) };
    let mut stage = Stage::with(terms, mutation);
    stage.enter("old", sitting("s", "a:1", 10));
    stage.enter("other", UNSEATED);
    stage.run_until(30_000);
    assert!(stage.muster.may_run(&key("old")));
    stage.log.clear();
    stage
}

fn make_unhealthy(stage: &mut Stage) {
    stage.actor("old").beats = false;
    stage.run_until(stage.now + 14_000);
    assert_eq!(stage.health("old"), Health::Unhealthy(Unhealthy::Silent));
}

#[track_caller]
fn takes_the_seat(stage: &mut Stage, name: &str) {
    let dismissal = Output::Dismiss { key: key("old"), why: Dismissal::SeatTaken { by: key(name) } };
    assert!(stage.about("old").contains(&&dismissal), "{:?}", stage.log);
    assert!(!stage.muster.may_run(&key("old")));
    stage.actor("old").beats = false;
    let members: Vec<_> = stage.muster.status().workers.into_iter().map(|worker| worker.key).collect();
    assert!(members.contains(&key("old")) && members.contains(&key(name)), "both count");
    let count = stage.muster.status().members;
    stage.gone("old");
    assert_eq!(stage.muster.status().members, count - 1);
    stage.run_until(stage.now + 10_000);
    assert!(stage.muster.may_run(&key(name)));
}

#[track_caller]
fn is_turned_away(stage: &Stage, name: &str, why: TurnedAway) {
    assert_eq!(stage.about(name), [&Output::TurnAway { key: key(name), why }]);
    assert_eq!(stage.muster.current_for(&key(name)), None);
    assert_eq!(stage.muster.status().members, 2, "it is in no set");
}

#[test]
fn a_later_start_on_the_same_machine_takes_the_seat() {
    let mut stage = seated(false, None);
    stage.enter("new", sitting("s", "a:1", 11));
    stage.run_until(stage.now + 15_000);
    let to_old = |output: &Output| matches!(output, Output::Check { key: whom, .. } if *whom == key("old"));
    assert_eq!(stage.log.iter().filter(|(_, output)| to_old(output)).count(), 0, "old is asked nothing more");
    takes_the_seat(&mut stage, "new");
}

#[test]
fn an_earlier_start_on_the_same_machine_does_not() {
    let mut stage = seated(true, None);
    make_unhealthy(&mut stage);
    stage.enter("new", sitting("s", "a:1", 9));
    is_turned_away(&stage, "new", TurnedAway::LaterStart { by: key("old") });
}

#[test]
fn another_machine_does_not_take_the_seat_of_a_healthy_sitter() {
    let mut stage = seated(true, None);
    stage.enter("new", sitting("s", "b:1", 99));
    is_turned_away(&stage, "new", TurnedAway::OtherMachine { by: key("old") });
    assert!(stage.muster.may_run(&key("old")));
}

#[test]
fn another_machine_takes_the_seat_of_an_unhealthy_sitter_only_if_allowed() {
    let mut stage = seated(false, None);
    make_unhealthy(&mut stage);
    stage.enter("new", sitting("s", "b:1", 99));
    is_turned_away(&stage, "new", TurnedAway::OtherMachine { by: key("old") });

    let mut stage = seated(true, None);
    make_unhealthy(&mut stage);
    stage.enter("new", sitting("s", "b:1", 99));
    takes_the_seat(&mut stage, "new");
}

#[test]
fn a_seat_is_free_when_its_sitter_is_gone() {
    let mut stage = seated(false, None);
    stage.gone("old");
    stage.enter("new", sitting("s", "b:1", 1));
    stage.run_until(stage.now + 10_000);
    assert!(stage.muster.may_run(&key("new")));
}

#[test]
fn the_end_of_a_bumped_sitter_leaves_the_seat_to_its_successor() {
    let mut stage = seated(false, None);
    stage.enter("new", sitting("s", "a:1", 11));
    stage.gone("old");
    stage.enter("third", sitting("s", "b:1", 99));
    assert!(stage.about("third").contains(&&Output::TurnAway {
        key: key("third"),
        why: TurnedAway::OtherMachine { by: key("new") }
    }));
}

/// `old` runs a task and is bumped by `new`; what it runs is over only when it is gone. The scheduler restarts; `new` comes back first.
fn restart_after_a_bump(mutation: Option<Mutation>) -> bool {
    let mut stage = seated(false, mutation);
    stage.enter("new", sitting("s", "a:1", 11));
    stage.actor("old").hears_tells = false;
    stage.actor("old").beats = false;
    stage.run_until(stage.now + 10_000);
    stage.restart();
    stage.run_until(stage.now + 4_000);
    stage.muster.is_waiting()
}

#[test]
fn a_bumped_worker_is_waited_for_after_a_restart() {
    assert!(restart_after_a_bump(None));
    assert!(!restart_after_a_bump(Some(Mutation::BumpedForgotten)));
}

/// During the wait the successor is heard first; then comes its predecessor, whose lease has been renewed and which runs a task.
fn predecessor_during_the_wait(mutation: Option<Mutation>) -> Stage {
    let mut stage = Stage::new(mutation);
    stage.enter("new", sitting("s", "a:1", 11));
    stage.run_until(20_000);
    stage.actors.insert(key("old"), stage.actors[&key("new")].clone());
    stage.actor("old").about.started_us = 10;
    stage.actor("old").answers_fetch = false;
    stage.beat(&key("old"));
    assert!(stage.about("old").iter().any(|output| matches!(output, Output::TurnAway { .. })));
    stage.run_until(22_000);
    stage
}

#[test]
fn who_is_turned_away_during_the_wait_still_counts() {
    let mut stage = predecessor_during_the_wait(None);
    assert!(stage.muster.is_waiting());
    stage.give(Input::Fetched { key: key("old") });
    stage.run_until(30_000);
    assert!(!stage.muster.is_waiting());
    assert_eq!(stage.health("old"), Health::Unhealthy(Unhealthy::Dismissed));

    assert!(!predecessor_during_the_wait(Some(Mutation::TurnedAwayIgnored)).muster.is_waiting());
}
