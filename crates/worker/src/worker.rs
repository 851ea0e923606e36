//! The worker: described by a builder, run until it is told to stop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clock::SystemClock;
use lease::clock_rule::RateError;
use lease::ledger::Terms;
use lease::message::Profile;
use model::{Clock, Invalid, Kind, Limits, Nonce, QueueName, WorkerKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::context::JobContext;
use crate::error::BuildError;
use crate::event::{Observer, Summary, WorkerEvent};
use crate::exec::ExecRunner;
use crate::handler::{ANY_KIND, Handler, Handlers};
use crate::home::Home;
use crate::job_error::JobError;
use crate::key;
use crate::session::{Session, SessionParts};

/// How many handlers run at once, unless told otherwise.
const CONCURRENCY_DEFAULT: u32 = 16;
/// From the order to shut down to the end of the last handler; fits the 30 s that most platforms allow.
const GRACE_DEFAULT: Duration = Duration::from_secs(25);
/// From telling a handler to stop to ending its task. Part of the grace.
const KILL_WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// A worker, ready to run.
#[derive(Debug)]
pub struct Worker {
    key: WorkerKey,
    nonce: Nonce,
    name: String,
    queues: Vec<QueueName>,
    settings: WorkerBuilder,
    client: Client,
    shutdown: Shutdown,
}

/// Describes a worker. Made by [`Worker::builder`].
#[derive(Debug)]
pub struct WorkerBuilder {
    servers: String,
    name: Option<String>,
    queues: Vec<String>,
    concurrency: u32,
    lease: Option<Duration>,
    grace: Duration,
    kill_wait: Duration,
    report_stale: bool,
    handlers: Handlers,
    kinds: Vec<String>,
    observer: Observer,
    clock: AnyClock,
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
        WorkerBuilder {
            servers: servers.into(),
            name: None,
            queues: Vec::new(),
            concurrency: CONCURRENCY_DEFAULT,
            lease: None,
            grace: GRACE_DEFAULT,
            kill_wait: KILL_WAIT_DEFAULT,
            report_stale: false,
            handlers: Handlers::default(),
            kinds: Vec::new(),
            observer: Observer::default(),
            clock: AnyClock(Arc::new(SystemClock)),
        }
    }

    /// Runs until `signal` resolves, then drains: takes no more work, gives handlers their grace, hands back what did
    /// not finish, leaves. Servers that cannot be reached are tried again and again; jobs in hand go on meanwhile.
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

    fn into_session(self) -> Session {
        let Worker { key, nonce, name, queues, settings, client, .. } = self;
        let (events, job_events) = mpsc::unbounded_channel();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let lease = settings.lease.unwrap_or(Limits::LEASE_DEFAULT);
        Session::start(SessionParts {
            terms: Terms {
                profile: Profile { name, queues, slots: settings.concurrency, version },
                // Zero leaves it to the server.
                lease: settings.lease.unwrap_or_default(),
                rate_error: RateError::DEFAULT,
                kill_wait: settings.kill_wait,
                report_lost: settings.report_stale,
            },
            nonce,
            grace: settings.grace,
            handlers: settings.handlers,
            observer: settings.observer,
            home: Arc::new(Home::new(key, lease, settings.servers, client, events)),
            job_events,
            clock: settings.clock.0,
        })
    }
}

