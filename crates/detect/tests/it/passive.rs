//! What the passive detector promises, in virtual time.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use detect::{Checked, PassiveConfig, PassiveDetector, Pinged};
use model::{Clock, WorkerKey};

use crate::support::{Bench, NOBODY, VirtualClock, key};

#[test]
fn the_first_ping_registers_and_the_next_are_known() {
    let bench = Bench::new(10);
    let worker = key("w");
    assert_eq!(bench.detector.since_last(&worker), None);
    assert_eq!(bench.detector.ping(&worker), Pinged::Registered);
    assert_eq!(bench.detector.ping(&worker), Pinged::Known);
    assert_eq!(bench.detector.count(), 1);
    bench.pass(1_234);
    assert_eq!(bench.detector.since_last(&worker), Some(Duration::from_millis(1_234)));
    bench.detector.ping(&worker);
    assert_eq!(bench.detector.since_last(&worker), Some(Duration::ZERO));
}

#[test]
fn silence_is_told_once_and_the_member_is_forgotten() {
    let bench = Bench::new(10);
    bench.detector.ping(&key("silent"));
    bench.detector.ping(&key("steady"));
    bench.pass(10_000);
    bench.detector.ping(&key("steady"));
    bench.pass(5_000);
    assert_eq!(bench.detector.check_now().dead, 0, "a silence of the timeout is not beyond it");
    bench.pass(1);
    assert_eq!(bench.detector.check_now().dead, 1);
    assert_eq!(bench.dead(), ["silent"]);
    assert_eq!(bench.detector.count(), 1);
    assert_eq!(bench.detector.since_last(&key("silent")), None);
    bench.pass(5_000);
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY, "told once");
}

#[test]
fn all_members_are_listed_with_their_silence() {
    let bench = Bench::new(10);
    for member in ["a", "b", "c"] {
        bench.detector.ping(&key(member));
        bench.pass(1_000);
    }
    bench.detector.remove(&key("b"));
    let mut members = bench.detector.members();
    members.sort();
    assert_eq!(members, [(key("a"), Duration::from_secs(3)), (key("c"), Duration::from_secs(1))]);
}

#[test]
fn a_ping_of_the_dead_registers_afresh() {
    let bench = Bench::new(10);
    bench.detector.ping(&key("w"));
    bench.pass(15_001);
    bench.detector.check_now();
    assert_eq!(bench.dead(), ["w"]);
    assert_eq!(bench.detector.ping(&key("w")), Pinged::Registered);
    bench.pass(15_000);
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY, "with a full timeout");
    bench.pass(1);
    bench.detector.check_now();
    assert_eq!(bench.dead(), ["w"]);
}

#[test]
fn who_leaves_does_not_die() {
    let bench = Bench::new(10);
    bench.detector.ping(&key("leaver"));
    assert!(bench.detector.remove(&key("leaver")));
    assert!(!bench.detector.remove(&key("leaver")), "it is gone");
    assert_eq!(bench.detector.count(), 0);
    bench.pass(60_000);
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY);
}

#[test]
fn a_member_that_left_and_came_back_is_judged_by_its_new_life_only() {
    let bench = Bench::new(10);
    bench.detector.ping(&key("w"));
    bench.detector.check_now();
    bench.pass(10_000);
    bench.detector.remove(&key("w"));
    assert_eq!(bench.detector.ping(&key("w")), Pinged::Registered);
    bench.pass(10_000);
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY, "the old life would be over by now");
    bench.pass(5_001);
    assert_eq!(bench.detector.check_now().dead, 1);
    assert_eq!(bench.dead(), ["w"]);
}

#[test]
fn members_from_before_have_a_full_timeout_and_are_noticed_if_they_died() {
    let bench = Bench::new(3);
    bench.detector.ping(&key("known"));
    bench.pass(1_000);
    let before = [key("known"), key("alive"), key("dead"), key("one-too-many")];
    assert_eq!(bench.detector.seed(&before), 1, "one beyond the bound");
    bench.pass(14_000);
    bench.detector.ping(&key("alive"));
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY);
    bench.pass(1_001);
    bench.detector.check_now();
    assert_eq!(bench.dead(), ["dead", "known"]);
}

#[test]
fn a_start_gives_everybody_a_full_timeout() {
    let bench = Bench::new(10);
    bench.detector.ping(&key("w"));
    bench.pass(10_000);
    bench.detector.start();
    bench.detector.stop();
    bench.pass(15_000);
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY);
    bench.pass(1);
    bench.detector.check_now();
    assert_eq!(bench.dead(), ["w"]);
}

#[test]
fn pings_beyond_the_bound_are_refused_until_someone_goes() {
    let bench = Bench::new(2);
    assert_eq!(bench.detector.ping(&key("a")), Pinged::Registered);
    assert_eq!(bench.detector.ping(&key("b")), Pinged::Registered);
    assert_eq!(bench.detector.ping(&key("c")), Pinged::Full);
    assert_eq!(bench.detector.ping(&key("a")), Pinged::Known, "who is known is never refused");
    assert_eq!((bench.detector.count(), bench.detector.since_last(&key("c"))), (2, None));

    bench.detector.remove(&key("a"));
    assert_eq!(bench.detector.ping(&key("c")), Pinged::Full, "leaving and coming must not fill the memory");
    bench.pass(15_001);
    bench.detector.check_now();
    assert_eq!(bench.dead(), ["b"]);
    for (member, pinged) in [("c", Pinged::Registered), ("d", Pinged::Registered), ("e", Pinged::Full)] {
        assert_eq!(bench.detector.ping(&key(member)), pinged, "{member}");
    }
}

