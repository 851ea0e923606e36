//! Stories over several schedulers: could a task be started beside itself?

use super::*;

/// What became of a task that may have been started on `w2`.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// It was not started: `w2` was held back.
    HeldBack,
    /// It was, and the next scheduler waits for `w2`.
    WaitsForIt,
    /// It was, and the next scheduler starts tasks without having heard of it.
    StartsTwice,
}

/// `w1` knows the set of itself alone and falls silent; `w2` joins and is told of both. Then the scheduler restarts and
/// `w1` is the first to come back.
fn w1_is_silent_while_w2_joins(mutation: Option<Mutation>) -> Ending {
    let mut scene = Scene::settled(&[1], mutation);
    scene.consensus.unhealthy(Member(1));
    scene.report(2);
    scene.beat(2);
    scene.beat(2);
    scene.consensus.update();
    if scene.run(2).is_err() {
        return Ending::HeldBack;
    }
    scene.restart();
    scene.report(1);
    if scene.how().is_none() { Ending::WaitsForIt } else { Ending::StartsTwice }
}

#[test]
fn a_new_worker_waits_until_a_silent_one_requires_it() {
    assert_eq!(w1_is_silent_while_w2_joins(None), Ending::HeldBack);
    for mutation in [
        Mutation::GateRemoved,
        Mutation::UnhealthyExcluded,
        Mutation::StrangersRaiseLabels,
        Mutation::TellingIsEnough,
    ] {
        assert_eq!(w1_is_silent_while_w2_joins(Some(mutation)), Ending::StartsTwice, "{mutation:?}");
    }
}

#[test]
fn it_is_permitted_when_the_silent_one_has_spoken_or_died() {
    let mut scene = Scene::settled(&[1], None);
    scene.report(2);
    scene.beat(2);
    let (label, needed) = (scene.consensus.label_of(Member(1)).unwrap(), scene.consensus.version());
    assert_eq!(scene.run(2), Err(HeldBack::Older { by: Member(1), label, needed }));

    let mut spoken =
        Scene { consensus: scene.consensus.clone(), kept: scene.kept.clone(), ..Scene::new(None) };
    spoken.known = scene.known.clone();
    spoken.settle();
    assert_eq!(spoken.run(2), Ok(()));
    spoken.restart();
    spoken.report(1);
    assert_eq!(spoken.how(), None, "the task may be running on w2");
    spoken.report(2);
    assert_eq!(spoken.how(), Some(How::Agreed));

    scene.lose(1);
    assert_eq!(scene.run(2), Ok(()), "the set without w1 is no obstacle");
}

/// `w1` agrees with itself at a restart. What it is told then is lost on the way, so it holds the former id when `w2` joins.
fn w2_joins_while_w1_is_in_limbo(mutation: Option<Mutation>) -> Ending {
    let mut scene = Scene::settled(&[1], mutation);
    let from_before = scene.kept[&1];
    scene.restart();
    scene.report(1);
    assert_eq!(scene.how(), Some(How::Agreed));
    assert_eq!(scene.kept[&1], from_before);
    scene.report(2);
    scene.beat(2);
    scene.consensus.update();
    if scene.run(2).is_err() {
        return Ending::HeldBack;
    }
    scene.restart();
    scene.report(1);
    if scene.how().is_none() { Ending::WaitsForIt } else { Ending::StartsTwice }
}

#[test]
fn whoever_has_not_said_what_it_holds_holds_back_all_others() {
    assert_eq!(w2_joins_while_w1_is_in_limbo(None), Ending::HeldBack);
    assert_eq!(w2_joins_while_w1_is_in_limbo(Some(Mutation::LimboIgnored)), Ending::StartsTwice);
}

/// Scheduler 1 settled {w1, w2} and w2 runs a task. Scheduler 2 hears from w1 alone and dies in its wait. Scheduler 3 hears from w1.
fn three_schedulers_in_quick_succession(mutation: Option<Mutation>) -> Ending {
    let mut scene = Scene::settled(&[1, 2], mutation);
    scene.restart();
    scene.report(1);
    scene.beat(1);
    assert_eq!(scene.how(), None);
    scene.restart();
    scene.report(1);
    if scene.how().is_none() { Ending::WaitsForIt } else { Ending::StartsTwice }
}

