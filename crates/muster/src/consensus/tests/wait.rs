//! When the wait ends, and when it must not.

use super::*;
use crate::consensus::Reason;

fn reasons(scene: &Scene) -> Vec<Reason> {
    match scene.consensus.wait() {
        Wait::Waiting(reasons) => reasons,
        Wait::Over { how } => panic!("the wait is over: {how:?}"),
    }
}

#[test]
fn an_empty_set_id_agrees_with_nothing() {
    let mut scene = Scene::new(None);
    assert_eq!(reasons(&scene), [Reason::Nobody]);
    scene.report(1);
    scene.report(2);
    assert_eq!(reasons(&scene), [Reason::NoId { member: Member(1), count: 2 }]);
    scene.consensus.safe_wait_over();
    scene.consensus.update();
    assert_eq!(scene.how(), Some(How::SafeWait));
}

#[test]
fn nobody_at_all_is_waited_for_in_full() {
    let mut scene = Scene::settled(&[1], None);
    scene.restart();
    scene.consensus.update();
    assert_eq!(scene.how(), None);
    scene.report(1);
    assert_eq!(scene.how(), Some(How::Agreed));
}

#[test]
fn a_part_of_the_set_is_not_enough() {
    let story = |mutation| {
        let mut scene = Scene::settled(&[1, 2], mutation);
        scene.restart();
        scene.report(1);
        scene
    };
    assert_eq!(reasons(&story(None)), [Reason::OtherSet { expected: 2, present: 1 }]);
    assert_eq!(story(Some(Mutation::HashIgnored)).how(), Some(How::Agreed), "and starts what w2 runs");
}

#[test]
fn an_impostor_blocks_until_it_is_lost() {
    let mut scene = Scene::settled(&[1, 2], None);
    let mut other = Scene::settled(&[9], None);
    scene.kept.append(&mut other.kept);
    scene.restart();
    [1, 9, 2].into_iter().for_each(|worker| scene.report(worker));
    assert_eq!(reasons(&scene), [Reason::IdsDiffer { one: Member(1), other: Member(9) }]);
    scene.lose(9);
    assert_eq!(scene.consensus.leave_wait(), Some(How::Agreed), "at once");
}

#[test]
fn a_member_that_is_lost_in_the_wait_is_missed() {
    let mut scene = Scene::settled(&[1, 2], None);
    scene.restart();
    scene.beat(2);
    scene.report(1);
    scene.lose(2);
    scene.consensus.update();
    assert_eq!(reasons(&scene), [Reason::OtherSet { expected: 2, present: 1 }]);
}

/// All have come back, but what w2 runs is not known.
fn w2_is_new(mutation: Option<Mutation>) -> Scene {
    let mut scene = Scene::settled(&[1, 2], mutation);
    scene.restart();
    scene.report(1);
    scene.beat(2);
    scene.consensus.update();
    scene
}

#[test]
fn agreement_waits_for_the_tasks_of_new_workers() {
    let mut scene = w2_is_new(None);
    assert_eq!(reasons(&scene), [Reason::New { member: Member(2), count: 1 }]);
    scene.report(2);
    assert_eq!(scene.how(), Some(How::Agreed));
    assert_eq!(w2_is_new(Some(Mutation::NewIgnored)).how(), Some(How::Agreed));
}

#[test]
fn the_end_of_the_safe_wait_does_too() {
    let mut scene = w2_is_new(None);
    scene.consensus.safe_wait_over();
    scene.consensus.update();
    assert_eq!(scene.how(), None);
    scene.beat(3);
    scene.consensus.update();
    assert_eq!(scene.how(), None, "w3 came too late to run anything, but w2 did not");
    scene.lose(2);
    scene.consensus.update();
    assert_eq!(scene.how(), Some(How::SafeWait), "w3 is new, and does not prolong the wait");
}

#[test]
fn leaving_is_one_way() {
    let story = |mutation| {
        let mut scene = Scene::settled(&[1], mutation);
        scene.lose(1);
        scene.beat(2);
        scene.consensus.update();
        (scene.consensus.is_waiting(), scene.consensus.current(Member(2)).is_some())
    };
    assert_eq!(story(None), (false, true));
    assert_eq!(story(Some(Mutation::ExitReentered)), (true, false));
}

#[test]
fn an_unsafe_wait_says_so() {
    let mut scene = Scene::new(None);
    scene.beat(1);
    scene.consensus.unsafe_wait_over();
    scene.consensus.update();
    assert_eq!(scene.how(), None, "w1 is new");
    scene.consensus.safe_wait_over();
    scene.report(1);
    assert_eq!(scene.how(), Some(How::Unsafe), "those who came in between were not waited for");
}

#[test]
fn ids_of_the_present_scheduler_are_not_from_before() {
    let mut scene = Scene::new(None);
    let own = SetId { hash: crate::SetHash::default().with(identity(1)), ..scene.consensus.set() };
    scene.kept.insert(1, Some(own));
    scene.report(1);
    assert_eq!(reasons(&scene), [Reason::NoId { member: Member(1), count: 1 }]);
}

#[test]
fn the_order_of_arrival_leaves_no_trace() {
    let arrive = |order: [u32; 3]| {
        let mut scene = Scene::settled(&[1, 2, 3], None);
        scene.restart();
        order.into_iter().for_each(|worker| scene.report(worker));
        assert_eq!(scene.how(), Some(How::Agreed));
        scene.consensus
    };
    assert_eq!(arrive([1, 2, 3]), arrive([3, 1, 2]));
}