#[test]
fn members_that_come_and_go_leave_no_places_behind() {
    let bench = Bench::new(4);
    // Left before any check saw it, left after, dead, and refused: over and over.
    for _ in 0..10 {
        assert_eq!(bench.detector.ping(&key("left-unseen")), Pinged::Registered);
        bench.detector.remove(&key("left-unseen"));
        assert_eq!(bench.detector.ping(&key("left-seen")), Pinged::Registered);
        assert_eq!(bench.detector.ping(&key("dead")), Pinged::Registered);
        bench.detector.check_now();
        bench.detector.remove(&key("left-seen"));
        bench.pass(15_001);
        assert_eq!(bench.detector.check_now().dead, 1);
    }
    for number in 0..4 {
        assert_eq!(bench.detector.ping(&key(&number.to_string())), Pinged::Registered);
    }
    assert_eq!(bench.detector.ping(&key("fifth")), Pinged::Full);
}

/// A detector whose callback can reach it. What the callback returns is written down.
fn with_callback(
    act: impl Fn(&PassiveDetector, &WorkerKey) -> String + Send + Sync + 'static,
) -> (Arc<VirtualClock>, Arc<PassiveDetector>, Arc<Mutex<Vec<String>>>) {
    let clock = Arc::new(VirtualClock::default());
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let reach = Arc::new(OnceLock::<std::sync::Weak<PassiveDetector>>::new());
    let (own_notes, own_reach) = (Arc::clone(&notes), Arc::clone(&reach));
    let on_dead = move |member: &WorkerKey| {
        let detector = own_reach.get().and_then(std::sync::Weak::upgrade).expect("it is there");
        let note = act(&detector, member);
        own_notes.lock().expect("unpoisoned").push(note);
    };
    let detector =
        PassiveDetector::new(PassiveConfig::default(), Arc::clone(&clock) as Arc<dyn Clock>, on_dead);
    let detector = Arc::new(detector);
    reach.set(Arc::downgrade(&detector)).expect("set once");
    (clock, detector, notes)
}

#[test]
fn a_ping_between_the_check_and_its_verdict_saves() {
    // The first to be told of pings for the other one, whose silence the same check has found already.
    let (clock, detector, notes) = with_callback(|detector, member| {
        let other = if member.as_str() == "a" { "b" } else { "a" };
        if detector.since_last(&key(other)).is_some() {
            assert_eq!(detector.ping(&key(other)), Pinged::Known);
        }
        other.to_owned()
    });
    detector.ping(&key("a"));
    detector.ping(&key("b"));
    clock.advance(Duration::from_millis(15_001));
    assert_eq!(detector.check_now(), Checked { looked_at: 2, dead: 1 });
    let saved = key(&notes.lock().expect("unpoisoned").concat());
    assert_eq!((detector.count(), detector.since_last(&saved)), (1, Some(Duration::ZERO)));
    clock.advance(Duration::from_millis(15_000));
    assert_eq!(detector.check_now().dead, 0, "it is watched on, from that ping");
    clock.advance(Duration::from_millis(1));
    assert_eq!(detector.check_now().dead, 1);
}

#[test]
fn who_leaves_between_the_check_and_its_verdict_does_not_die() {
    let (clock, detector, _) = with_callback(|detector, member| {
        let other = if member.as_str() == "a" { "b" } else { "a" };
        assert!(detector.remove(&key(other)));
        String::new()
    });
    detector.ping(&key("a"));
    detector.ping(&key("b"));
    clock.advance(Duration::from_millis(15_001));
    assert_eq!(detector.check_now(), Checked { looked_at: 2, dead: 1 });
    assert_eq!(detector.count(), 0);
}

#[test]
fn a_callback_may_call_anything() {
    let (clock, detector, notes) = with_callback(|detector, member| {
        let gone = detector.since_last(member).is_none() && !detector.remove(member);
        let (pinged, seeded, checked) =
            (detector.ping(member), detector.seed([&key("seeded")]), detector.check_now());
        detector.start();
        detector.stop();
        format!("{gone} {pinged:?} {seeded} {} {}", checked.dead, detector.count())
    });
    detector.ping(&key("w"));
    clock.advance(Duration::from_millis(15_001));
    detector.check_now();
    assert_eq!(*notes.lock().expect("unpoisoned"), ["true Registered 0 0 2"]);
}

#[test]
fn a_callback_that_panics_does_not_keep_others_from_being_told() {
    let (clock, detector, _) = with_callback(|_, _| panic!("a callback of a test panics on purpose"));
    assert_eq!(detector.seed(&[key("a"), key("b"), key("c")]), 0);
    clock.advance(Duration::from_millis(15_001));
    assert_eq!(detector.check_now().dead, 3);
    assert_eq!(detector.count(), 0);
}
