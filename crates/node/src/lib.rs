//! The server: wires the pure core to its drivers.
//!
//! [`run`] takes what it needs (a listener, a store, a clock) and serves until told to stop. The heart hears one closed `Event`
//! enum, from whoever has news; the handlers in `api` are reached through two doors, gRPC and HTTP/JSON, on one port.

mod api;
mod charge;
mod charge_duties;
mod config;
mod door;
mod duties;
mod event;
mod exclusive;
mod faults;
mod grpc;
mod heart;
mod http;
mod ids;
mod known_queues;
mod membership;
mod metrics;
mod news;
mod pingers;
mod pulse;
mod queue_figures;
mod readiness;
mod roll;
mod roll_duties;
mod rounds;
mod session;
mod sessions;
mod shield;
mod stall;
mod volatile;
mod watch;

use std::io;
use std::sync::Arc;

use model::{Clock, RegistryId};
use store::JobStore;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use config::{DoorConfig, NodeConfig, VolatileConfig};
pub use faults::Faults;
pub use membership::Cluster;
pub use metrics::Metrics;

use crate::api::Api;
use crate::membership::Membership;
use crate::pingers::Pingers;

/// Events that may wait for the heart; then their senders wait.
const EVENTS_MAX: usize = 16_384;

/// What a server needs.
pub struct Node {
    /// Its settings, checked.
    pub config: NodeConfig,
    /// Where jobs live.
    pub store: Arc<dyn JobStore>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Its numbers.
    pub metrics: Metrics,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// What it remembers of its last life, on a store that others use too.
    pub past: Past,
    /// The cluster it is a member of, if any.
    pub cluster: Option<Cluster>,
}

/// What a server remembers of itself over its own death. Without it, its workers wait until others notice the death.
#[derive(Clone, Default)]
pub struct Past {
    /// The registry of the last life, which is over for certain: its process is gone.
    pub last: Option<RegistryId>,
    /// Called with each registry of this life before it is used.
    pub note: Option<Arc<dyn Fn(RegistryId) + Send + Sync>>,
}

impl Node {
    /// A server with default settings.
    pub fn new(store: Arc<dyn JobStore>, clock: Arc<dyn Clock>) -> Self {
        Node {
            config: NodeConfig::default(),
            store,
            clock,
            metrics: Metrics::new(),
            faults: Faults::default(),
            past: Past::default(),
            cluster: None,
        }
    }
}

/// Serves on `listener` until `shutdown` fires, then drains. The caller closes the store afterwards.
pub async fn run(mut node: Node, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let cluster = node.cluster.take();
    let membership = cluster.as_ref().map(|cluster| Arc::new(Membership::new(cluster, &node)));
    let api = Arc::new(Api::new(node, membership.clone(), events));
    let _pings = Pingers::start(&api);
    let mut heart = tokio::spawn(pulse::beat(Arc::clone(&api), inbox));
    let mut others = JoinSet::new();
    others.spawn(news::listen(Arc::clone(&api)));
    others.spawn(news::watch(Arc::clone(&api)));
    others.spawn(news::call_off(Arc::clone(&api)));
    if let (Some(membership), Some(cluster)) = (membership.clone(), cluster) {
        others.spawn(membership::live(membership, cluster));
    }
    tokio::select! {
        served = door::serve(Arc::clone(&api), listener, shutdown) => {
            if let Some(membership) = membership {
                membership.farewell().await;
            }
            heart.abort();
            let _ = heart.await;
            api.pulse.stop().await;
            served
        }
        // Without its heart a server would look alive and do nothing: better to end and be started again.
        ended = &mut heart => Err(io::Error::other(match ended {
            Ok(()) => "the server's heart broke".to_owned(),
            Err(error) => format!("the server's heart broke: {error}"),
        })),
    }
}
