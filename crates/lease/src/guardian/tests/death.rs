//! After the worker's death: nothing is started, everything is ended, and somebody hears of it.

use super::*;

/// Named in the table of mutations.
pub(super) fn leave_is_taken_when_all_families_are_gone(rig: &mut Rig) {
    rig.run(0, ONE, true);
    rig.launch(0, TWO, false);
    assert_eq!(rig.die(1_000), [kill(ONE)]);
    assert_eq!(rig.emptied(1_010, ONE), [], "there is no worker to be told, and one is still being started");
    assert_eq!(rig.launched(1_020, TWO), [kill(TWO)]);
    assert_eq!(rig.emptied(1_030, TWO), [left("w1", 20, 1_010)], "the exclusive one was gone before");
    assert_eq!(rig.answer(1_040, "w1", true), [Output::Exit]);
}

/// Named in the table of mutations.
pub(super) fn nothing_is_started_for_a_dead_worker(rig: &mut Rig) {
    rig.run(0, ONE, false);
    rig.die(1_000);
    assert_eq!(rig.launch(1_010, TWO, false), [refused(TWO)], "its last order was still unread");
}

#[test]
fn leave_waits_for_all_families() {
    leave_is_taken_when_all_families_are_gone(&mut Rig::new());
}

#[test]
fn nothing_starts_for_a_dead_worker() {
    nothing_is_started_for_a_dead_worker(&mut Rig::new());
}

#[test]
fn a_worker_without_families_is_left_at_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.die(1_000), [left("w1", 0, 1_000)]);
    assert_eq!(rig.die(1_001), [], "it dies once");
    assert_eq!(rig.answer(1_002, "w1", true), [Output::Exit]);
    assert_eq!(rig.answer(1_003, "w1", true), []);
    assert_eq!(rig.launch(1_004, ONE, false), [refused(ONE)]);
}

#[test]
fn a_worker_that_never_had_a_key_is_not_left() {
    let mut rig = Rig { guardian: Guardian::new() };
    assert_eq!(rig.die(0), [Output::Exit]);
}

#[test]
fn a_leave_is_repeated_until_it_is_taken_and_says_for_how_long_nothing_has_run() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.die(1_000);
    assert_eq!(rig.emptied(1_500, ONE), [left("w1", 0, 1_500)]);
    assert_eq!(rig.live_until(5_000), [], "one at a time");
    assert_eq!(rig.answer(5_000, "w1", false), []);
    assert_eq!(rig.live_until(6_000), [(5_100, left("w1", 3_600, 1_500))]);
    rig.answer(5_200, "w1", false);
    assert_eq!(rig.live_until(6_000), [(5_400, left("w1", 3_900, 1_500))]);
    assert_eq!(rig.answer(5_500, "w1", true), [Output::Exit]);
}

#[test]
fn nobody_is_told_for_longer_than_the_lease() {
    let mut rig = Rig::new();
    rig.die(19_850);
    assert_eq!(rig.answer(19_860, "w1", false), []);
    assert_eq!(rig.live_until(60_000), [(19_960, left("w1", 110, 19_850))]);
    assert_eq!(rig.answer(19_970, "w1", false), [Output::Exit], "the next try would be too late");

    let mut rig = Rig::new();
    assert_eq!(
        rig.die(79_999),
        [left("w1", 0, 79_999)],
        "once, so that the end of the lease can be compared"
    );
    assert_eq!(rig.answer(80_000, "w1", false), [Output::Exit]);
    assert_eq!(Rig::new().die(80_000), [Output::Exit], "long over");

    let mut rig = Rig::new();
    rig.say(4_000, Order::Lease { until: at(24_000) });
    rig.die(19_970);
    assert_eq!(rig.answer(19_980, "w1", false), []);
    assert_eq!(
        rig.live_until(60_000),
        [(20_080, left("w1", 110, 19_970))],
        "ordinary jobs are held for longer"
    );
}

#[test]
fn a_key_without_a_lease_is_tried_for_a_minute() {
    let mut rig = Rig { guardian: Guardian::new() };
    rig.key(0, "w1");
    assert_eq!(rig.die(1_000), [left("w1", 0, 1_000)], "its first answer may be on its way");
    let mut told_ms = vec![1_000];
    while rig.answer(told_ms[told_ms.len() - 1], "w1", false) != [Output::Exit] {
        let told = rig.live_until(100_000);
        assert_eq!(told.len(), 1, "one at a time");
        told_ms.push(told[0].0);
    }
    assert_eq!(told_ms[..4], [1_000, 1_100, 1_300, 1_700]);
    let last_ms = told_ms[told_ms.len() - 1];
    assert!((55_000..61_000).contains(&last_ms), "the next one would be five seconds later: {last_ms}");
}

