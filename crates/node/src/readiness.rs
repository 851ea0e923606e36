//! Whether this server can take jobs now, as `/readyz` says: by a probe of the store that does what an enqueue does.
//!
//! However many ask, and however often, the store is probed once in [`PROBE_EVERY`] at most, and by one probe at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::JobStore;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long an answer of the store is good for.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long the store may take to prove itself before we say no.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// The latest probe, under way or done.
#[derive(Default)]
pub(crate) struct Readiness {
    latest: Mutex<Option<Probe>>,
}

#[derive(Clone)]
struct Probe {
    begun: Instant,
    /// Why the store is not ready, once that is known.
    answer: watch::Receiver<Option<Result<(), String>>>,
}

impl Probe {
    /// In a task of its own: whoever asked may go, and the next one waits for the same answer.
    fn start(store: Arc<dyn JobStore>) -> Self {
        let (tell, answer) = watch::channel(None);
        tokio::spawn(async move {
            let checked = store.check().await.map_err(|error| error.to_string());
            tell.send_replace(Some(checked));
        });
        Probe { begun: Instant::now(), answer }
    }

    /// A store that does not answer is not asked again before it has.
    fn is_good(&self) -> bool {
        self.begun.elapsed() < PROBE_EVERY || self.answer.borrow().is_none()
    }
}

impl Readiness {
    /// Why the store cannot take jobs now, if it cannot.
    pub(crate) async fn of(&self, store: &Arc<dyn JobStore>) -> Result<(), String> {
        let mut probe = {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            match &*latest {
                Some(probe) if probe.is_good() => probe.clone(),
                _ => latest.insert(Probe::start(Arc::clone(store))).clone(),
            }
        };
        let until = probe.begun + PROBE_WITHIN;
        match timeout_at(until, probe.answer.wait_for(Option::is_some)).await {
            Ok(Ok(answer)) => answer.clone().expect("it was waited for"),
            Ok(Err(_)) => Err("the probe of the store broke".to_owned()),
            Err(_) => Err(format!("store unavailable: no commit within {PROBE_WITHIN:?}")),
        }
    }
}
