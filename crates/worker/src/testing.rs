//! Homes and contexts for unit tests, without a server.

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

/// A worker at home at this server, with this lease, and what its handlers tell the session.
pub(crate) fn home(server: &str, lease: Duration) -> (Home, UnboundedReceiver<JobEvent>) {
    let (events, received) = unbounded_channel();
    let client = Client::connect(server).expect("the address is well-formed");
    let clock = Arc::new(clock::SystemClock);
    (Home::new(key::fresh("test"), lease, server.to_owned(), client, events, clock), received)
}

/// A job of this kind, first attempt of three, whose events go nowhere.
pub(crate) fn context(kind: &str) -> JobContext {
    let (home, _) = home("http://127.0.0.1:9", Duration::from_secs(20));
    let hold = Hold { job: JobId::from_bytes([7; 16]), fence: Fence::new(1_000_001) };
    let grant = Grant {
        hold,
        lease: Duration::from_secs(30),
        timeout: None,
        heartbeat_timeout: Some(Duration::from_secs(60)),
        exclusive: false,
        at_once: false,
        start: Start { generation: Generation(1), key: home.key(), number: 1 },
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
    JobContext::new(&grant, assignment, Arc::new(home))
}
