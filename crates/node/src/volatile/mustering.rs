//! The driver of the muster: the roll tells it what workers do, it says who may be given volatile jobs.
//!
//! It sleeps until there is a volatile queue: durable queues never wait for it, and their workers are not asked to do anything
//! for it.

use std::sync::Arc;
use std::time::Duration;

use lease::clock_rule::{RateError, Stopping, heartbeat_interval};
use lease::message::Profile;
use model::{Generation, Instant, WorkerKey};
use muster::{About, Input, Muster, Output, Rules, SetId, Terms};
use rpc::{convert, lease_convert, wire};
use schedule::dispatch;
use tracing::{debug, info, warn};

use super::status;
use crate::api::Api;
use crate::sessions::Session;

/// The muster of this life of the server.
pub(crate) struct Mustering {
    api: Arc<Api>,
    /// When the listening socket was ours: the wait counts from here, whenever the first volatile queue is made.
    started: Instant,
    muster: Option<Muster>,
    /// When volatile queues were opened.
    opened_at: Option<Instant>,
}

/// What the roll must do for the muster.
#[derive(Debug)]
pub(crate) enum Order {
    /// Dispatch must hear this.
    Dispatch(dispatch::Input),
    /// Renew this worker no more.
    Dismiss(WorkerKey),
    /// Have it drain and go: its seat is taken.
    TurnAway(WorkerKey),
}

