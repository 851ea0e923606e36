//! Virtual time, and a detector that writes down whom it calls dead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use detect::{PassiveConfig, PassiveDetector};
use model::{Clock, Instant, WallTime, WorkerKey};

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct VirtualClock {
    nanos: AtomicU64,
}

impl VirtualClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn monotonic(&self) -> Instant {
        // Not zero, so that nobody can take readings for spans.
        Instant::from_millis(86_400_000) + Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallTime {
        WallTime::from_millis(0)
    }
}

/// A detector in virtual time, checked by hand.
pub(crate) struct Bench {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) detector: PassiveDetector,
    dead: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    pub(crate) fn new(members_max: usize) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let dead = Arc::<Mutex<Vec<String>>>::default();
        let found = Arc::clone(&dead);
        let on_dead = move |member: &WorkerKey| found.lock().expect("unpoisoned").push(member.to_string());
        let detector = PassiveDetector::with_members_max(
            PassiveConfig::default(),
            members_max,
            Arc::clone(&clock) as Arc<dyn Clock>,
            on_dead,
        );
        Bench { clock, detector, dead }
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    /// Who was called dead since this was last asked.
    pub(crate) fn dead(&self) -> Vec<String> {
        let mut dead = std::mem::take(&mut *self.dead.lock().expect("unpoisoned"));
        dead.sort();
        dead
    }
}

pub(crate) fn key(text: &str) -> WorkerKey {
    WorkerKey::new(text).expect("a good key")
}

pub(crate) const NOBODY: [&str; 0] = [];
