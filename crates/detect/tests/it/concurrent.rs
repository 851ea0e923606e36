//! Pings from several threads while checks run: nobody is lost, nobody is killed, the silent die once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use detect::{PassiveConfig, PassiveDetector, Pinged};
use model::{Clock, WorkerKey};

use crate::support::{VirtualClock, key};

const THREADS: usize = 4;
const MEMBERS_EACH: usize = 2_000;
const ROUNDS: usize = 60;

#[test]
fn pings_during_checks_lose_nobody_and_kill_nobody() {
    let clock = Arc::new(VirtualClock::default());
    let deaths = Arc::<Mutex<BTreeMap<String, u32>>>::default();
    let found = Arc::clone(&deaths);
    let on_dead = move |member: &WorkerKey| {
        *found.lock().expect("unpoisoned").entry(member.to_string()).or_default() += 1;
    };
    let detector =
        PassiveDetector::new(PassiveConfig::default(), Arc::clone(&clock) as Arc<dyn Clock>, on_dead);
    // Each thread's count of complete passes over its members. Time moves on by one check interval only when each has
    // made another pass, so everybody pings in time although pings and checks run freely.
    let passes: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let begin = Barrier::new(THREADS + 1);

    thread::scope(|scope| {
        let mut pingers = Vec::new();
        for (number, passes) in passes.iter().enumerate() {
            let (detector, is_over, begin) = (&detector, &is_over, &begin);
            pingers.push(scope.spawn(move || {
                let steady: Vec<WorkerKey> =
                    (0..MEMBERS_EACH).map(|member| key(&format!("steady-{number}-{member}"))).collect();
                begin.wait();
                for pass in 0_u64.. {
                    for member in &steady {
                        let expected = if pass == 0 { Pinged::Registered } else { Pinged::Known };
                        assert_eq!(detector.ping(member), expected, "{member} in pass {pass}");
                    }
                    // One that pings once, and one that comes and goes.
                    assert_eq!(detector.ping(&key(&format!("doomed-{number}-{pass}"))), Pinged::Registered);
                    let fleeting = key(&format!("fleeting-{number}"));
                    assert_eq!(detector.ping(&fleeting), Pinged::Registered);
                    assert!(detector.remove(&fleeting));
                    passes.fetch_add(1, Ordering::SeqCst);
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }));
        }
        begin.wait();
        let made = || passes.iter().map(|passes| passes.load(Ordering::SeqCst)).collect::<Vec<_>>();
        for _ in 0..ROUNDS {
            let before = made();
            while made().iter().zip(&before).any(|(now, before)| *now < before + 2) {
                detector.check_now();
                // One that failed would be waited for in vain.
                if pingers.iter().any(ScopedJoinHandle::is_finished) {
                    is_over.store(true, Ordering::SeqCst);
                    return;
                }
            }
            clock.advance(Duration::from_secs(5));
        }
        is_over.store(true, Ordering::SeqCst);
    });

    clock.advance(Duration::from_secs(5));
    detector.check_now();
    let steady = THREADS * MEMBERS_EACH;
    let doomed: u64 = passes.iter().map(|passes| passes.load(Ordering::SeqCst)).sum();
    let told = deaths.lock().expect("unpoisoned").len();
    assert!(told > THREADS, "the silent die while the others ping: {told} of {doomed}");
    assert_eq!(detector.count() + told, steady + doomed as usize, "who is not there any more was told of");

    // Now nobody pings any more.
    clock.advance(Duration::from_secs(16));
    detector.check_now();
    let deaths = deaths.lock().expect("unpoisoned");
    assert_eq!(detector.count(), 0);
    assert_eq!(deaths.len(), steady + doomed as usize);
    assert!(deaths.values().all(|times| *times == 1), "each death is told once");
}

#[test]
fn of_first_pings_at_the_same_time_one_registers() {
    const KEYS: usize = 20_000;
    let detector = PassiveDetector::new(PassiveConfig::default(), Arc::new(VirtualClock::default()), |_| {});
    let keys: Vec<WorkerKey> = (0..KEYS).map(|member| key(&member.to_string())).collect();
    // The threads run along the same keys side by side: whoever is ahead waits for the other.
    let places = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let registered = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (own, other) in [(&places[0], &places[1]), (&places[1], &places[0])] {
            let (detector, keys, registered) = (&detector, &keys, &registered);
            scope.spawn(move || {
                for (place, key) in keys.iter().enumerate() {
                    own.store(place, Ordering::SeqCst);
                    while other.load(Ordering::SeqCst) < place {
                        thread::yield_now();
                    }
                    if detector.ping(key) == Pinged::Registered {
                        registered.fetch_add(1, Ordering::SeqCst);
                    }
                }
                own.store(KEYS, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(registered.load(Ordering::SeqCst), KEYS);
    assert_eq!(detector.count(), KEYS);
}
