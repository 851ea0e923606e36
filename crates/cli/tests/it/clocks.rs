//! Clocks that run wrong: the server's is ten percent fast, or slow, beside that of its workers. Rates are all that matters, so that
//! is also what happens when a worker's is slow, or fast.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use model::{Clock, Instant, WallTime};
use node::{Node, NodeConfig};
use rpc::wire;
use rustix::process::Signal;
use store_sqlite::{SqliteOptions, SqliteStore};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use worker::Client;

use crate::locked::{Copies, set_exclusive, until};
use crate::proxy::{Cut, Proxy};
use crate::support::http;

/// Long, so that a tenth of it is enough for a second copy to begin on a slow machine.
const FITTING: [&str; 6] = ["--lease", "30s", "--kill-wait", "1s", "--safety", "500ms"];

/// A clock that gains or loses this much, in percent.
struct Drifting {
    began: Instant,
    percent: i64,
}

impl Clock for Drifting {
    fn monotonic(&self) -> Instant {
        let span = SystemClock.monotonic().since(self.began).as_nanos() as i64;
        self.began + Duration::from_nanos((span + span / 100 * self.percent) as u64)
    }

    fn wall(&self) -> WallTime {
        SystemClock.wall()
    }
}

/// What `/metrics` says.
async fn metric(server: &str, name: &str, label: &str) -> f64 {
    let (_, text) = http(server, "GET", "/metrics", "").await;
    let wanted = |line: &&str| line.starts_with(name) && line.contains(label);
    text.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn workers(server: &str) -> Vec<wire::Worker> {
    let (_, body) = http(server, "GET", "/v1/workers", "").await;
    serde_json::from_str::<wire::ListWorkersResponse>(&body).expect("a list").workers
}

/// A worker with an exclusive job is cut off when its clock was found to be off. Another one comes just before its lease is over
/// for the server.
async fn cut_off(percent: i64, overlaps: bool) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let clock = Arc::new(Drifting { began: SystemClock.monotonic(), percent });
    let store = SqliteStore::open(SqliteOptions::new(home.path().join("data")), clock.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let server = format!("http://{}", listener.local_addr().expect("it is bound"));
    let config = NodeConfig { address: server.clone(), ..NodeConfig::default() };
    let config = config.check().expect("the settings are valid");
    let node = Node { config, ..Node::new(Arc::new(store.expect("a fresh store")), clock) };
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(node::run(node, listener, shutdown.clone()));
    let client = Client::connect(&server).expect("a valid address");
    set_exclusive(&client).await;

    let copies = Copies::under(home.path());
    let proxy = Proxy::to(&server).await;
    let mut first = copies.worker(&proxy.url, "first", &FITTING);
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    let id = client.enqueue(request).await.expect("accepted").jobs[0].id.clone();
    copies.begun(1).await;
    until("a measured clock", async || workers(&server).await[0].clock_off.then_some(())).await;
    assert_eq!(workers(&server).await[0].exclusive, Some(false), "it gets no more");
    assert_eq!(metric(&server, "tenure_clock_rate_out_of_bounds_total", "").await, 1.0);

    proxy.cut(Cut { to_server: true, to_worker: true });
    until("the end of its lease to come near", async || {
        let left = workers(&server).await.first().and_then(|worker| worker.lease_left_ms);
        left.is_none_or(|left| left < 5_000).then_some(())
    })
    .await;
    // Its own clock is not measured yet when it is given the job.
    let mut second = copies.worker(&server, "second", &FITTING);
    let seen = copies.begun(2).await;
    assert_eq!(seen[1].overlaps, overlaps, "{seen:?}");
    proxy.cut(Cut::default());
    until("the word of the old holder", async || {
        (metric(&server, "tenure_handover_margin_seconds_count", "late_word").await >= 1.0).then_some(())
    })
    .await;
    assert_eq!(metric(&server, "tenure_handover_margin_seconds_count", "unproven").await, 1.0);
    let negative = metric(&server, "tenure_handover_margin_negative_total", "").await;
    assert_eq!(negative > 0.0, overlaps, "{negative} negative margins");
    copies.finish();
    let (status, _) = http(&server, "GET", &format!("/v1/jobs/{id}/wait?timeout_ms=60000"), "").await;
    assert_eq!(status, 200);
    for worker in [&mut first, &mut second] {
        worker.signal(Signal::TERM).expect("it is running");
        worker.ended().await.expect("it drains");
    }
    shutdown.cancel();
    running.await.expect("it does not panic").expect("it ends well");
}

#[tokio::test]
async fn an_overlap_by_a_server_whose_clock_is_fast_is_counted() {
    cut_off(10, true).await;
}

#[tokio::test]
async fn a_server_whose_clock_is_slow_hands_over_late_and_that_is_no_alarm() {
    cut_off(-10, false).await;
}
