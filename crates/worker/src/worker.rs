//! The worker's public face: made by its builder, run until it is told to stop.

use std::sync::Arc;

use lease::clock_rule::RateError;
use lease::ledger::Terms;
use lease::message::Profile;
use model::{Limits, Nonce, WorkerKey};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::builder::WorkerBuilder;
use crate::client::Client;
use crate::event::Summary;
use crate::home::Home;
use crate::session::{Session, SessionParts};

/// A worker, ready to run.
#[derive(Debug)]
pub struct Worker {
    pub(crate) key: WorkerKey,
    pub(crate) nonce: Nonce,
    pub(crate) profile: Profile,
    pub(crate) settings: WorkerBuilder,
    pub(crate) client: Client,
    pub(crate) shutdown: Shutdown,
}

/// Tells a worker to stop. Clones speak to the same worker.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Worker {
    /// Describes a worker of these servers: a comma-separated list such as `http://127.0.0.1:7117`.
    pub fn builder(servers: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder::new(servers.into())
    }

    /// Runs until `signal` resolves, then drains: takes no more work, gives handlers their grace, hands back what did
    /// not finish, leaves. Servers that cannot be reached are tried again and again; jobs in hand go on meanwhile.
    /// It also ends, as if drained without grace, when its guardian is gone.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Summary {
        let shutdown = self.shutdown.clone();
        let session = self.into_session().run(shutdown.clone());
        let mut session = std::pin::pin!(session);
        tokio::select! {
            summary = &mut session => return summary,
            () = signal => shutdown.drain(),
        }
        session.await
    }

    /// The handle that stops this worker from elsewhere; a second signal would call its [`Shutdown::abort`].
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// The instance key it starts with. A worker whose lease lapses goes on under a new one: `WorkerEvent::NewKey`.
    pub fn key(&self) -> &WorkerKey {
        &self.key
    }

    /// Whether it offers itself to exclusive queues: it can stop every job for certain. See
    /// [`WorkerBuilder::exclusive`].
    pub fn is_exclusive(&self) -> bool {
        self.profile.stop_within.is_some()
    }

    fn into_session(self) -> Session {
        let Worker { key, nonce, profile, settings, client, .. } = self;
        let (events, job_events) = mpsc::unbounded_channel();
        let lease = settings.lease.unwrap_or(Limits::LEASE_DEFAULT);
        let clock = settings.clock.0;
        let home = Home::new(key, lease, settings.servers, client, events, Arc::clone(&clock));
        Session::start(SessionParts {
            terms: Terms {
                profile,
                // Zero leaves it to the server.
                lease: settings.lease.unwrap_or_default(),
                rate_error: RateError::DEFAULT,
                stopping: settings.stopping,
                report_lost: settings.report_stale,
            },
            nonce,
            grace: settings.grace,
            handlers: settings.handlers,
            guardian: settings.guardian.0,
            doom: settings.doom,
            observer: settings.observer,
            home: Arc::new(home),
            job_events,
            clock,
        })
    }
}

impl Shutdown {
    /// Take no more work, finish within the grace, leave.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// End at once: tasks and processes are ended, nothing more is reported, the server notices by itself.
    pub fn abort(&self) {
        self.abort.cancel();
    }

    pub(crate) async fn drain_ordered(&self) {
        self.drain.cancelled().await;
    }

    pub(crate) async fn abort_ordered(&self) {
        self.abort.cancelled().await;
    }
}
