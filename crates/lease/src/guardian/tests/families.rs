//! Families while the worker lives: started on its order, gone when nobody of them is left.

use super::*;

/// Named in the table of mutations.
pub(super) fn a_family_has_ended_when_nobody_of_it_is_left(rig: &mut Rig) {
    rig.run(0, ONE, true);
    assert_eq!(
        rig.input(100, Input::LeaderExited { family: ONE }),
        [kill(ONE)],
        "its rest is no job any more"
    );
    assert_eq!(rig.emptied(200, ONE), [Output::Ended { family: ONE }]);
    assert_eq!(rig.emptied(300, ONE), [], "once");
}

#[test]
fn family_has_ended_when_nobody_of_it_is_left() {
    a_family_has_ended_when_nobody_of_it_is_left(&mut Rig::new());
}

#[test]
fn the_worker_may_end_a_family_itself() {
    let mut rig = Rig::new();
    rig.run(0, ONE, false);
    assert_eq!(rig.say(100, Order::Terminate { family: ONE }), [terminate(ONE)]);
    assert_eq!(rig.say(200, Order::Kill { family: ONE }), [kill(ONE)]);
    assert_eq!(rig.input(300, Input::LeaderExited { family: ONE }), [], "that was ordered");
    assert_eq!(rig.emptied(400, ONE), [Output::Ended { family: ONE }]);
    for order in [Order::Terminate { family: ONE }, Order::Kill { family: TWO }] {
        assert_eq!(rig.say(500, order), [], "nobody of that name");
    }
    for input in [Input::LeaderExited { family: TWO }, Input::Launched { family: TWO, runs: true }] {
        assert_eq!(rig.input(600, input), []);
    }
}

#[test]
fn what_could_not_be_started_is_forgotten() {
    let mut rig = Rig::new();
    rig.launch(0, ONE, true);
    assert_eq!(rig.input(100, Input::Launched { family: ONE, runs: false }), []);
    assert_eq!(rig.guardian.next_deadline(), None);
    assert_eq!(rig.die(200), [left("w1", 0, 200)]);
}

#[test]
fn orders_reach_a_family_that_is_being_started() {
    let mut rig = Rig::new();
    rig.launch(0, ONE, false);
    rig.launch(0, TWO, true);
    assert_eq!(rig.say(100, Order::Terminate { family: ONE }), [], "there is nobody yet");
    assert_eq!(rig.emptied(150, ONE), [], "nor can it be gone");
    assert_eq!(rig.launched(200, ONE), [terminate(ONE)]);
    assert_eq!(rig.live_until(19_000), []);
    assert_eq!(rig.launched(19_000, TWO), [kill(TWO)], "its time was over before it began");
}

#[test]
fn an_exclusive_family_needs_a_lease_with_time_left() {
    let mut rig = Rig { guardian: Guardian::new() };
    assert_eq!(rig.launch(0, ONE, true), [refused(ONE)], "no key");
    rig.key(0, "w1");
    assert_eq!(rig.launch(0, ONE, true), [refused(ONE)], "no lease");
    rig.hold(0, 20_000);
    assert_eq!(rig.launch(13_999, ONE, true), [Output::Launch { family: ONE }]);
    let mut rig = Rig::new();
    assert_eq!(rig.launch(14_000, ONE, true), [refused(ONE)], "it would have to be stopped at once");
    assert_eq!(rig.launch(14_000, TWO, false), [Output::Launch { family: TWO }], "ordinary ones need none");
    rig.hold(15_000, 40_000);
    assert_eq!(rig.launch(15_000, ONE, true), [Output::Launch { family: ONE }]);
    rig.key(16_000, "w2");
    assert_eq!(rig.launch(16_000, FamilyId(3), true), [refused(FamilyId(3))], "a new key has no lease yet");
}

#[test]
fn nothing_is_started_for_a_worker_that_said_good_bye() {
    let mut rig = Rig::new();
    assert_eq!(rig.say(0, Order::Bye), []);
    assert_eq!(rig.launch(100, ONE, false), [refused(ONE)]);
}
