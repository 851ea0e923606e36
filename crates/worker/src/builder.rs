//! Describes a worker, and refuses descriptions that cannot work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::guardian::Guardian;
use bytes::Bytes;
use clock::SystemClock;
use lease::clock_rule::Stopping;
use lease::message::Profile;
use model::{Clock, Invalid, JobId, Kind, Limits, Nonce, Seat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::context::JobContext;
use crate::doom::Doom;
use crate::error::BuildError;
use crate::event::{Observer, WorkerEvent};
use crate::exec::ExecRunner;
use crate::fitness::{self, Fitness};
use crate::handler::{ANY_KIND, Handler, Handlers};
use crate::job_error::JobError;
use crate::key;
use crate::worker::{Shutdown, Worker};

/// How many handlers run at once, unless told otherwise.
const CONCURRENCY_DEFAULT: u32 = 16;
/// From the order to shut down to the end of the last handler; fits the 30 s that most platforms allow.
const GRACE_DEFAULT: Duration = Duration::from_secs(25);

/// Describes a worker. Made by [`Worker::builder`].
#[derive(Debug)]
pub struct WorkerBuilder {
    pub(crate) servers: String,
    name: Option<String>,
    seat: Option<String>,
    queues: Vec<String>,
    concurrency: u32,
    pub(crate) lease: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) stopping: Stopping,
    must_be_exclusive: bool,
    pub(crate) report_stale: bool,
    pub(crate) handlers: Handlers,
    kinds: Vec<String>,
    pub(crate) guardian: AnyGuardian,
    pub(crate) doom: Doom,
    pub(crate) observer: Observer,
    pub(crate) clock: AnyClock,
}

impl WorkerBuilder {
    pub(crate) fn new(servers: String) -> Self {
        WorkerBuilder {
            servers,
            name: None,
            seat: None,
            queues: Vec::new(),
            concurrency: CONCURRENCY_DEFAULT,
            lease: None,
            grace: GRACE_DEFAULT,
            stopping: Stopping::DEFAULT,
            must_be_exclusive: false,
            report_stale: false,
            handlers: Handlers::default(),
            kinds: Vec::new(),
            guardian: AnyGuardian(None),
            doom: Doom::default(),
            observer: Observer::default(),
            clock: AnyClock(Arc::new(SystemClock)),
        }
    }

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

    /// The stable place this worker sits in, such as `rack3-gpu0`: one instance at a time. On the same machine the one that
    /// was started last has it; on another machine only when whoever sits there is lost. Who is turned away drains, and who
    /// was replaced comes to an end. For volatile queues; sits nowhere when not given.
    pub fn seat(mut self, seat: impl Into<String>) -> Self {
        self.seat = Some(seat.into());
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

    /// From telling a handler to stop to ending its task; 5 s when not given. Counts on shutdown, after a timeout, and for
    /// exclusive jobs whenever they must stop.
    pub fn kill_wait(mut self, wait: Duration) -> Self {
        self.stopping.kill_wait = wait;
        self
    }

    /// From killing an exclusive job to the moment when it must be gone, because the lease is over; 1 s when not given.
    pub fn safety(mut self, safety: Duration) -> Self {
        self.stopping.safety = safety;
        self
    }

    /// The process that starts, guards and ends this worker's commands. It outlives the worker and ends what a crash or a
    /// freeze of it leaves behind. Needed by [`exec`](Self::exec) and for exclusive queues. One guardian serves one worker.
    ///
    /// ```no_run
    /// use worker::guardian::{self, Guardian, Isolation};
    /// use worker::{ExecRunner, Worker};
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     // The guardian is this same program, started once more; there, this line never returns.
    ///     guardian::run_if_asked();
    ///     // Before any thread or runtime is started.
    ///     let guardian = Guardian::start(Isolation::Auto)?;
    ///     tokio::runtime::Runtime::new()?.block_on(async {
    ///         let worker = Worker::builder("http://127.0.0.1:7117")
    ///             .queue("backups")
    ///             .exec("*", ExecRunner::new(vec!["backup".into()])?)
    ///             .guardian(guardian)
    ///             .exclusive(true)
    ///             .build()?;
    ///         worker.run_until(std::future::pending()).await;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn guardian(mut self, guardian: Guardian) -> Self {
        self.guardian = AnyGuardian(Some(guardian));
        self
    }

    /// This worker must be fit for exclusive queues, whose jobs never run twice at the same time: [`build`](Self::build)
    /// refuses what is not. When not asked for, a worker that is fit serves them all the same.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.must_be_exclusive = exclusive;
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

