//! Health in time: who may be given work, who is dismissed.

use super::*;

#[test]
fn health_is_told_when_it_changes() {
    let mut stage = Stage::settled(&["a"], None);
    stage.enter("b", UNSEATED);
    stage.run_until(60_000);
    let changes: Vec<_> =
        stage.about("b").into_iter().filter(|o| matches!(o, Output::Health { .. })).collect();
    let to = |health| Output::Health { key: key("b"), health };
    assert_eq!(
        changes,
        [
            &to(Health::Unhealthy(Unhealthy::NeverChecked)),
            &to(Health::Unhealthy(Unhealthy::HeldBack)),
            &to(Health::Healthy)
        ]
    );
    stage.actor("b").beats = false;
    stage.run_until(80_000);
    assert_eq!(stage.health("b"), Health::Unhealthy(Unhealthy::Silent));
    assert!(!stage.muster.may_run(&key("b")));
    stage.actor("b").beats = true;
    stage.run_until(80_100);
    assert!(stage.muster.may_run(&key("b")), "back at once, without asking the others");
}

#[test]
fn late_answers_to_fetch_are_dropped() {
    let mut stage = Stage::settled(&["a"], None);
    stage.give(Input::Fetched { key: key("nobody") });
    assert_eq!(stage.log, []);
    stage.enter("b", UNSEATED);
    stage.actor("b").answers_checks = false;
    stage.muster = Stage::scheduler(stage.now, &stage.terms, None);
    stage.beat(&key("b"));
    for _ in 0..22 {
        stage.run_until(stage.now + 1_000);
        stage.give(Input::Fetched { key: key("b") });
    }
    assert_eq!(stage.health("b"), Health::Unhealthy(Unhealthy::Dismissed), "they do not win it time");
}

#[test]
fn who_became_healthy_stays_so_whoever_joins_next() {
    let mut stage = Stage::settled(&["a"], None);
    stage.actor("a").hears_tells = false;
    stage.actors.insert(key("b"), stage.actors[&key("a")].clone());
    stage.actor("b").kept = None;
    stage.beat(&key("b"));
    let id = stage.muster.current_for(&key("b")).unwrap();
    stage.give(Input::Echoed { key: key("a"), id });
    stage.give(Input::Echoed { key: key("b"), id });
    assert!(stage.muster.may_run(&key("b")), "at once");
    stage.enter("c", UNSEATED);
    stage.beat(&key("b"));
    assert!(stage.muster.may_run(&key("b")));
}

/// A healthcheck takes 19 s to come back, and nothing else does. When does its worker count as unhealthy?
fn slow_check(mutation: Option<Mutation>) -> bool {
    let mut stage = Stage::settled(&["a"], mutation);
    stage.actor("a").answers_checks = false;
    stage.run_until(41_000);
    let (sent, number) = checks(&stage)[0];
    stage.run_until(sent + 19_000);
    stage.give(Input::Checked { key: key("a"), number });
    assert!(stage.muster.may_run(&key("a")));
    stage.run_until(sent + 21_100);
    stage.muster.may_run(&key("a"))
}

#[test]
fn a_healthcheck_counts_from_when_it_was_sent() {
    assert!(!slow_check(None));
    assert!(slow_check(Some(Mutation::CheckCreditedLate)));
}

fn checks(stage: &Stage) -> Vec<(u64, u64)> {
    let check = |(at, output): &(u64, Output)| match output {
        Output::Check { number, .. } => Some((*at, *number)),
        _ => None,
    };
    stage.log.iter().filter_map(check).collect()
}

#[test]
fn one_healthcheck_at_a_time() {
    let mut stage = Stage::settled(&["a"], None);
    stage.actor("a").answers_checks = false;
    while checks(&stage).len() < 2 {
        stage.run_until(stage.now + 1_000);
    }
    let sent = checks(&stage);
    assert!(sent[1].0 - sent[0].0 >= 20_000, "{sent:?}");
    stage.give(Input::Checked { key: key("a"), number: sent[0].1 });
    assert_eq!(
        stage.health("a"),
        Health::Unhealthy(Unhealthy::CheckTooOld),
        "one that was given up does not count"
    );
    stage.give(Input::Checked { key: key("a"), number: sent[1].1 });
    assert_eq!(stage.health("a"), Health::Healthy);
}