#[test]
fn every_key_that_may_still_count_is_left() {
    let mut rig = Rig { guardian: Guardian::new() };
    for name in ["w1", "w2", "w3", "w4", "w5"] {
        rig.key(0, name);
        rig.key(0, name);
        rig.hold(0, 20_000);
    }
    rig.key(0, "w6");
    rig.say(0, Order::Lease { until: at(20_000) });
    rig.key(0, "unregistered");
    rig.key(0, "w7");
    let expected = ["w4", "w5", "w6", "w7"].map(|name| left(name, 0, 1_000));
    assert_eq!(rig.die(1_000), expected, "the last four; under one that was never registered nothing ran");
    for name in ["w4", "w5", "w6"] {
        assert_eq!(rig.answer(1_010, name, true), []);
    }
    rig.answer(1_010, "w7", false);
    assert_eq!(rig.live_until(1_110), [(1_110, left("w7", 110, 1_000))]);
    assert_eq!(rig.answer(1_120, "w7", true), [Output::Exit]);
}

#[test]
fn a_family_that_does_not_die_is_told_of_once_and_waited_for() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.key(500, "w2");
    assert_eq!(rig.die(1_000), [kill(ONE)]);
    let leave = Leave { crashed: true, ..Leave::default() };
    let warning = Output::Leave { key: key("w2"), nonce: NONCE, leave };
    assert_eq!(rig.live_until(100_000), [(6_000, warning)], "only news for people");
    assert_eq!(
        rig.emptied(101_000, ONE),
        [left("w1", 0, 101_000)],
        "its lease is long over, and the job went on beyond it"
    );
    assert_eq!(rig.answer(101_200, "w1", true), [], "w2 is not answered yet");
    assert_eq!(
        rig.answer(101_500, "w2", true),
        [left("w2", 500, 101_000)],
        "that it was gone says nothing of its jobs"
    );
    assert_eq!(rig.answer(102_000, "w2", true), [Output::Exit]);
}

#[test]
fn a_worker_that_said_good_bye_is_not_left_again() {
    let mut rig = Rig::new();
    rig.run(0, ONE, false);
    rig.say(1_000, Order::Bye);
    assert_eq!(rig.die(2_000), [kill(ONE)]);
    assert_eq!(rig.live_until(60_000), []);
    assert_eq!(rig.emptied(60_000, ONE), [Output::Exit]);

    let mut rig = Rig::new();
    rig.run(0, ONE, false);
    rig.die(2_000);
    rig.say(2_010, Order::Bye);
    assert_eq!(rig.emptied(2_020, ONE), [Output::Exit], "its good-bye was read after its death was noticed");

    let mut rig = Rig::new();
    rig.run(0, ONE, false);
    rig.say(1_000, Order::Bye);
    assert_eq!(rig.emptied(1_500, ONE), [Output::Ended { family: ONE }], "it still listens");
    assert_eq!(rig.die(2_000), [Output::Exit]);
}

#[test]
fn a_leave_says_for_how_long_nothing_exclusive_has_run_under_that_very_key() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.run(0, TWO, false);
    rig.say(1_000, Order::Key { key: key("w2"), nonce: NONCE });
    rig.say(1_000, Order::Hold { until: at(60_000) });
    rig.run(1_000, FamilyId(3), true);
    rig.emptied(2_000, ONE);
    rig.emptied(3_000, FamilyId(3));
    rig.die(4_000);
    assert_eq!(
        rig.emptied(4_500, TWO),
        [left("w1", 2_500, 2_000), left("w2", 1_500, 3_000)],
        "ordinary jobs ran on"
    );
}

#[test]
fn exclusive_jobs_inside_the_worker_end_with_it() {
    let mut rig = Rig::new();
    rig.run(0, ONE, false);
    rig.say(0, Order::Inside { exclusive: true });
    rig.die(1_000);
    assert_eq!(rig.emptied(1_200, ONE), [left("w1", 200, 1_000)]);
}
