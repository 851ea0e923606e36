//! Holders that make single calls are told of cancels and time limits by what they call anyway, and lose what they do not stop.

use std::time::Duration;

use lease::passive::PassiveConfig;
use model::Limits;
use node::NodeConfig;
use serde_json::{Value, json};

use crate::support::Server;
use crate::workers::{claim, enqueue};

/// The lease where a job has none of its own, which is also the time a holder has to stop what it was told to.
const GRACE: Duration = Limits::LEASE_MIN;

fn config() -> NodeConfig {
    NodeConfig { lease_default: GRACE, ..NodeConfig::default() }
}

/// For holders that should have all the time in the world.
fn patient() -> NodeConfig {
    NodeConfig { lease_default: Duration::from_secs(3600), ..NodeConfig::default() }
}

fn hold(job: &Value) -> Value {
    json!({"job": job["job"], "fence": job["fence"]})
}

async fn renew(server: &Server, job: &Value) -> (u16, Value) {
    let body = json!({"worker": "w", "holds": [hold(job)]}).to_string();
    server.http("POST", "/v1/work/renew", &body).await
}

async fn ping(server: &Server) -> Value {
    let (status, answer) = server.http("POST", "/v1/workers/w/ping", "").await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn finish(server: &Server, job: &Value, outcome: &str) -> (u16, Value) {
    let mut report = hold(job);
    report["outcome"] = json!(outcome);
    let body = json!({"worker": "w", "reports": [report]}).to_string();
    server.http("POST", "/v1/work/finish", &body).await
}

async fn shown(server: &Server, id: &str) -> Value {
    server.http("GET", &format!("/v1/jobs/{id}"), "").await.1
}

/// A job with this time limit, held by `w` under a lease that no test outlasts.
async fn held(server: &Server, timeout_ms: i64) -> (String, Value) {
    let job = json!({
        "queue": "q", "payload": 1, "timeout_ms": timeout_ms, "heartbeat_timeout_ms": 3_600_000,
        "retry": "fixed:1:1", "max_attempts": 2,
    });
    let id = enqueue(server, job).await;
    (id, claim(server, "w", 0).await)
}

fn stop(job: &Value, reason: &str) -> Value {
    json!([{"job": job["job"], "fence": job["fence"], "reason": reason}])
}

#[tokio::test]
async fn the_end_of_a_time_limit_is_told_by_a_renewal_and_the_hold_stands() {
    let server = Server::start_with(patient()).await;
    let (id, job) = held(&server, 1).await;
    let (_, other) = held(&server, 3_600_000).await;
    // The millisecond is over as soon as the store says so.
    let answer = loop {
        let (status, answer) = renew(&server, &job).await;
        assert_eq!((status, answer["held"].as_array().map(Vec::len)), (200, Some(1)), "{answer}");
        if answer["stops"] != json!([]) {
            break answer;
        }
    };
    assert_eq!(answer["stops"], stop(&job, "timeout"));
    assert_eq!(
        renew(&server, &other).await.1["stops"],
        json!([]),
        "its limit is far, and it is told of no other"
    );
    let (status, answer) = finish(&server, &job, "failed").await;
    assert_eq!((status, &answer["reports"][0]["answer"]), (200, &json!("done")), "{answer}");
    assert_eq!(shown(&server, &id).await["attempt"], 1);
    server.stop().await;
}

#[tokio::test]
async fn the_end_of_a_time_limit_and_a_cancel_are_told_by_a_ping() {
    let server = Server::start_with(patient()).await;
    assert_eq!(ping(&server).await["stops"], json!([]));
    let (_, timed_out) = held(&server, 1).await;
    while ping(&server).await["stops"] != stop(&timed_out, "timeout") {
        tokio::task::yield_now().await;
    }
    finish(&server, &timed_out, "dead").await;
    assert_eq!(ping(&server).await["stops"], json!([]), "until it is reported");
    let (id, called_off) = held(&server, 3_600_000).await;
    server.http("POST", &format!("/v1/jobs/{id}/cancel"), "").await;
    assert_eq!(ping(&server).await["stops"], stop(&called_off, "cancelled"));
    server.stop().await;
}

/// It renews for ever and stops nothing. Before this was told, it kept the job for ever.
#[tokio::test]
async fn a_holder_that_renews_and_does_not_stop_loses_the_job() {
    let server = Server::start_with(config()).await;
    let (id, job) = held(&server, 1).await;
    // Each turn is a renewal.
    let problem = loop {
        match renew(&server, &job).await {
            (200, _) => tokio::time::sleep(GRACE / 10).await,
            (status, problem) => break (status, problem),
        }
    };
    assert_eq!((problem.0, &problem.1["type"]), (409, &json!("stale_fence")), "{problem:?}");
    let after = shown(&server, &id).await;
    assert_eq!(after["last_error"], "timed out; its holder was told to stop and did not", "{after}");
    assert_eq!((&after["attempt"], &after["lost"]), (&json!(1), &json!(0)), "it failed: {after}");
    // What it says now comes too late, and it is told so.
    let (status, problem) = finish(&server, &job, "completed").await;
    assert_eq!((status, &problem["type"]), (409, &json!("stale_fence")), "{problem}");
    let again = claim(&server, "heir", 30_000).await;
    assert_eq!((&again["job"], &again["attempt"]), (&json!(id), &json!(2)));
    server.stop().await;
}

#[tokio::test]
async fn a_holder_that_pings_and_does_not_stop_loses_the_job() {
    // Nobody is silent for as long as that.
    let pings = PassiveConfig { timeout: Duration::from_secs(60), ..PassiveConfig::default() };
    let server = Server::start_with(NodeConfig { pings, ..config() }).await;
    ping(&server).await;
    let (id, job) = held(&server, 3_600_000).await;
    server.http("POST", &format!("/v1/jobs/{id}/cancel"), "").await;
    while ping(&server).await["stops"] != stop(&job, "lost") {
        tokio::time::sleep(GRACE / 10).await;
    }
    let after = shown(&server, &id).await;
    assert_eq!((&after["state"], &after["lost"]), (&json!("cancelled"), &json!(0)), "{after}");
    assert_eq!(after["last_error"], "cancelled; its holder was told to stop and did not");
    assert_eq!(ping(&server).await["stops"], json!([]));
    server.stop().await;
}
