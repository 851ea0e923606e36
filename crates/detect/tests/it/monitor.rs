//! The active monitor as a task, in tokio's virtual time: the runtime leaps to the next timer when nothing else is to
//! do.

use std::future::pending;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use detect::{Change, MonitorConfig, Watch, watch};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

/// How the target takes a probe.
#[derive(Clone, Copy)]
enum Manner {
    Answers,
    Refuses,
    Hangs,
    Panics,
}

/// A target whose manner can be changed.
#[derive(Clone)]
struct Target {
    manner: Arc<Mutex<Manner>>,
    /// How many probes were begun, and how many are under way.
    probes: Arc<AtomicU64>,
    under_way: Arc<AtomicUsize>,
}

struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Target {
    fn new(manner: Manner) -> Self {
        Target { manner: Arc::new(Mutex::new(manner)), probes: Arc::default(), under_way: Arc::default() }
    }

    fn set(&self, manner: Manner) {
        *self.manner.lock().expect("unpoisoned") = manner;
    }

    /// Watches it; says what changed and how many milliseconds after the beginning.
    fn watch(&self) -> (Watch, UnboundedReceiver<(u64, Change)>) {
        let (told, changes) = unbounded_channel();
        let (target, began) = (self.clone(), Instant::now());
        let probe = move || {
            target.probes.fetch_add(1, Ordering::SeqCst);
            target.under_way.fetch_add(1, Ordering::SeqCst);
            let leaving = Leaving(Arc::clone(&target.under_way));
            let manner = *target.manner.lock().expect("unpoisoned");
            async move {
                let _leaving = leaving;
                match manner {
                    Manner::Answers => Ok(()),
                    Manner::Refuses => Err("refused"),
                    Manner::Hangs => pending().await,
                    Manner::Panics => panic!("a probe of a test panics on purpose"),
                }
            }
        };
        let on_change = move |change| {
            told.send((began.elapsed().as_millis() as u64, change)).expect("the test listens");
        };
        (watch(MonitorConfig::default(), probe, on_change), changes)
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_answers_is_left_in_peace() {
    let target = Target::new(Manner::Answers);
    let (_watch, mut changes) = target.watch();
    sleep(Duration::from_millis(60_100)).await;
    assert_eq!(target.probes.load(Ordering::SeqCst), 13, "one at once and one every five seconds");
    assert!(changes.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn death_is_told_once_and_recovery_once() {
    for (manner, dead_at) in [(Manner::Refuses, 10_000), (Manner::Hangs, 12_000), (Manner::Panics, 10_000)] {
        let target = Target::new(manner);
        let (_watch, mut changes) = target.watch();
        let (at, change) = changes.recv().await.expect("the watch goes on");
        assert_eq!((at / 10, change), (dead_at / 10, Change::Dead));
        assert!(timeout(Duration::from_secs(120), changes.recv()).await.is_err(), "dead once");

        target.set(Manner::Answers);
        assert_eq!(changes.recv().await.map(|(_, change)| change), Some(Change::Recovered));
        assert!(timeout(Duration::from_secs(120), changes.recv()).await.is_err(), "recovered once");

        target.set(manner);
        assert_eq!(changes.recv().await.map(|(_, change)| change), Some(Change::Dead), "it may die again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_timed_out_is_dropped() {
    let target = Target::new(Manner::Hangs);
    let (_watch, _changes) = target.watch();
    sleep(Duration::from_millis(1_900)).await;
    assert_eq!(target.under_way.load(Ordering::SeqCst), 1);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(target.under_way.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_stops_everything() {
    let target = Target::new(Manner::Hangs);
    let (watch, mut changes) = target.watch();
    sleep(Duration::from_millis(5_100)).await;
    assert_eq!((target.probes.load(Ordering::SeqCst), target.under_way.load(Ordering::SeqCst)), (2, 1));
    drop(watch);
    assert_eq!(changes.recv().await, None, "the callback is gone, and it has told nothing");
    sleep(Duration::from_secs(60)).await;
    assert_eq!((target.probes.load(Ordering::SeqCst), target.under_way.load(Ordering::SeqCst)), (2, 0));
}
