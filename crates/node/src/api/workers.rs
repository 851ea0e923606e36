//! Workers as people see them, and the heartbeats and pings of those without a stream.

use std::time::Duration;

use lease::clock_rule::fits_exclusive;
use lease::message::Answer as BeatAnswer;
use lease::registry::{Input, WorkerState, WorkerView};
use model::{ErrorKind, Hold, HolderEnd, WorkerKey};
use rpc::{ApiError, convert, lease_convert, wire};
use store::{Enlist, EnlistAnswer, KnownWorker, ServerInfo};
use tokio::sync::oneshot;

use super::{Answer, Api};
use crate::event::{Event, Leave, Reply, RollEvent};

/// Workers on one page, and without a wish.
const PAGE_MAX: u32 = 1_000;
const PAGE_DEFAULT: u32 = 100;
/// Bound jobs shown with one worker.
const JOBS_SHOWN_MAX: usize = 1_000;

const UNSYNCED: &str = "unsynced";
const ACTIVE: &str = "active";
const INACTIVE: &str = "inactive";
const LEFT: &str = "left";
const STOPPING: &str = "stopping";
const PINGING: &str = "pinging";
const STATES: [&str; 6] = [ACTIVE, UNSYNCED, STOPPING, INACTIVE, LEFT, PINGING];

/// What a kicked worker with exclusive jobs waits for.
const STOPPING_WHY: &str =
    "it was kicked; its jobs move when it says that they have stopped, or with its lease";

impl Api {
    pub(crate) async fn list_workers(
        &self,
        request: wire::ListWorkersRequest,
    ) -> Answer<wire::ListWorkersResponse> {
        if let Some(word) = request.states.iter().find(|word| !STATES.contains(&word.as_str())) {
            return Err(ApiError::invalid(format!("state {word:?} is not one of {}", STATES.join(", "))));
        }
        let limit = match request.limit {
            0 => PAGE_DEFAULT,
            limit => limit.min(PAGE_MAX),
        } as usize;
        let mut workers: Vec<wire::Worker> =
            self.roll_call().await?.into_iter().map(|view| self.shown(view)).collect();
        for peer in self.charge.others() {
            let theirs = self.store.roster(peer.registry).await?.into_iter();
            workers.extend(theirs.map(|worker| of_another(worker, Some(&peer.server))));
        }
        workers.extend(self.pingers.members().into_iter().map(|(key, silent)| self.pinger(&key, silent)));
        workers.retain(|worker| {
            let is_wanted = if request.states.is_empty() {
                ![INACTIVE, LEFT].contains(&worker.state.as_str())
            } else {
                request.states.contains(&worker.state)
            };
            is_wanted
                && (request.queue.is_empty() || worker.queues.contains(&request.queue))
                && worker.key > request.cursor
        });
        workers.sort_by(|a, b| a.key.cmp(&b.key));
        let next_cursor = if workers.len() > limit { workers[limit - 1].key.clone() } else { String::new() };
        workers.truncate(limit);
        Ok(wire::ListWorkersResponse { workers, next_cursor })
    }

    pub(crate) async fn get_worker(&self, request: wire::GetWorkerRequest) -> Answer<wire::Worker> {
        let key = convert::worker(&request.key)?;
        self.worker(&key, JOBS_SHOWN_MAX).await
    }

    /// The servers on our store, as we saw them with our last beat.
    pub(crate) fn list_servers(&self) -> Answer<wire::ListServersResponse> {
        let now = self.clock.monotonic();
        let (peers, age) = match self.charge.seen() {
            Some((peers, seen_at)) => (peers, now.since(seen_at)),
            // Nobody else can be there.
            None if !self.store.is_shared() => (Vec::new(), Duration::ZERO),
            None => {
                return Err(ApiError {
                    retry_after: Some(Duration::from_secs(1)),
                    ..ApiError::new(ErrorKind::Unavailable, "this server has not yet seen who else is there")
                });
            }
        };
        let mut servers: Vec<wire::Server> = peers
            .into_iter()
            .map(|peer| wire::Server {
                registry: peer.registry.0,
                name: peer.server.name,
                address: peer.server.address,
                answering: self.charge.is_ours(peer.registry),
            })
            .collect();
        if let (false, Ok(registry)) = (self.store.is_shared(), self.charge.registry()) {
            let (name, address) = (self.config.name.clone(), self.config.address.clone());
            servers.push(wire::Server { registry: registry.0, name, address, answering: true });
        }
        Ok(wire::ListServersResponse { servers, age_ms: convert::millis(age) })
    }

    /// Asks a worker to drain.
    pub(crate) async fn drain_worker(&self, request: wire::DrainWorkerRequest) -> Answer<wire::Worker> {
        let key = convert::worker(&request.key)?;
        self.alive(&key, "drained").await?;
        self.tell_roll(Input::Drain { key: key.clone() }).await;
        self.worker(&key, 0).await
    }

