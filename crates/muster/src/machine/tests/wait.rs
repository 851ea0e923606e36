//! The wait in time.

use super::*;

#[test]
fn the_first_start_waits_in_full() {
    let mut stage = Stage::new(None);
    stage.enter("a", UNSEATED);
    stage.run_until(21_019);
    assert!(stage.muster.is_waiting());
    assert!(!stage.muster.may_run(&key("a")));
    assert_eq!(stage.muster.current_for(&key("a")), None);
    stage.run_until(21_020);
    assert_eq!(stage.wait_over(), Some((How::SafeWait, 21_020)));
    stage.run_until(21_200);
    assert!(stage.muster.may_run(&key("a")));
}

#[test]
fn a_quiet_restart_ends_with_the_last_heartbeat() {
    let mut stage = Stage::settled(&["a", "b", "c"], None);
    stage.restart();
    stage.run_until(stage.now + 4_000);
    let (how, after) = stage.wait_over().expect("everybody has reported");
    assert_eq!(how, How::Agreed);
    assert!(after <= 4_000, "{after} ms");
    stage.run_until(stage.now + 100);
    assert!(
        ["a", "b", "c"].into_iter().all(|name| stage.muster.may_run(&key(name))),
        "within one round trip"
    );
}

#[test]
fn an_outage_of_one_worker_is_waited_for() {
    let mut stage = Stage::settled(&["a", "b"], None);
    stage.restart();
    stage.actor("b").beats = false;
    stage.run_until(stage.now + 10_000);
    assert!(stage.muster.is_waiting());
    let WaitStatus::Waiting { at_most, reasons, .. } = stage.muster.status().wait else { panic!("it waits") };
    assert_eq!(reasons, ["the workers agree on a set of 2, which the 1 that are here are not"]);
    assert!(at_most <= SAFE_WAIT - Duration::from_secs(9), "{at_most:?}");
    stage.actor("b").beats = true;
    stage.run_until(stage.now + 4_000);
    assert!(!stage.muster.is_waiting());
}

#[test]
fn an_impostor_blocks_until_it_is_lost_and_not_a_moment_longer() {
    let mut stage = Stage::settled(&["a", "b"], None);
    let foreign = SetId { generation: Generation(77), ..stage.muster.consensus().set() };
    for kept in [None, Some(foreign)] {
        stage.restart();
        stage.enter_with("x", UNSEATED, kept);
        stage.run_until(stage.now + 8_000);
        assert!(stage.muster.is_waiting());
        stage.gone("x");
        assert_eq!(stage.wait_over().map(|(how, _)| how), Some(How::Agreed), "at once");
        stage.run_until(stage.now + 8_000);
    }
}

/// One that beats, but never says what it runs. Its lease of 20 s ends after it was dismissed.
fn a_mute_worker(mutation: Option<Mutation>) -> Stage {
    let mut stage = Stage::new(mutation);
    stage.enter("a", UNSEATED);
    stage.run_until(10_000);
    stage.actors.insert(key("mute"), Actor { answers_fetch: false, ..stage.actors[&key("a")].clone() });
    stage.beat(&key("mute"));
    stage
}

#[test]
fn the_safe_wait_is_over_but_one_is_still_new() {
    let mut stage = a_mute_worker(None);
    stage.run_until(25_000);
    assert!(stage.muster.is_waiting());
    let WaitStatus::Waiting { at_most, reasons, .. } = stage.muster.status().wait else { panic!("it waits") };
    assert_eq!(at_most, Duration::ZERO);
    assert!(reasons.contains(&"what worker mute runs is not known yet".to_owned()), "{reasons:?}");
    stage.give(Input::Fetched { key: key("mute") });
    assert_eq!(stage.wait_over(), Some((How::SafeWait, 25_000)));

    let mut broken = a_mute_worker(Some(Mutation::NewIgnored));
    broken.run_until(25_000);
    assert_eq!(broken.wait_over(), Some((How::SafeWait, 21_020)));
}

#[test]
fn a_mute_new_worker_is_lost_by_its_lease_and_the_wait_ends() {
    let mut stage = a_mute_worker(None);
    stage.run_until(30_000);
    assert_eq!(
        stage.about("mute").iter().filter(|output| matches!(output, Output::Fetch { .. })).count(),
        21
    );
    stage.run_until(31_100);
    let dismissals: Vec<_> =
        stage.log.iter().filter(|(_, output)| matches!(output, Output::Dismiss { .. })).collect();
    let dismissal = Output::Dismiss { key: key("mute"), why: Dismissal::Overdue(Health::New) };
    assert_eq!(dismissals, [&(31_000, dismissal)], "once");
    assert!(stage.muster.is_waiting(), "it may still run something");
    stage.run_until(50_000);
    stage.gone("mute");
    assert_eq!(stage.wait_over(), Some((How::SafeWait, 50_000)));
}

#[test]
fn a_newcomer_after_the_safe_wait_does_not_prolong_it() {
    let mut stage = a_mute_worker(None);
    stage.run_until(21_500);
    stage.actors.insert(key("late"), stage.actors[&key("mute")].clone());
    stage.beat(&key("late"));
    stage.give(Input::Fetched { key: key("mute") });
    assert!(!stage.muster.is_waiting());
    assert_eq!(stage.health("late"), Health::New);
}

#[test]
fn leaving_is_one_way_although_the_clock_goes_back() {
    let story = |mutation| {
        let mut stage = Stage::settled(&["a"], mutation);
        stage.now = 3_000;
        stage.muster.handle_deadline(Instant::from_millis(stage.now));
        stage.enter("b", UNSEATED);
        stage.beat(&key("a"));
        let waits_again = stage.muster.is_waiting();
        stage.actor("a").beats = false;
        stage.run_until(38_000);
        (waits_again, stage.muster.may_run(&key("a")))
    };
    assert_eq!(story(None), (false, true), "and a was heard at the latest time that there was");
    assert!(story(Some(Mutation::ExitReentered)).0);
}

#[test]
fn a_chosen_wait_is_shorter_and_named() {
    let terms = Terms { unsafe_wait: Some(Duration::from_secs(5)), ..Terms::new(Generation(1), SAFE_WAIT) };
    let mut stage = Stage::with(terms, None);
    stage.enter("a", UNSEATED);
    stage.run_until(6_000);
    assert_eq!(stage.wait_over(), Some((How::Unsafe, 5_000)));
    let status = stage.muster.status();
    assert_eq!(status.unsafe_wait, Some(Duration::from_secs(5)));
    assert_eq!(status.wait, WaitStatus::Over { how: How::Unsafe });
}
