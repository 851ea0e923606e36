//! The detector's own thread, in real time. The tests wait for what it says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use clock::SystemClock;
use detect::{PassiveConfig, PassiveDetector, Pinged};
use model::WorkerKey;

use crate::support::{VirtualClock, key};

/// A third of the timeout is still long enough that a busy machine seldom makes a check that late.
const QUICK: PassiveConfig =
    PassiveConfig { timeout: Duration::from_millis(300), check_every: Duration::from_millis(20) };
/// Far more than anything here takes: when it is over, something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn telling(config: PassiveConfig) -> (PassiveDetector, Receiver<String>) {
    let (told, deaths) = channel();
    let told = Mutex::new(told);
    let on_dead = move |member: &WorkerKey| {
        told.lock().expect("unpoisoned").send(member.to_string()).expect("the test listens");
    };
    (PassiveDetector::new(config, Arc::new(SystemClock), on_dead), deaths)
}

#[test]
fn the_thread_checks_by_itself_and_tells_not_too_early() {
    let (detector, deaths) = telling(QUICK);
    detector.start();
    assert!(detector.is_running());
    let pinged_at = Instant::now();
    detector.ping(&key("w"));
    assert_eq!(deaths.recv_timeout(PATIENCE).as_deref(), Ok("w"));
    assert!(pinged_at.elapsed() > QUICK.timeout);
    assert_eq!(detector.count(), 0);
    assert_eq!(detector.ping(&key("w")), Pinged::Registered);
    assert_eq!(deaths.recv_timeout(PATIENCE).as_deref(), Ok("w"), "it goes on checking");
}

#[test]
fn starting_and_stopping_twice_is_starting_and_stopping() {
    let (detector, deaths) = telling(QUICK);
    detector.stop();
    assert!(!detector.is_running());
    detector.start();
    detector.start();
    assert!(detector.is_running());
    detector.ping(&key("first-run"));
    assert_eq!(deaths.recv_timeout(PATIENCE).as_deref(), Ok("first-run"));
    detector.stop();
    detector.stop();
    assert!(!detector.is_running());
    detector.start();
    detector.ping(&key("second-run"));
    assert_eq!(deaths.recv_timeout(PATIENCE).as_deref(), Ok("second-run"));
    drop(detector);
    let gone = deaths.recv_timeout(PATIENCE);
    assert_eq!(
        gone,
        Err(RecvTimeoutError::Disconnected),
        "with the detector its thread and callback are gone"
    );
}

#[test]
fn stopping_does_not_wait_for_the_next_check() {
    let hourly =
        PassiveConfig { timeout: Duration::from_secs(10_800), check_every: Duration::from_secs(3_600) };
    let (detector, _deaths) = telling(hourly);
    // Often and at different moments, since the thread may not be waiting yet.
    for round in 0..200 {
        detector.start();
        (0..round * 10).for_each(|_| assert!(detector.is_running()));
        let asked_at = Instant::now();
        detector.stop();
        assert!(asked_at.elapsed() < PassiveDetector::STOP_WAIT_MAX);
        assert!(!detector.is_running());
    }
}

#[test]
fn stopping_waits_for_the_callback_under_way() {
    let (told, entered) = channel();
    let told = Mutex::new(told);
    let has_returned = Arc::new(AtomicBool::new(false));
    let returned = Arc::clone(&has_returned);
    let detector = PassiveDetector::new(QUICK, Arc::new(SystemClock), move |_| {
        told.lock().expect("unpoisoned").send(()).expect("the test listens");
        // A callback that takes a while: nothing ever comes here.
        let (_keep, nothing) = channel::<()>();
        assert!(nothing.recv_timeout(Duration::from_millis(200)).is_err());
        returned.store(true, Ordering::SeqCst);
    });
    detector.ping(&key("w"));
    detector.start();
    entered.recv_timeout(PATIENCE).expect("the callback is called");
    detector.stop();
    assert!(has_returned.load(Ordering::SeqCst));
}

#[test]
fn stopping_does_not_wait_for_a_stuck_callback_forever() {
    let (told, entered) = channel();
    let (release, released) = channel::<()>();
    let (told, released) = (Mutex::new(told), Mutex::new(released));
    let detector = PassiveDetector::new(QUICK, Arc::new(SystemClock), move |_| {
        told.lock().expect("unpoisoned").send(()).expect("the test listens");
        // Stuck until the test lets go.
        let _ = released.lock().expect("unpoisoned").recv();
    });
    detector.ping(&key("w"));
    detector.start();
    entered.recv_timeout(PATIENCE).expect("the callback is called");
    let asked_at = Instant::now();
    detector.stop();
    assert!(asked_at.elapsed() < PATIENCE, "it returned though the callback has not");
    drop(release);
}

#[test]
fn a_stop_by_a_callback_leaves_the_other_deaths_to_the_next_start() {
    let (told, deaths) = channel();
    let told = Mutex::new(told);
    let reach = Arc::new(OnceLock::<Weak<PassiveDetector>>::new());
    let own_reach = Arc::clone(&reach);
    let on_dead = move |member: &WorkerKey| {
        let detector = own_reach.get().and_then(Weak::upgrade).expect("it is there");
        let was_running = detector.is_running();
        detector.stop();
        told.lock().expect("unpoisoned").send((member.to_string(), was_running)).expect("the test listens");
    };
    let detector = Arc::new(PassiveDetector::new(QUICK, Arc::new(SystemClock), on_dead));
    reach.set(Arc::downgrade(&detector)).expect("set once");
    detector.seed(&[key("a"), key("b"), key("c")]);
    let mut dead = Vec::new();
    for left in (0..3).rev() {
        detector.start();
        let (member, was_running) = deaths.recv_timeout(PATIENCE).expect("one death per start");
        assert!(was_running, "{member} was told by a run that had been stopped");
        assert_eq!(detector.count(), left, "the others are still members");
        dead.push(member);
    }
    dead.sort();
    assert_eq!(dead, ["a", "b", "c"]);
}

#[test]
fn a_detector_whose_clock_stands_still_calls_nobody_dead() {
    // The thread wakes in real time and finds that no time has passed. Its checks cannot be seen from here, so the test
    // waits for those of another detector.
    let still = PassiveDetector::new(QUICK, Arc::new(VirtualClock::default()), |member| {
        panic!("{member} was called dead");
    });
    still.ping(&key("w"));
    still.start();
    let (other, deaths) = telling(QUICK);
    other.start();
    for round in 0..3 {
        other.ping(&key(&round.to_string()));
        deaths.recv_timeout(PATIENCE).expect("it is called dead");
    }
    assert_eq!(still.count(), 1);
}
