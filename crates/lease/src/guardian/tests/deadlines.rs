//! The clock rule, kept by whoever is awake.

use super::*;

/// Named in the table of mutations.
pub(super) fn exclusive_families_are_killed_before_the_lease_is_over(rig: &mut Rig) {
    rig.run(0, ONE, true);
    rig.run(0, TWO, false);
    assert_eq!(rig.live_until(60_000), [(14_000, terminate(ONE)), (19_000, kill(ONE))]);
}

/// Named in the table of mutations.
pub(super) fn a_lease_alone_keeps_no_exclusive_family(rig: &mut Rig) {
    rig.run(0, TWO, false);
    assert_eq!(rig.say(4_000, Order::Lease { until: at(24_000) }), []);
    let launch = rig.launch(14_000, ONE, true);
    assert_eq!(launch, [refused(ONE)], "the key lives on; nobody vouches for exclusive jobs under it");
    rig.hold(15_000, 35_000);
    rig.run(15_000, FamilyId(3), true);
}

#[test]
fn leases_alone_keep_no_exclusive_family() {
    a_lease_alone_keeps_no_exclusive_family(&mut Rig::new());
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.say(0, Order::Inside { exclusive: true });
    rig.say(4_000, Order::Lease { until: at(24_000) });
    let expected = [(14_000, terminate(ONE)), (19_000, kill(ONE)), (19_500, Output::KillWorker)];
    assert_eq!(rig.live_until(60_000), expected);
}

#[test]
fn exclusive_families_end_before_the_lease_is_over() {
    exclusive_families_are_killed_before_the_lease_is_over(&mut Rig::new());
}

#[test]
fn the_terms_say_how_much_earlier() {
    let mut rig = Rig::new();
    let stopping = Stopping { kill_wait: Duration::from_secs(2), safety: Duration::from_millis(400) };
    rig.say(0, Order::Terms(stopping));
    rig.run(0, ONE, true);
    rig.say(0, Order::Inside { exclusive: true });
    let expected = [(17_600, terminate(ONE)), (19_600, kill(ONE)), (19_800, Output::KillWorker)];
    assert_eq!(rig.live_until(60_000), expected);
}

#[test]
fn renewals_move_the_deadline_until_it_is_met() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.hold(4_000, 24_000);
    rig.hold(4_100, 23_000);
    assert_eq!(rig.live_until(18_000), [(18_000, terminate(ONE))], "never to an earlier time");
    rig.hold(18_500, 38_000);
    rig.run(18_500, TWO, true);
    let expected = [(23_000, kill(ONE)), (32_000, terminate(TWO)), (37_000, kill(TWO))];
    assert_eq!(rig.live_until(60_000), expected, "what was told to end does not come back");
}

#[test]
fn a_family_that_the_worker_told_to_end_is_not_told_again() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    assert_eq!(rig.say(1_000, Order::Terminate { family: ONE }), [terminate(ONE)]);
    rig.hold(4_000, 24_000);
    assert_eq!(rig.live_until(60_000), [(19_000, kill(ONE))], "by the lease of the moment it was told");
}

#[test]
fn a_new_key_leaves_the_families_of_the_former_one_to_its_lease() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.say(0, Order::Inside { exclusive: true });
    rig.key(5_000, "w2");
    rig.hold(5_000, 25_000);
    rig.run(5_000, TWO, true);
    let former = [(14_000, terminate(ONE)), (19_000, kill(ONE)), (19_000, terminate(TWO))];
    assert_eq!(rig.live_until(19_000), former);
    assert_eq!(rig.live_until(60_000), [(19_500, Output::KillWorker), (24_000, kill(TWO))]);
}

#[test]
fn jobs_inside_the_worker_end_with_it() {
    let mut rig = Rig::new();
    rig.say(0, Order::Inside { exclusive: true });
    rig.hold(4_000, 24_000);
    assert_eq!(rig.live_until(60_000), [(23_500, Output::KillWorker)], "once");
    rig.say(60_000, Order::Inside { exclusive: true });
    assert_eq!(rig.live_until(90_000), [], "it is dying");

    let mut rig = Rig::new();
    rig.say(0, Order::Inside { exclusive: true });
    rig.say(10_000, Order::Inside { exclusive: false });
    assert_eq!(rig.live_until(60_000), []);
    assert_eq!(rig.say(60_000, Order::Inside { exclusive: true }), []);
    assert_eq!(rig.live_until(60_000), [(19_500, Output::KillWorker)], "its lease is over");
}

#[test]
fn jobs_inside_follow_the_new_key_once_that_is_said() {
    let mut rig = Rig::new();
    rig.say(0, Order::Inside { exclusive: true });
    rig.key(5_000, "w2");
    rig.hold(5_000, 25_000);
    rig.say(6_000, Order::Inside { exclusive: true });
    assert_eq!(rig.live_until(60_000), [(24_500, Output::KillWorker)]);
}

#[test]
fn a_guardian_that_was_stopped_ends_what_is_over_before_it_hears_anything() {
    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.run(0, TWO, false);
    rig.say(0, Order::Inside { exclusive: true });
    let outputs = rig.say(15_000, Order::Hold { until: at(40_000) });
    assert_eq!(outputs, [terminate(ONE)], "a lease that was renewed in time is heard of too late");
    let launch = rig.launch(30_000, FamilyId(3), true);
    assert_eq!(launch, [kill(ONE), Output::Launch { family: FamilyId(3) }]);

    let mut rig = Rig::new();
    rig.run(0, ONE, true);
    rig.say(0, Order::Inside { exclusive: true });
    let outputs = rig.launch(30_000, TWO, true);
    assert_eq!(
        outputs,
        [kill(ONE), Output::KillWorker, refused(TWO)],
        "there is nothing left to ask for politely"
    );
}
