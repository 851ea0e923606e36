//! The server: wires the pure core to its drivers.
//!
//! [`run`] takes what it needs (a listener, a store, a clock) and serves until told to stop. The heart is one loop over
//! one closed `Event` enum; the handlers in `api` are reached through two doors, gRPC and HTTP/JSON, on one port.

mod api;
mod config;
mod duties;
mod event;
mod exclusive;
mod faults;
mod grpc;
mod heart;
mod http;
mod ids;
mod metrics;
mod pingers;
mod roll;
mod roll_duties;
mod rounds;
mod serve;
mod session;
mod sessions;
mod shield;
mod stall;
mod watch;

use std::io;
use std::sync::Arc;

use model::Clock;
use store::JobStore;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use config::NodeConfig;
pub use faults::Faults;
pub use metrics::Metrics;

use crate::api::Api;
use crate::heart::Heart;
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
        }
    }
}

/// Serves on `listener` until `shutdown` fires, then drains. The caller closes the store afterwards.
pub async fn run(node: Node, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let api = Arc::new(Api::new(node, events));
    let _pings = Pingers::start(&api);
    let heart = tokio::spawn(Heart::new(Arc::clone(&api)).beat(inbox));
    let mut heart = heart;
    tokio::select! {
        served = serve::serve(Arc::clone(&api), listener, shutdown) => {
            heart.abort();
            served
        }
        // Without its heart a server would look alive and do nothing: better to end and be started again.
        ended = &mut heart => Err(io::Error::other(match ended {
            Ok(()) => "the server's heart stopped".to_owned(),
            Err(error) => format!("the server's heart broke: {error}"),
        })),
    }
}
