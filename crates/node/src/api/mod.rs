//! The handlers: one for each call, wire in and wire out. gRPC and HTTP are two doors to the same rooms.

mod jobs;
mod nodes;
mod queues;
mod stops;
mod volatile;
mod work;
mod workers;

pub(crate) use work::{CLAIM_BYTES_MAX, refuse_volatile, renewal_answers};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use lease::heed::Heed;
use model::{Clock, ErrorKind, JobId, QueueName, RegistryId, State};
use rpc::ApiError;
use store::{JobStore, News, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::Node;
use crate::charge::Charge;
use crate::config::NodeConfig;
use crate::event::{Event, RollEvent};
use crate::exclusive::ExclusiveQueues;
use crate::faults::Faults;
use crate::ids::IdSource;
use crate::known_queues::KnownQueues;
use crate::membership::Membership;
use crate::metrics::Metrics;
use crate::news::WatchedElsewhere;
use crate::pingers::Pingers;
use crate::pulse::Pulse;
use crate::readiness::Readiness;
use crate::sessions::Sessions;
use crate::stall::{RenewalHealth, Waiting};
use crate::volatile::{Ends, NoRoom};
use crate::watch::Watchers;

/// How long the answer to a report or a submission waits for something to go with. Nothing hangs on it: whoever sent that keeps
/// it meanwhile.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_millis(10);

/// How long a server that goes waits for the store to take note.
const RESIGN_WAIT: Duration = Duration::from_secs(2);

/// What every handler answers.
pub(crate) type Answer<T> = Result<T, ApiError>;

/// What the handlers share.
pub(crate) struct Api {
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: NodeConfig,
    pub(crate) metrics: Metrics,
    pub(crate) sessions: Sessions,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) renewals: RenewalHealth,
    pub(crate) waiting: Waiting,
    pub(crate) readiness: Readiness,
    pub(crate) pingers: Pingers,
    pub(crate) faults: Faults,
    pub(crate) exclusive: ExclusiveQueues,
    pub(crate) known_queues: KnownQueues,
    pub(crate) charge: Charge,
    pub(crate) watched_elsewhere: WatchedElsewhere,
    /// Rung when another server may have called off jobs that are held here.
    pub(crate) may_be_called_off: tokio::sync::Notify,
    /// Who else is in the cluster, if there is one.
    pub(crate) membership: Option<Arc<Membership>>,
    /// Who waits for the ends of volatile jobs.
    pub(crate) ends: Ends,
    no_room: NoRoom,
    /// Which holders were told to stop what.
    heed: Mutex<Heed>,
    /// Which life of the server this is.
    pub(crate) generation: u64,
    /// Fires when the server is going away: what waits stops waiting.
    pub(crate) closing: CancellationToken,
    ids: IdSource,
    pub(crate) pulse: Pulse,
}

impl Api {
    pub(crate) fn new(node: Node, membership: Option<Arc<Membership>>, events: mpsc::Sender<Event>) -> Self {
        let Node { config, store, clock, metrics, faults, past, cluster: _ } = node;
        let charge = Charge::new(past);
        if !store.is_shared() {
            charge.set_registry(Some(RegistryId::ONLY));
        }
        Api {
            ids: IdSource::new(Arc::clone(&clock)),
            sessions: Sessions::new(metrics.sessions.clone()),
            watchers: Watchers::new(),
            renewals: RenewalHealth::default(),
            waiting: Waiting::default(),
            readiness: Readiness::default(),
            pingers: Pingers::new(config.pings, Arc::clone(&clock)),
            faults,
            exclusive: ExclusiveQueues::default(),
            known_queues: KnownQueues::default(),
            charge,
            watched_elsewhere: WatchedElsewhere::default(),
            may_be_called_off: tokio::sync::Notify::new(),
            membership,
            generation: model::Generation::begin(clock.wall(), rand::random()).0,
            ends: Ends::default(),
            no_room: NoRoom::default(),
            heed: Mutex::default(),
            closing: CancellationToken::new(),
            store,
            clock,
            config,
            metrics,
            pulse: Pulse::new(events),
        }
    }

    /// What a stream begins with.
    pub(crate) async fn first_frame<T>(
        &self,
        frames: &mut (impl Stream<Item = Result<T, Status>> + Unpin),
    ) -> Answer<T> {
        if self.closing.is_cancelled() {
            return Err(ApiError::new(
                ErrorKind::Unavailable,
                "the server is going away; connect again in a moment",
            ));
        }
        match frames.next().await {
            Some(frame) => Ok(frame?),
            None => Err(ApiError::invalid("the stream ended before its first frame")),
        }
    }