#[test]
fn a_worker_without_healthchecks_is_dismissed_once() {
    let mut stage = Stage::settled(&["a"], None);
    stage.enter("b", UNSEATED);
    stage.actor("a").answers_checks = false;
    stage.run_until(120_000);
    let why = Dismissal::Overdue(Health::Unhealthy(Unhealthy::CheckTooOld));
    let dismissed: Vec<_> = stage.log.iter().filter(|(_, o)| matches!(o, Output::Dismiss { .. })).collect();
    assert_eq!(dismissed.len(), 1);
    assert_eq!(dismissed[0].1, Output::Dismiss { key: key("a"), why });
    assert_eq!(stage.health("a"), Health::Unhealthy(Unhealthy::Dismissed));
    assert_eq!(stage.muster.status().members, 2, "it counts until it is gone");
}

/// `b` is well but held back for an hour, because `a` never echoes.
fn held_back_for_an_hour(mutation: Option<Mutation>) -> (Health, bool) {
    let mut stage = Stage::settled(&["a"], mutation);
    let kept = stage.actor("a").kept;
    stage.actor("a").hears_tells = false;
    stage.enter("b", UNSEATED);
    for _ in 0..900 {
        stage.run_until(stage.now + 4_000);
        stage.actor("a").kept = kept;
    }
    (stage.health("b"), stage.log.iter().any(|(_, output)| matches!(output, Output::Dismiss { .. })))
}

#[test]
fn nobody_is_lost_for_lack_of_consensus_alone() {
    assert_eq!(held_back_for_an_hour(None), (Health::Unhealthy(Unhealthy::HeldBack), false));
    assert!(held_back_for_an_hour(Some(Mutation::HeldBackIsLost)).1);
}

/// Nobody could be heard meanwhile; the first deadline after it must not judge anybody by that.
#[test]
fn nobody_is_dismissed_because_we_stood_still() {
    let mut stage = Stage::settled(&["a", "b"], None);
    stage.actor("b").beats = false;
    stage.run_until(50_000);
    stage.log.clear();
    stage.now += 3_600_000;
    stage.muster.handle_deadline(Instant::from_millis(stage.now));
    stage.answer();
    let is_dismissal = |(_, output): &&(u64, Output)| matches!(output, Output::Dismiss { .. });
    assert_eq!(stage.log.iter().filter(is_dismissal).count(), 0, "{:?}", stage.log);
    assert!(stage.muster.may_run(&key("a")) && !stage.muster.may_run(&key("b")), "as they were before");
    let checked =
        |output: &&(u64, Output)| matches!(&output.1, Output::Check { key: whom, .. } if *whom == key("a"));
    assert_eq!(
        stage.log.iter().filter(checked).count(),
        1,
        "its own clock did not stand still: {:?}",
        stage.log
    );
    stage.run_until(stage.now + 60_000);
    assert!(stage.muster.may_run(&key("a")));
    let dismissed: Vec<_> = stage.log.iter().filter(is_dismissal).collect();
    assert!(
        matches!(&dismissed[..], [(_, Output::Dismiss { key: silent, .. })] if *silent == key("b")),
        "who stays silent is, {dismissed:?}"
    );
}

/// The first healthcheck of a worker got lost with its stream. To wait until it is good for nothing would cost it its lease.
#[test]
fn healthcheck_that_was_lost_with_a_stream_is_sent_again() {
    let mut stage = Stage::settled(&["a"], None);
    stage.enter("b", UNSEATED);
    stage.actor("b").answers_checks = false;
    stage.muster = Stage::scheduler(stage.now, &stage.terms, None);
    stage.beat(&key("b"));
    stage.run_until(stage.now + 1_000);
    stage.actor("b").answers_checks = true;
    stage.log.clear();
    stage.give(Input::Reconnected { key: key("b") });
    let checks = |stage: &Stage| stage.log.iter().filter(|(_, o)| matches!(o, Output::Check { .. })).count();
    assert_eq!(checks(&stage), 1, "{:?}", stage.log);
    stage.give(Input::Reconnected { key: key("b") });
    assert_eq!(checks(&stage), 1, "none was under way");
    stage.run_until(stage.now + 60_000);
    assert_eq!(stage.about("b").iter().filter(|o| matches!(o, Output::Dismiss { .. })).count(), 0);
}