    /// Declares a worker inactive now.
    pub(crate) async fn kick_worker(&self, request: wire::KickWorkerRequest) -> Answer<wire::Worker> {
        let key = convert::worker(&request.key)?;
        self.alive(&key, "kicked").await?;
        self.leave(Leave::Kicked { key: key.clone() }).await?;
        self.worker(&key, 0).await
    }

    /// A heartbeat without a stream. What is no renewal is an error here, so that simple clients need not look further
    /// than the status.
    pub(crate) async fn heartbeat(&self, request: wire::Heartbeat) -> Answer<wire::HeartbeatAnswer> {
        let (number, beat) = lease_convert::heartbeat_from_wire(request, None)?;
        let key = beat.key.clone();
        if self.pingers.is_alive(&key) {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("{key} pings; a holder either pings or heartbeats"),
            ));
        }
        let (reply, answer) = oneshot::channel();
        let reply = Reply::Call(reply);
        self.tell(Event::Roll(RollEvent::Heartbeat { reply, beat: Box::new(beat) })).await;
        let answer = answer.await.map_err(|_| {
            ApiError::new(ErrorKind::Unavailable, "this heartbeat was overtaken by another one; beat again")
        })?;
        match &answer {
            BeatAnswer::Ok(_) => Ok(lease_convert::answer_to_wire(number, &answer)),
            BeatAnswer::Inactive { why } => Err(ApiError::new(
                ErrorKind::WorkerInactive,
                format!(
                    "worker {key} is over: {}; stop its jobs and register under a new key",
                    why.sentence()
                ),
            )),
            BeatAnswer::Mismatch { token, held, .. } => Err(ApiError {
                token: Some(token.to_string()),
                ..ApiError::new(
                    ErrorKind::TokenMismatch,
                    format!(
                        "the token is not the current one; its lease {}; beat again with token {token}",
                        if *held { "still stands" } else { "is over" }
                    ),
                )
            }),
            BeatAnswer::NotOwner { address } => Err(not_owner(&key, address.clone())),
            BeatAnswer::Later { retry_after, why } => Err(ApiError {
                retry_after: Some(*retry_after),
                ..ApiError::new(ErrorKind::Throttled, lease_convert::later_sentence(*why))
            }),
        }
    }

    /// A worker without a stream goes.
    pub(crate) async fn leave_unary(&self, request: wire::LeaveRequest) -> Answer<wire::LeaveResponse> {
        let key = convert::worker(&request.worker)?;
        self.pingers.remove(&key);
        let words = lease_convert::leave(&request)?;
        self.leave_own(key, model::Nonce::new(request.nonce), words).await?;
        Ok(wire::LeaveResponse {})
    }

    /// A sign of life. The first one makes the holder known, durably, so that its silence is noticed over our restarts.
    pub(crate) async fn ping(&self, request: wire::PingRequest) -> Answer<wire::PingResponse> {
        let key = convert::worker(&request.worker)?;
        let timeout_ms = convert::millis(self.config.pings.timeout);
        if self.pingers.is_alive(&key) {
            self.pingers.ping(&key)?;
            let stops = self.stops_for_ping(&key).await;
            return Ok(wire::PingResponse { registered: false, timeout_ms, stops });
        }
        let still_going = || ApiError {
            retry_after: Some(Duration::from_secs(1)),
            ..ApiError::new(
                ErrorKind::Unavailable,
                format!("what {key} held before is still being taken back; ping again"),
            )
        };
        if self.pingers.is_being_lost(&key) {
            return Err(still_going());
        }
        self.admit_new().await?;
        let refused = |why: &str| {
            ApiError::new(ErrorKind::WorkerInactive, format!("{key} cannot ping: {why}; take another key"))
        };
        match self.enlist_pinger(&key).await? {
            EnlistAnswer::Known => {}
            EnlistAnswer::Terminal(HolderEnd::Silent) => {
                // It starts over; what it held stays lost.
                self.store.readmit(&key, self.charge.registry()?).await?;
                if self.enlist_pinger(&key).await? != EnlistAnswer::Known {
                    return Err(still_going());
                }
            }
            EnlistAnswer::Terminal(end) => return Err(refused(end.sentence())),
            EnlistAnswer::Taken => return Err(refused("a worker that heartbeats has this key")),
            EnlistAnswer::Elsewhere(registry) => {
                return Err(not_owner(&key, self.charge.address_of(registry)));
            }
            EnlistAnswer::Disowned => return Err(still_going()),
        }
        // Whether or not a server that is just starting has read of it in the store meanwhile.
        self.pingers.ping(&key)?;
        let stops = self.stops_for_ping(&key).await;
        Ok(wire::PingResponse { registered: true, timeout_ms, stops })
    }

    /// New holders that only ping come through the same door as new workers: each makes a durable row.
    async fn admit_new(&self) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        self.tell(Event::Roll(RollEvent::Admit { reply })).await;
        answer.await.map_err(|_| going_away())?.map_err(|retry_after| ApiError {
            retry_after: Some(retry_after),
            ..ApiError::new(ErrorKind::Throttled, "too many new workers at once")
        })
    }

    async fn enlist_pinger(&self, key: &WorkerKey) -> Answer<EnlistAnswer> {
        let pinger = Enlist {
            key: key.clone(),
            nonce: model::Nonce::default(),
            registry: self.charge.registry()?,
            pings: true,
            grant: self.config.pings.timeout,
            name: String::new(),
        };
        let mut answers = self.store.enlist(vec![pinger]).await?;
        Ok(answers.remove(0))
    }

    /// How many workers there are in each state, and how long ago the one heard least was heard.
    pub(crate) async fn worker_counts(&self) -> Answer<(Vec<(&'static str, u64)>, Duration)> {
        let now = self.clock.monotonic();
        let mut counts = STATES.map(|state| (state, 0));
        let mut oldest = Duration::ZERO;
        for view in self.roll_call().await? {
            let word = state_word(view.state);
            counts.iter_mut().filter(|(state, _)| *state == word).for_each(|(_, count)| *count += 1);
            if let (WorkerState::Active, Some(heard)) = (view.state, view.last_heard) {
                oldest = oldest.max(now.since(heard));
            }
        }
        counts[5].1 = self.pingers.count() as u64;
        Ok((counts.to_vec(), oldest))
    }

    async fn roll_call(&self) -> Answer<Vec<WorkerView>> {
        let (reply, views) = oneshot::channel();
        self.tell(Event::Roll(RollEvent::List { reply })).await;
        views.await.map_err(|_| going_away())
    }

    pub(super) async fn roll_entry(
        &self,
        key: &WorkerKey,
        jobs_max: usize,
    ) -> Answer<Option<(WorkerView, Vec<Hold>)>> {
        let (reply, entry) = oneshot::channel();
        self.tell(Event::Roll(RollEvent::Show { key: key.clone(), jobs_max, reply })).await;
        entry.await.map_err(|_| going_away())
    }

    /// Refuses what only the server can do that is in charge of this worker.
    pub(super) async fn refuse_of_others(&self, key: &WorkerKey) -> Answer<()> {
        if !self.store.is_shared() || self.roll_entry(key, 0).await?.is_some() {
            return Ok(());
        }
        match self.store.worker(key).await? {
            Some(KnownWorker { worker, ended: None }) if !self.charge.is_ours(worker.registry) => {
                Err(not_owner(key, self.charge.address_of(worker.registry)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what nobody may do by a call for a worker that heartbeats, if our registry does not know this one: it is another
    /// server's, or about to be known here.
    pub(super) async fn refuse_unknown(&self, key: &WorkerKey) -> Answer<()> {
        if !self.store.is_shared() {
            return Ok(());
        }
        match self.store.worker(key).await? {
            Some(KnownWorker { worker, ended: None }) if !self.charge.is_ours(worker.registry) => {
                Err(not_owner(key, self.charge.address_of(worker.registry)))
            }
            Some(KnownWorker { worker, ended: None }) if !worker.pings => Err(ApiError {
                retry_after: Some(Duration::from_secs(1)),
                ..ApiError::new(
                    ErrorKind::Unavailable,
                    format!("worker {key} is being taken over; try again"),
                )
            }),
            _ => Ok(()),
        }
    }

    /// Refuses what can only be done to a worker that is alive, and ours.
    async fn alive(&self, key: &WorkerKey, done: &str) -> Answer<()> {
        self.refuse_of_others(key).await?;
        let worker = self.worker(key, 0).await?;
        if [ACTIVE, UNSYNCED, STOPPING].contains(&worker.state.as_str()) {
            return Ok(());
        }
        let why = if worker.state == PINGING { "it only pings".to_owned() } else { worker.why };
        Err(ApiError::new(ErrorKind::Refused, format!("worker {key} cannot be {done}: {why}")))
    }

    async fn worker(&self, key: &WorkerKey, jobs_max: usize) -> Answer<wire::Worker> {
        if let Some((view, bound)) = self.roll_entry(key, jobs_max).await? {
            let jobs = bound.into_iter().map(lease_convert::hold_to_wire).collect();
            return Ok(wire::Worker { jobs, ..self.shown(view) });
        }
        if let Some(silent) = self.pingers.silent_for(key) {
            return Ok(self.pinger(key, silent));
        }
        match self.store.worker(key).await? {
            Some(KnownWorker { worker, ended: Some((end, _)) }) => Ok(wire::Worker {
                key: worker.key.to_string(),
                name: worker.name,
                state: ended_word(end).to_owned(),
                lease_ms: convert::millis(worker.grant),
                lease_left_ms: Some(0),
                connected: Some(false),
                why: end.sentence().to_owned(),
                ..wire::Worker::default()
            }),
            Some(KnownWorker { worker, ended: None }) if !self.charge.is_ours(worker.registry) => {
                let servers = self.charge.others();
                let server = servers.iter().find(|peer| peer.registry == worker.registry);
                Ok(of_another(worker, server.map(|peer| &peer.server)))
            }
            _ => Err(ApiError::not_found(format!(
                "there is no worker {key}; `tenure workers list` shows those there are"
            ))),
        }
    }

    fn shown(&self, view: WorkerView) -> wire::Worker {
        let now = self.clock.monotonic();
        let ago = |at: model::Instant| convert::millis(now.since(at));
        let is_over = matches!(view.state, WorkerState::Ended(_));
        let is_clock_off = view.clock.is_some_and(|rate| rate.is_off);
        wire::Worker {
            connected: Some(self.sessions.of_worker(&view.key).is_some()),
            key: view.key.to_string(),
            name: view.profile.name,
            state: state_word(view.state).to_owned(),
            queues: view.profile.queues.iter().map(ToString::to_string).collect(),
            slots: Some(view.profile.slots),
            free_slots: Some(view.free_slots),
            version: view.profile.version,
            lease_ms: convert::millis(view.lease),
            lease_left_ms: Some(if is_over { 0 } else { convert::millis(view.expires.since(now)) }),
            last_heartbeat_ago_ms: view.last_heard.map(ago),
            first_heartbeat_ago_ms: view.first_heard.map(ago),
            bound: Some(view.bound as u32),
            assigned: Some(view.assigned as u32),
            token: view.token.to_string(),
            draining: Some(view.draining),
            why: match view.state {
                WorkerState::Ended(end) => end.sentence().to_owned(),
                WorkerState::Stopping => STOPPING_WHY.to_owned(),
                _ => String::new(),
            },
            lag_ms: Some(convert::millis(view.lag)),
            jobs: Vec::new(),
            stop_within_ms: view.profile.stop_within.map(convert::millis),
            exclusive: Some(
                !is_clock_off
                    && view.profile.stop_within.is_some_and(|within| fits_exclusive(view.lease, within)),
            ),
            server: String::new(),
            clock_ppm_min: view.clock.map(|rate| rate.ppm_min),
            clock_ppm_max: view.clock.map(|rate| rate.ppm_max),
            clock_off: is_clock_off,
        }
    }

    fn pinger(&self, key: &WorkerKey, silent: Duration) -> wire::Worker {
        let timeout = self.config.pings.timeout;
        wire::Worker {
            key: key.to_string(),
            state: PINGING.to_owned(),
            lease_ms: convert::millis(timeout),
            lease_left_ms: Some(convert::millis(timeout.saturating_sub(silent))),
            last_heartbeat_ago_ms: Some(convert::millis(silent)),
            ..wire::Worker::default()
        }
    }
}

/// All we know of a worker that another server hears.
fn of_another(worker: Enlist, server: Option<&ServerInfo>) -> wire::Worker {
    let why = match server {
        Some(server) if !server.address.is_empty() => {
            format!("another server is in charge of it and knows more; ask {}", server.address)
        }
        _ => "another server is in charge of it and knows more".to_owned(),
    };
    wire::Worker {
        why,
        key: worker.key.to_string(),
        name: worker.name,
        state: if worker.pings { PINGING } else { ACTIVE }.to_owned(),
        lease_ms: convert::millis(worker.grant),
        server: server.map(|server| server.name.clone()).unwrap_or_default(),
        ..wire::Worker::default()
    }
}

/// Where to go instead.
fn not_owner(key: &WorkerKey, owner: Option<String>) -> ApiError {
    let place = owner.as_ref().map(|address| format!(": {address}")).unwrap_or_default();
    ApiError {
        owner,
        ..ApiError::new(ErrorKind::NotOwner, format!("another server is in charge of worker {key}{place}"))
    }
}

fn going_away() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "the server is going away")
}

fn state_word(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Joining | WorkerState::Active => ACTIVE,
        WorkerState::Unsynced => UNSYNCED,
        WorkerState::Stopping => STOPPING,
        WorkerState::Ended(end) => ended_word(end),
    }
}

fn ended_word(end: HolderEnd) -> &'static str {
    if end.is_left() { LEFT } else { INACTIVE }
}