    /// Tells the heart.
    pub(crate) async fn tell(&self, event: Event) {
        self.pulse.tell(event).await;
    }

    /// Tells the roll of workers something nobody waits for.
    pub(crate) async fn tell_roll(&self, input: lease::registry::Input) {
        self.tell(Event::Roll(RollEvent::Told(Box::new(input)))).await;
    }

    /// Wakes dispatch for queues that may have work now.
    pub(crate) async fn wake(&self, queues: Vec<QueueName>) {
        if !queues.is_empty() {
            self.tell_others(|| News::Ready(queues.clone()));
            self.tell(Event::Ready { queues }).await;
        }
    }

    /// Arms the timer for a job that is due so soon.
    pub(crate) async fn run_due(&self, in_: Duration) {
        self.tell_others(|| News::Scheduled);
        self.tell(Event::RunDue { in_ }).await;
    }

    /// Lets others have our workers at once. Should that fail, they wait a little.
    pub(crate) async fn resign(&self) {
        let resigning = async {
            let (done, is_done) = oneshot::channel();
            self.tell(Event::Resigning { done }).await;
            // First of all we ourselves believe it.
            is_done.await.map_err(|_| StoreError::Unavailable("the server's heart stopped".to_owned()))?;
            let Ok(registry) = self.charge.registry() else { return Ok(()) };
            self.store.resign(registry).await
        };
        if !matches!(tokio::time::timeout(RESIGN_WAIT, resigning).await, Ok(Ok(()))) {
            tracing::info!("could not tell the store that this server goes; others find out by its silence");
        }
    }

    /// Those of these jobs, each of which came into one of these states, that watchers must hear of.
    pub(crate) fn watched_ids(
        &self,
        ids: impl Iterator<Item = JobId> + Clone,
        states: &[State],
    ) -> Vec<JobId> {
        if self.is_watched_elsewhere() {
            self.store.tell(News::Changed(ids.clone().collect()));
        }
        let mut wanted = self.watchers.wanted(ids.clone(), states);
        if self.ends.is_someone() {
            wanted.extend(ids.filter(|id| self.ends.wants(*id)));
            wanted.sort();
            wanted.dedup();
        }
        wanted
    }

    /// Tells watchers that these jobs changed state.
    pub(crate) async fn announce(&self, ids: Vec<JobId>) {
        for id in ids {
            if let Ok(Some(job)) = self.store.get(id).await {
                if job.state.is_terminal() {
                    self.ends.tell(&job);
                }
                if self.watchers.is_someone() {
                    self.watchers.tell(self.event_of(job));
                }
            }
        }
    }

    pub(crate) fn event_of(&self, job: model::Job) -> rpc::wire::JobEvent {
        rpc::wire::JobEvent {
            id: job.id.to_string(),
            state: job.shown_state().to_owned(),
            queue: job.queue.to_string(),
            kind: job.kind.to_string(),
            attempt: job.attempt,
            fence: job.fence.get(),
            holder: job.holder.map(|holder| holder.to_string()).unwrap_or_default(),
            error: job.last_error.unwrap_or_default(),
            at_ms: self.clock.wall().as_millis(),
        }
    }

    /// After jobs left running: wakes dispatch for those that may run again at once, arms the timer for the others.
    pub(crate) async fn wake_after(&self, moves: Moves) {
        self.wake(moves.ready).await;
        if let Some(in_) = moves.due_in {
            self.run_due(in_).await;
        }
    }
}

/// Where jobs went.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The states they are in now.
    states: Vec<State>,
    /// The queues of those that may run again at once.
    ready: Vec<QueueName>,
    /// When the first of the others may.
    due_in: Option<Duration>,
}

impl Moves {
    /// Sums up where jobs went.
    pub(crate) fn of<'a>(moved: impl Iterator<Item = (State, &'a QueueName, Option<Duration>)>) -> Self {
        let mut moves = Moves::default();
        for (state, queue, due_in) in moved {
            if !moves.states.contains(&state) {
                moves.states.push(state);
            }
            match state {
                State::Available if !moves.ready.contains(queue) => moves.ready.push(queue.clone()),
                State::Scheduled => moves.due_in = moves.due_in.into_iter().chain(due_in).min(),
                _ => {}
            }
        }
        moves
    }
}
