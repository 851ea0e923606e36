//! Holders that only ping: no lease, no token, no stream. Their silence is noticed by the passive detector.

use std::sync::{Arc, Mutex};
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
}

/// Ends the task that takes jobs back from silent holders, and the detector's checks.
pub(crate) struct Running {
    api: Arc<Api>,
    task: JoinHandle<()>,
}

impl Pingers {
    pub(crate) fn new(config: PassiveConfig, clock: Arc<dyn Clock>) -> Self {
        let (tell, dead) = mpsc::unbounded_channel();
        let detector = PassiveDetector::new(config, clock, move |key: &WorkerKey| {
            info!(worker = %key, "a pinging holder fell silent");
            // An error means that the server is going away.
            let _ = tell.send(key.clone());
        });
        Pingers { detector, dead: Mutex::new(Some(dead)) }
    }

    /// Takes back the jobs of those who fall silent, until the answer is dropped.
    pub(crate) fn start(api: &Arc<Api>) -> Running {
        let dead = api.pingers.dead.lock().expect("no panic while holding the lock").take();
        let mut dead = dead.expect("a server starts once");
        let task = tokio::spawn({
            let api = Arc::clone(api);
            async move {
                while let Some(key) = dead.recv().await {
                    tokio::spawn(roll_duties::lose_pinger(Arc::clone(&api), key));
                }
            }
        });
        Running { api: Arc::clone(api), task }
    }

    /// Those known from before, with a full timeout, so that one that died with us is noticed too.
    pub(crate) fn restore(&self, known: Vec<store::Enlist>) {
        if !known.is_empty() {
            self.detector.seed(known.iter().map(|known| &known.key));
            self.detector.start();
        }
    }

    /// Notes a ping; whether it was the first.
    pub(crate) fn ping(&self, key: &WorkerKey) -> Answer<bool> {
        match self.detector.ping(key) {
            Pinged::Known => Ok(false),
            Pinged::Registered => {
                // Without members nobody wakes for checks.
                self.detector.start();
                Ok(true)
            }
            Pinged::Full => Err(ApiError::new(ErrorKind::Throttled, "too many holders ping this server")),
        }
    }

    pub(crate) fn is_alive(&self, key: &WorkerKey) -> bool {
        self.silent_for(key).is_some()
    }

    pub(crate) fn silent_for(&self, key: &WorkerKey) -> Option<Duration> {
        self.detector.since_last(key)
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

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.api.pingers.detector.stop();
    }
}
