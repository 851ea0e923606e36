//! Holders that only ping: no lease, no token, no stream. Their silence is noticed by the passive detector.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use detect::{PassiveDetector, Pinged};
use lease::passive::PassiveConfig;
use model::{Clock, ErrorKind, WorkerKey};
use rpc::ApiError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::info;

use crate::api::{Answer, Api};
use crate::roll_duties;

/// Who pings, and a way to hear who stopped.
pub(crate) struct Pingers {
    detector: PassiveDetector,
    dead: Mutex<Option<mpsc::UnboundedReceiver<WorkerKey>>>,
    /// Those whose jobs are being taken back: until that is done they cannot start over.
    losing: Arc<Mutex<HashSet<WorkerKey>>>,
}

/// Ends the task that takes jobs back from silent holders, and the detector's checks.
pub(crate) struct Running {
    api: Arc<Api>,
    task: JoinHandle<()>,
}

impl Pingers {
    pub(crate) fn new(config: PassiveConfig, clock: Arc<dyn Clock>) -> Self {
        let (tell, dead) = mpsc::unbounded_channel();
        let losing = Arc::new(Mutex::new(HashSet::new()));
        let lost = Arc::clone(&losing);
        let detector = PassiveDetector::new(config, clock, move |key: &WorkerKey| {
            info!(worker = %key, "a pinging holder fell silent");
            lock(&lost).insert(key.clone());
            // An error means that the server is going away.
            let _ = tell.send(key.clone());
        });
        Pingers { detector, dead: Mutex::new(Some(dead)), losing }
    }

    /// Takes back the jobs of those who fall silent, until the answer is dropped.
    pub(crate) fn start(api: &Arc<Api>) -> Running {
        let dead = lock(&api.pingers.dead).take();
        let mut dead = dead.expect("a server starts once");
        let task = tokio::spawn({
            let api = Arc::clone(api);
            async move {
                while let Some(key) = dead.recv().await {
                    let api = Arc::clone(&api);
                    tokio::spawn(async move {
                        // As of now: a later registry of ours has not heard its silence.
                        if let Ok(registry) = api.charge.registry() {
                            roll_duties::lose_pinger(Arc::clone(&api), key.clone(), registry).await;
                        }
                        lock(&api.pingers.losing).remove(&key);
                    });
                }
            }
        });
        Running { api: Arc::clone(api), task }
    }

    /// Those known from before, with a full timeout, so that one that died with us is noticed too.
    pub(crate) fn restore(&self, known: &[store::Enlist]) {
        if !known.is_empty() {
            self.detector.seed(known.iter().map(|known| &known.key));
            self.detector.start();
        }
    }

    /// Notes a ping.
    pub(crate) fn ping(&self, key: &WorkerKey) -> Answer<()> {
        match self.detector.ping(key) {
            Pinged::Known => Ok(()),
            Pinged::Registered => {
                // Without members nobody wakes for checks.
                self.detector.start();
                Ok(())
            }
            Pinged::Full => Err(ApiError::new(ErrorKind::Throttled, "too many holders ping this server")),
        }
    }

    pub(crate) fn is_alive(&self, key: &WorkerKey) -> bool {
        self.silent_for(key).is_some()
    }

    /// Whether its jobs are still being taken back.
    pub(crate) fn is_being_lost(&self, key: &WorkerKey) -> bool {
        lock(&self.losing).contains(key)
    }

    pub(crate) fn silent_for(&self, key: &WorkerKey) -> Option<Duration> {
        self.detector.since_last(key)
    }

    /// They are another server's to hear now.
    pub(crate) fn forget_all(&self) {
        for (key, _) in self.detector.members() {
            self.detector.remove(&key);
        }
    }

    pub(crate) fn remove(&self, key: &WorkerKey) {
        self.detector.remove(key);
    }

    pub(crate) fn count(&self) -> usize {
        self.detector.count()
    }

    /// Everyone, and how long each has been silent.
    pub(crate) fn members(&self) -> Vec<(WorkerKey, Duration)> {
        self.detector.members()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while holding the lock")
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.api.pingers.detector.stop();
    }
}
