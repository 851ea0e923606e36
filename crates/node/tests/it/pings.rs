//! Holders that can do no more than ping: noticed when they fall silent, also when the server was restarted meanwhile.

use std::sync::Arc;
use std::time::Duration;

use lease::passive::PassiveConfig;
use node::NodeConfig;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::gated::Gated;
use crate::support::Server;

fn config() -> NodeConfig {
    let pings =
        PassiveConfig { timeout: Duration::from_millis(600), check_every: Duration::from_millis(100) };
    // Their rows alone would keep the jobs for an hour.
    NodeConfig { pings, lease_default: Duration::from_secs(3600), ..NodeConfig::default() }
}

async fn ping(server: &Server) -> (u16, Value) {
    server.http("POST", "/v1/workers/simple/ping", "").await
}

async fn claim(server: &Server, worker: &str, wait_ms: i64) -> Value {
    let body = json!({"worker": worker, "queues": ["q"], "wait_ms": wait_ms});
    let (status, answer) = server.http("POST", "/v1/work/claim", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer["jobs"][0].clone()
}

async fn enqueue(server: &Server) {
    let (status, _) = server.http("POST", "/v1/jobs", r#"{"queue": "q", "payload": 1}"#).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_holder_that_stops_pinging_loses_its_jobs_and_may_start_over() {
    let server = Server::start_with(config()).await;
    let (status, first) = ping(&server).await;
    assert_eq!((status, &first), (200, &json!({"registered": true, "timeout_ms": 600, "stops": []})));
    assert_eq!(ping(&server).await.1["registered"], false);
    let (_, shown) = server.http("GET", "/v1/workers/simple", "").await;
    assert_eq!(shown["state"], "pinging", "{shown}");
    enqueue(&server).await;
    let lost = claim(&server, "simple", 0).await;

    let rescued = claim(&server, "heir", 30_000).await;
    assert_eq!(rescued["job"], lost["job"], "silence is noticed within timeout and check");
    let (_, shown) = server.http("GET", "/v1/workers/simple", "").await;
    assert_eq!((&shown["state"], &shown["why"]), (&json!("inactive"), &json!("it stopped pinging")));

    assert_eq!(ping(&server).await.1["registered"], true, "it registers afresh");
    let body = json!({"worker": "simple", "reports": [
        {"job": lost["job"], "fence": lost["fence"], "outcome": "completed"}]});
    let (status, problem) = server.http("POST", "/v1/work/finish", &body.to_string()).await;
    assert_eq!((status, &problem["type"]), (409, &json!("stale_fence")), "its old jobs stay lost");
    enqueue(&server).await;
    assert_ne!(claim(&server, "simple", 0).await, Value::Null, "and it may claim again");
    server.stop().await;
}

/// Its row's own lease is over again and again; that is only a question.
#[tokio::test]
async fn a_holder_that_pings_keeps_its_job_beyond_its_rows_lease() {
    let lease_default = Duration::from_millis(500);
    let server = Server::start_with(NodeConfig { lease_default, ..config() }).await;
    ping(&server).await;
    enqueue(&server).await;
    let job = claim(&server, "simple", 0).await;
    let until = tokio::time::Instant::now() + lease_default * 4;
    // The length of the observation; each turn is a ping.
    while tokio::time::Instant::now() < until {
        ping(&server).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let body = json!({"worker": "simple", "reports": [
        {"job": job["job"], "fence": job["fence"], "outcome": "completed"}]});
    let (status, answer) = server.http("POST", "/v1/work/finish", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn one_that_died_with_the_server_is_noticed_by_the_next() {
    let server = Server::start_with(config()).await;
    ping(&server).await;
    enqueue(&server).await;
    let lost = claim(&server, "simple", 0).await;
    let server = server.restart_with(config()).await;
    // It never pings again. Its row would be kept for an hour.
    assert_eq!(claim(&server, "heir", 30_000).await["job"], lost["job"]);
    server.stop().await;
}

#[tokio::test]
async fn pings_and_heartbeats_do_not_share_a_key() {
    let server = Server::start_with(config()).await;
    let beat = json!({"nonce": 1, "profile": {"queues": ["q"]}}).to_string();
    ping(&server).await;
    let (status, problem) = server.http("POST", "/v1/workers/simple/heartbeat", &beat).await;
    assert_eq!(status, 409, "{problem}");
    let (status, _) = server.http("POST", "/v1/workers/leased/heartbeat", &beat).await;
    assert_eq!(status, 200);
    let (status, problem) = server.http("POST", "/v1/workers/leased/ping", "").await;
    assert_eq!((status, &problem["type"]), (409, &json!("worker_inactive")), "{problem}");
    server.stop().await;
}

#[tokio::test]
async fn one_that_comes_back_while_its_jobs_are_taken_away_is_put_off() {
    let store = Arc::new(Gated { ends: Semaphore::new(0), ..Gated::new() });
    let server = Server::start_on(config(), store.clone()).await;
    ping(&server).await;
    enqueue(&server).await;
    let lost = claim(&server, "simple", 0).await;
    // Its silence was noticed, and the store is still busy with that.
    while server.http("GET", "/v1/workers/simple", "").await.1["state"] == "pinging" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (status, problem) = ping(&server).await;
    assert_eq!(status, 503, "it would lose what it claims from now on: {problem}");
    store.ends.add_permits(1);
    assert_eq!(claim(&server, "heir", 30_000).await["job"], lost["job"]);
    while ping(&server).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
}