    /// Runs every job of this kind as a process, by the [`guardian`](Self::guardian). `"*"` takes every kind that has no
    /// handler of its own.
    pub fn exec(self, kind: impl Into<String>, runner: ExecRunner) -> Self {
        self.insert(kind.into(), Handler::Exec(Arc::new(runner)))
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

    /// Calls this instead of ending the process when an exclusive job cannot be ended otherwise; for tests that must
    /// survive it. A worker that goes on then may run a job that someone else runs, too.
    pub fn on_doom(mut self, hook: impl Fn(JobId) + Send + Sync + 'static) -> Self {
        self.doom = Doom::instead(hook);
        self
    }

    /// Checks the description. Must be called inside a tokio runtime; does not connect yet.
    pub fn build(self) -> Result<Worker, BuildError> {
        let queues = rpc::convert::queues(&self.queues)?;
        for kind in self.kinds.iter().filter(|kind| *kind != ANY_KIND) {
            Kind::new(kind)?;
        }
        self.check_handlers()?;
        self.check_numbers()?;
        let stop_within = self.check_fitness()?;
        let client = Client::connect(&self.servers)?;
        let name = self.name.clone().unwrap_or_else(key::host_name);
        let (key, nonce) = (key::fresh(&name), Nonce::new(rand::random()));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let profile = Profile {
            name,
            queues,
            slots: self.concurrency,
            version,
            stop_within,
            seat: self.seat.as_deref().map(Seat::new).transpose()?,
            host: key::host_name(),
            started_us: started_us(&*self.clock.0),
        };
        if self.guardian.0.as_ref().is_some_and(|guardian| !guardian.engage()) {
            return Err(Invalid::new("this guardian serves another worker; start one for each").into());
        }
        Ok(Worker { key, nonce, profile, settings: self, client, shutdown: Shutdown::default() })
    }

    fn check_handlers(&self) -> Result<(), Invalid> {
        if self.handlers.is_empty() {
            return Err(Invalid::new("register at least one handler"));
        }
        if self.handlers.has_exec() && self.guardian.0.is_none() {
            return Err(Invalid::new(format!(
                "commands are run by a guardian, and this worker has none; {}",
                fitness::GUARDIAN_HINT
            )));
        }
        for (kind, timeout) in self.handlers.heartbeat_timeouts() {
            Limits::check_heartbeat_timeout(timeout)?;
            if !self.handlers.has(kind) {
                return Err(Invalid::new(format!(
                    "kind {kind} has a heartbeat timeout but no handler; register one for exactly this kind"
                )));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), Invalid> {
        if !(1..=Limits::SLOTS_MAX).contains(&self.concurrency) {
            return Err(Invalid::new(format!(
                "concurrency of {} is out of range; choose between 1 and {}",
                self.concurrency,
                Limits::SLOTS_MAX
            )));
        }
        if let Some(lease) = self.lease {
            Limits::check_lease(lease)?;
            if lease > Limits::WORKER_LEASE_MAX {
                return Err(Invalid::new(format!(
                    "lease of {lease:?} is too long for a worker; choose at most {:?}",
                    Limits::WORKER_LEASE_MAX
                )));
            }
        }
        if self.stopping.kill_wait > self.grace {
            return Err(Invalid::new(format!(
                "kill wait of {:?} does not fit in the grace of {:?}, which it is a part of",
                self.stopping.kill_wait, self.grace
            )));
        }
        fitness::check_safety(self.stopping.safety)
    }

    /// What the worker tells of itself: how long it takes to stop a job for certain, if it can.
    fn check_fitness(&self) -> Result<Option<Duration>, Invalid> {
        let fitness = Fitness {
            stopping: self.stopping,
            lease: self.lease,
            can_kill_worker: self.guardian.0.as_ref().map(Guardian::can_kill_worker),
            has_inside: self.handlers.has_inside(),
        };
        match fitness.check() {
            Ok(()) => Ok(Some(self.stopping.within())),
            Err(reason) if self.must_be_exclusive => Err(reason),
            Err(_) => Ok(None),
        }
    }

    fn insert(mut self, kind: String, handler: Handler) -> Self {
        self.handlers.insert(&kind, handler);
        self.kinds.push(kind);
        self
    }
}

/// Now, in microseconds. What the clock does not show is drawn, so that of two processes started in one millisecond one is
/// the later.
fn started_us(clock: &dyn Clock) -> u64 {
    clock.wall().as_millis().unsigned_abs() * 1_000 + rand::random_range(0..1_000)
}

/// The guardian, or none.
pub(crate) struct AnyGuardian(pub(crate) Option<Guardian>);

impl fmt::Debug for AnyGuardian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Guardian" } else { "no guardian" })
    }
}

/// Where the time comes from.
pub(crate) struct AnyClock(pub(crate) Arc<dyn Clock>);

impl fmt::Debug for AnyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClock")
    }
}