#[test]
fn a_scheduler_that_dies_in_its_wait_leaves_no_trace() {
    assert_eq!(three_schedulers_in_quick_succession(None), Ending::WaitsForIt);
    assert_eq!(three_schedulers_in_quick_succession(Some(Mutation::IdsDuringWait)), Ending::StartsTwice);
}

#[test]
fn a_quiet_restart_ends_with_the_last_report() {
    let mut scene = Scene::settled(&[1, 2, 3], None);
    for _ in 0..3 {
        scene.restart();
        scene.report(3);
        scene.report(1);
        assert_eq!(scene.how(), None);
        scene.report(2);
        assert_eq!(scene.how(), Some(How::Agreed));
        scene.settle();
        assert!([1, 2, 3].into_iter().all(|worker| scene.run(worker).is_ok()));
    }
}

#[test]
fn a_restart_before_all_were_told_waits_in_full() {
    let mut scene = Scene::settled(&[1, 2, 3], None);
    scene.restart();
    [1, 2, 3].into_iter().for_each(|worker| scene.report(worker));
    assert_eq!(scene.how(), Some(How::Agreed));
    scene.beat(1);
    scene.restart();
    [1, 2, 3].into_iter().for_each(|worker| scene.report(worker));
    assert_eq!(scene.how(), None, "w1 knows of scheduler 2's set, the others do not");
    scene.consensus.safe_wait_over();
    scene.consensus.update();
    assert_eq!(scene.how(), Some(How::SafeWait));
}

/// A worker that was permitted; then somebody joins and has not spoken.
fn a_newcomer_after_permission(mutation: Option<Mutation>) -> Result<(), HeldBack> {
    let mut scene = Scene::settled(&[1, 2], mutation);
    scene.report(3);
    scene.run(1)
}

#[test]
fn the_latch_holds_for_the_schedulers_life() {
    assert_eq!(a_newcomer_after_permission(None), Ok(()));
    assert!(a_newcomer_after_permission(Some(Mutation::LatchForgotten)).is_err());

    let mut scene = Scene::settled(&[1, 2], None);
    scene.restart();
    [1, 2].into_iter().for_each(|worker| scene.report(worker));
    assert_eq!(scene.how(), Some(How::Agreed));
    assert!(scene.run(1).is_err(), "the next scheduler starts without it");
}

#[test]
fn the_dead_hold_nobody_back() {
    let story = |mutation| {
        let mut scene = Scene::settled(&[1], mutation);
        scene.report(2);
        scene.beat(2);
        scene.lose(1);
        scene.settle();
        scene.run(2)
    };
    assert_eq!(story(None), Ok(()));
    assert!(story(Some(Mutation::MustDieCounts)).is_err());
}

#[test]
fn permission_needs_an_echo_of_all_additions_but_not_of_removals() {
    let mut scene = Scene::settled(&[1, 2, 3], None);
    scene.report(4);
    scene.settle();
    scene.report(5);
    scene.beat(5);
    scene.lose(3);
    let needed = scene.consensus.echo_of(Member(5)).unwrap();
    assert_ne!(needed, scene.consensus.version());
    scene.beat(1);
    scene.beat(1);
    scene.consensus.update();
    assert_eq!(scene.run(5), Ok(()), "it knows everybody, and one who is dead");
    scene.report(6);
    scene.report(7);
    scene.beat(6);
    assert!(matches!(scene.run(6), Err(HeldBack::Behind { .. })), "it has not heard of w7");
    scene.beat(6);
    assert_eq!(scene.run(6), Err(HeldBack::Limbo { by: Member(7) }));
}

#[test]
fn only_newer_words_about_ones_own_sets_are_echoes() {
    let mut scene = Scene::settled(&[1, 2], None);
    let of_the_former = scene.consensus.set();
    scene.restart();
    [1, 2].into_iter().for_each(|worker| scene.report(worker));
    assert_eq!(scene.how(), Some(How::Agreed));
    assert!(!scene.consensus.echoed(Member(1), of_the_former), "of another scheduler");
    assert_eq!(scene.consensus.label_of(Member(1)), None);

    let two = scene.consensus.set();
    scene.report(3);
    let three = scene.consensus.set();
    assert!(!scene.consensus.echoed(Member(3), two), "it is not in that set");
    assert!(scene.consensus.echoed(Member(1), three));
    assert!(!scene.consensus.echoed(Member(1), two), "a late word");
    assert_eq!(scene.consensus.echo_of(Member(1)), Some(three.version));
}