impl Mustering {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        let started = api.clock.monotonic();
        Mustering { api, started, muster: None, opened_at: None }
    }

    /// The longest lease that workers may be granted while there are volatile queues: a new life of the server waits for it.
    pub(crate) fn lease_max(api: &Api) -> Duration {
        api.config.lease_default
    }

    /// The longest lease that a former life of the server may have granted.
    pub(crate) fn inherited_lease(api: &Api) -> Duration {
        api.config.volatile.initial_wait.map_or(Self::lease_max(api), |wait| wait.max(Self::lease_max(api)))
    }

    /// How long a new life of the server waits at most.
    pub(crate) fn safe_wait(api: &Api) -> Duration {
        let computed = RateError::DEFAULT.longer(Self::lease_max(api)) + Stopping::DEFAULT.safety;
        api.config.volatile.initial_wait.map_or(computed, |wait| wait.max(computed))
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.muster.is_some()
    }

    /// There is a volatile queue.
    pub(crate) fn wake(&mut self) {
        if self.muster.is_some() {
            return;
        }
        let config = &self.api.config.volatile;
        let safe_wait = Self::safe_wait(&self.api);
        info!(?safe_wait, "volatile queues wait for their workers, or for so long at most");
        let unsafe_wait = config.unsafe_initial_wait.filter(|wait| *wait < safe_wait);
        if let Some(wait) = unsafe_wait {
            warn!(
                ?wait,
                ?safe_wait,
                "UNSAFE: --unsafe-initial-wait is shorter than the safe wait; tasks that are running may be started again"
            );
        }
        let lease = Self::lease_max(&self.api);
        self.muster = Some(Muster::new(
            self.started,
            Terms {
                unsafe_wait,
                allow_bump_unhealthy: config.allow_bump_unhealthy,
                rules: Rules::for_lease(lease, heartbeat_interval(lease)),
                ..Terms::new(Generation(self.api.generation), safe_wait)
            },
        ));
    }

    /// Whether the worker of this session is one for volatile jobs. Others, which cannot stop a job for certain or have no stream, are
    /// never given any, and need not know the set: they would hold back everybody.
    pub(crate) fn concerns(&self, session: &Session) -> bool {
        self.is_awake() && session.profile.stop_within.is_some()
    }

    /// A heartbeat renewed this worker's lease.
    pub(crate) fn heard(&mut self, now: Instant, key: &WorkerKey, profile: &Profile, echoed: Option<SetId>) {
        let about =
            About { seat: profile.seat.clone(), host: profile.host.clone(), started_us: profile.started_us };
        self.handle(now, Input::Heard { key: key.clone(), about, echoed });
    }

    pub(crate) fn echoed(&mut self, now: Instant, key: WorkerKey, id: SetId) {
        self.handle(now, Input::Echoed { key, id });
    }

    /// All that it holds is known.
    pub(crate) fn synced(&mut self, now: Instant, key: WorkerKey) {
        self.handle(now, Input::Fetched { key });
    }

    /// Its heartbeats come over a new stream.
    pub(crate) fn reconnected(&mut self, now: Instant, key: WorkerKey) {
        self.handle(now, Input::Reconnected { key });
    }

    pub(crate) fn checked(&mut self, now: Instant, key: WorkerKey, number: u64) {
        self.handle(now, Input::Checked { key, number });
    }

    /// It holds nothing any more, for certain.
    pub(crate) fn gone(&mut self, now: Instant, key: WorkerKey) {
        self.handle(now, Input::Gone { key });
    }

    /// What goes into the answer to its heartbeat.
    pub(crate) fn set_for(&self, key: &WorkerKey) -> Option<SetId> {
        self.muster.as_ref()?.current_for(key)
    }

    /// Whether it may be given volatile jobs.
    pub(crate) fn may_run(&self, key: &WorkerKey) -> bool {
        self.muster.as_ref().is_some_and(|muster| muster.may_run(key))
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.muster.as_ref()?.next_deadline()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if let Some(muster) = &mut self.muster {
            muster.handle_deadline(now);
        }
    }

    pub(crate) fn status(&self, now: Instant) -> wire::MusterStatus {
        match &self.muster {
            Some(muster) => {
                let status = status::to_wire(&muster.status(), |key| self.api.sessions.of_worker(key));
                let waited = self.opened_at.unwrap_or(now).since(self.started);
                wire::MusterStatus {
                    waited_ms: convert::millis(waited),
                    safe_wait_ms: convert::millis(Self::safe_wait(&self.api)),
                    ..status
                }
            }
            None => wire::MusterStatus::default(),
        }
    }

    /// Does what the muster says, and answers what only the roll can do.
    pub(crate) fn act(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        let Some(muster) = &mut self.muster else { return orders };
        let mut is_open_now = false;
        while let Some(output) = muster.poll_output() {
            match output {
                // The registry asks for it by itself, with every answer.
                Output::Fetch { key } => debug!(worker = %key, "what this worker runs is not known yet"),
                Output::Check { key, number } => {
                    let check_lease_ms = convert::millis(Self::lease_max(&self.api));
                    tell(
                        &self.api,
                        &key,
                        wire::ServerFrame { check: number, check_lease_ms, ..Default::default() },
                    );
                }
                Output::Tell { key, id } => {
                    let worker_set = Some(lease_convert::set_to_wire(id));
                    tell(&self.api, &key, wire::ServerFrame { worker_set, ..Default::default() });
                }
                Output::Health { key, health } => {
                    debug!(worker = %key, health = status::word(health), why = status::why(health), "health of a worker");
                    orders.extend(reopen(&self.api, &key, muster.may_run(&key)));
                }
                Output::Dismiss { key, why } => {
                    warn!(worker = %key, why = status::dismissal(&why), "the worker's lease is not renewed any more");
                    self.api.metrics.muster.dismissed.inc();
                    orders.push(Order::Dismiss(key));
                }
                Output::TurnAway { key, why } => {
                    let why = status::turned_away(&why);
                    warn!(worker = %key, why, "the worker is turned away");
                    if let Some(session) = self.api.sessions.of_worker(&key) {
                        session.send_away(why);
                    }
                    self.api.metrics.muster.turned_away.inc();
                    orders.push(Order::TurnAway(key));
                }
                Output::WaitOver { how, after } => {
                    info!(how = status::how(how), ?after, "volatile queues are open");
                    self.opened_at = Some(self.started + after);
                    is_open_now = true;
                }
            }
        }
        if is_open_now {
            for session in self.api.sessions.all() {
                let may_run = muster.may_run(&session.worker);
                orders.extend(reopen(&self.api, &session.worker, may_run));
            }
        }
        orders
    }

    fn handle(&mut self, now: Instant, input: Input) {
        if let Some(muster) = &mut self.muster {
            muster.handle(now, input);
        }
    }
}

fn tell(api: &Api, key: &WorkerKey, frame: wire::ServerFrame) {
    if let Some(session) = api.sessions.of_worker(key) {
        session.offer(frame);
    }
}

/// The worker may, or may not, be given volatile jobs from now on.
fn reopen(api: &Api, key: &WorkerKey, may_run: bool) -> Option<Order> {
    let session = api.sessions.of_worker(key)?;
    if !session.set_mustered(may_run) {
        return None;
    }
    let queues = api.open_to(&session);
    Some(Order::Dispatch(dispatch::Input::Serves { session: session.id, queues }))
}
