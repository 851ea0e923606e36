//! What all jobs of a worker share: who the worker is just now, its servers, and the way to its session.

use std::sync::Arc;
use std::time::Duration;

use lease::ledger::Ended;
use model::{Clock, Hold, Instant, WorkerKey};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time;

use crate::client::Client;
use crate::error::ClientError;

/// How long a call that needs a registered key waits for one; a worker whose lease lapsed has the next one soon after
/// its server is back.
const REGISTRATION_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct Home {
    identity: watch::Sender<Identity>,
    pub(crate) servers: String,
    pub(crate) client: Client,
    pub(crate) events: UnboundedSender<JobEvent>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Who the worker is. Changes when its lease lapses.
struct Identity {
    key: WorkerKey,
    /// The lease granted last; before that the one that will probably be.
    lease: Duration,
    is_registered: bool,
}

/// What a handler's task tells the session. At most one end, one untaken note and one untaken sign per running job, and the
/// end of one healthcheck, so that the channel is bounded by the number of slots.
#[derive(Debug)]
pub(crate) enum JobEvent {
    /// There is a progress note to take.
    Noted(Hold),
    /// There is a sign to take that the handler gets on.
    Beaten(Hold),
    /// The server refused a write of this job.
    Lost(Hold),
    /// The healthcheck has ended.
    Checked {
        /// All that it went through did its part.
        is_well: bool,
    },
    /// The handler returned or its task is gone.
    Finished {
        /// Which job.
        hold: Hold,
        /// How.
        ended: Ended,
        /// When.
        at: Option<Instant>,
    },
}

impl Home {
    pub(crate) fn new(
        key: WorkerKey,
        lease: Duration,
        servers: String,
        client: Client,
        events: UnboundedSender<JobEvent>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let identity = watch::Sender::new(Identity { key, lease, is_registered: false });
        Home { identity, servers, client, events, clock }
    }

    /// The present key was granted this lease.
    pub(crate) fn register(&self, lease: Duration) {
        self.identity.send_modify(|identity| {
            identity.lease = lease;
            identity.is_registered = true;
        });
    }

    /// The worker goes on under this key, which is not registered yet.
    pub(crate) fn rekey(&self, key: WorkerKey) {
        self.identity.send_modify(|identity| {
            identity.key = key;
            identity.is_registered = false;
        });
    }

    pub(crate) fn key(&self) -> WorkerKey {
        self.identity.borrow().key.clone()
    }

    pub(crate) fn lease(&self) -> Duration {
        self.identity.borrow().lease
    }

    /// Returns when the lease is not this one any more.
    pub(crate) async fn lease_changed(&self, known: Duration) {
        let _ = self.identity.subscribe().wait_for(|identity| identity.lease != known).await;
    }

    /// The present key, as soon as it is registered: before that no server knows that our jobs are ours.
    pub(crate) async fn registered_key(&self) -> Result<WorkerKey, ClientError> {
        let mut identity = self.identity.subscribe();
        let registered = identity.wait_for(|identity| identity.is_registered);
        match time::timeout(REGISTRATION_WAIT, registered).await {
            Ok(Ok(identity)) => Ok(identity.key.clone()),
            _ => Err(ClientError::Unreachable {
                server: self.servers.clone(),
                why: "this worker's lease lapsed and it could not register anew yet".to_owned(),
            }),
        }
    }
}