impl WorkerBuilder {
    /// Serves this queue, too.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(name.into());
        self
    }

    /// A name for people: a host, a pod. The host name when not given.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many handlers run at once; 16 when not given.
    pub fn concurrency(mut self, handlers: u32) -> Self {
        self.concurrency = handlers;
        self
    }

    /// How long the server believes in this worker without a heartbeat; the server's choice (20 s unless its operator says
    /// otherwise) when not given. Five are sent in that time.
    /// A lost worker's jobs go on elsewhere after it; a worker that cannot reach its server stops its handlers after it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Handlers of this kind must call [`JobContext::heartbeat`] or [`JobContext::progress`] at least this often, or as
    /// often as their job asks for if that is more. One that does not is stopped, and its job fails.
    pub fn heartbeat_timeout(mut self, kind: impl AsRef<str>, timeout: Duration) -> Self {
        self.handlers.set_heartbeat_timeout(kind.as_ref(), timeout);
        self
    }

    /// From the order to shut down to the end of the last handler, kill wait included; 25 s when not given.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// From telling a handler to stop to ending its task, on shutdown and after a timeout; 5 s when not given.
    pub fn kill_wait(mut self, wait: Duration) -> Self {
        self.kill_wait = wait;
        self
    }

    /// Sends reports of jobs that are known to be lost, too, for the server to refuse. For demonstrations: normally
    /// such a report is dropped, since the fence would refuse it anyway.
    pub fn report_stale(mut self, report: bool) -> Self {
        self.report_stale = report;
        self
    }

    /// Handles jobs of this kind: the payload is read as JSON into `P`, what is returned is written as JSON.
    /// `"*"` takes every kind that has no handler of its own.
    pub fn handle<P, T, F, R>(self, kind: impl Into<String>, handle: F) -> Self
    where
        P: DeserializeOwned,
        T: Serialize,
        F: Fn(JobContext, P) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, JobError>> + Send + 'static,
    {
        self.insert(kind.into(), Handler::typed(handle))
    }

    /// Handles jobs of this kind, bytes in and bytes out. `"*"` takes every kind that has no handler of its own.
    pub fn handle_raw<F, R>(self, kind: impl Into<String>, handle: F) -> Self
    where
        F: Fn(JobContext, Bytes) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Bytes, JobError>> + Send + 'static,
    {
        self.insert(kind.into(), Handler::raw(handle))
    }

    /// Runs every job of this kind as a process. `"*"` takes every kind that has no handler of its own.
    pub fn exec(self, kind: impl Into<String>, runner: ExecRunner) -> Self {
        let runner = Arc::new(runner);
        self.handle_raw(kind, move |context, payload| {
            let runner = Arc::clone(&runner);
            async move { runner.run(context, payload).await }
        })
    }

    /// Calls this with everything that happens, in order. It runs inside the worker's loop, so it must be quick.
    pub fn on_event(mut self, hook: impl Fn(WorkerEvent) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(hook);
        self
    }

    /// Takes the time from here instead of the system; for tests that let a worker believe it was stopped.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = AnyClock(clock);
        self
    }

    /// Checks the description. Must be called inside a tokio runtime; does not connect yet.
    pub fn build(self) -> Result<Worker, BuildError> {
        let queues = rpc::convert::queues(&self.queues)?;
        for kind in self.kinds.iter().filter(|kind| *kind != ANY_KIND) {
            Kind::new(kind)?;
        }
        if self.handlers.is_empty() {
            return Err(Invalid::new("register at least one handler").into());
        }
        if !(1..=Limits::SLOTS_MAX).contains(&self.concurrency) {
            return Err(Invalid::new(format!(
                "concurrency of {} is out of range; choose between 1 and {}",
                self.concurrency,
                Limits::SLOTS_MAX
            ))
            .into());
        }
        if let Some(lease) = self.lease {
            Limits::check_lease(lease)?;
            if lease > Limits::WORKER_LEASE_MAX {
                return Err(Invalid::new(format!(
                    "lease of {lease:?} is too long for a worker; choose at most {:?}",
                    Limits::WORKER_LEASE_MAX
                ))
                .into());
            }
        }
        for (kind, timeout) in self.handlers.heartbeat_timeouts() {
            Limits::check_heartbeat_timeout(timeout)?;
            if !self.handlers.has(kind) {
                return Err(Invalid::new(format!(
                    "kind {kind} has a heartbeat timeout but no handler; register one for exactly this kind"
                ))
                .into());
            }
        }
        if self.kill_wait > self.grace {
            return Err(Invalid::new(format!(
                "kill wait of {:?} does not fit in the grace of {:?}, which it is a part of",
                self.kill_wait, self.grace
            ))
            .into());
        }
        let client = Client::connect(&self.servers)?;
        let name = self.name.clone().unwrap_or_else(key::host_name);
        let (key, nonce) = (key::fresh(&name), Nonce::new(rand::random()));
        Ok(Worker { key, nonce, name, queues, settings: self, client, shutdown: Shutdown::default() })
    }

    fn insert(mut self, kind: String, handler: Handler) -> Self {
        self.handlers.insert(&kind, handler);
        self.kinds.push(kind);
        self
    }
}

impl Shutdown {
    /// Take no more work, finish within the grace, leave.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// End at once: tasks are ended, nothing more is reported, the server notices by itself.
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

struct AnyClock(Arc<dyn Clock>);

impl fmt::Debug for AnyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClock")
    }
}
