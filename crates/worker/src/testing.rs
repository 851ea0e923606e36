//! Contexts for unit tests, without a server.

use std::sync::Arc;
use std::time::Duration;

use lease::ledger::{Grant, Start};
use lease::message::Generation;
use model::{Fence, Hold, JobId};
use rpc::wire;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::client::Client;
use crate::context::JobContext;
use crate::home::{Home, JobEvent};
use crate::key;

/// A job of this kind, first attempt of three, whose events go nowhere.
pub(crate) fn context(kind: &str) -> JobContext {
    context_with_events(kind).0
}

/// The same, together with what its handler tells the session.
pub(crate) fn context_with_events(kind: &str) -> (JobContext, UnboundedReceiver<JobEvent>) {
    let (events, received) = unbounded_channel();
    let servers = "http://127.0.0.1:9".to_owned();
    let client = Client::connect(&servers).expect("the address is well-formed");
    let worker = key::fresh("test");
    let home = Arc::new(Home::new(worker.clone(), Duration::from_secs(20), servers, client, events));
    let hold = Hold { job: JobId::from_bytes([7; 16]), fence: Fence::new(1_000_001) };
    let grant = Grant {
        hold,
        lease: Duration::from_secs(30),
        timeout: None,
        heartbeat_timeout: Some(Duration::from_secs(60)),
        binds_at_once: false,
        start: Start { generation: Generation(1), key: worker, number: 1 },
    };
    let assignment = wire::Assignment {
        job: hold.job.to_string(),
        fence: hold.fence.get(),
        attempt: 1,
        max_attempts: 3,
        queue: "mail".into(),
        kind: kind.into(),
        lease_ms: 30_000,
        ..wire::Assignment::default()
    };
    (JobContext::new(&grant, assignment, home), received)
}
