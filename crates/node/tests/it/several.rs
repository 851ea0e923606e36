//! Several servers on one store: whose worker it is, and what is said to one holds at the others.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use node::NodeConfig;
use serde_json::{Value, json};
use store::MemoryStore;

use crate::support::Server;

/// Two servers on one store.
async fn two() -> [Server; 2] {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let other = store.seat();
    let name = |name: &str| NodeConfig { name: name.to_owned(), ..NodeConfig::default() };
    [
        Server::start_on(name("one"), Arc::new(store)).await,
        Server::start_on(name("two"), Arc::new(other)).await,
    ]
}

/// Beats until it is taken; the token.
async fn join(server: &Server, key: &str) -> Value {
    let beat = json!({"nonce": 1, "profile": {"queues": ["q"]}}).to_string();
    loop {
        // A server that has just started puts workers off until it has a registry.
        let (status, answer) = server.http("POST", &format!("/v1/workers/{key}/heartbeat"), &beat).await;
        if status == 200 {
            return answer["token"].clone();
        }
        assert!([429, 503].contains(&status), "{answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn beat(server: &Server, key: &str, token: &Value) -> (u16, Value) {
    let beat = json!({"nonce": 1, "token": token}).to_string();
    server.http("POST", &format!("/v1/workers/{key}/heartbeat"), &beat).await
}

/// Asks until the answer names an owner: servers learn of each other by their beats.
async fn redirected(server: &Server, path: &str, body: &Value) -> Value {
    loop {
        let (status, problem) = server.http("POST", path, &body.to_string()).await;
        assert_eq!((status, &problem["type"]), (421, &json!("not_owner")), "{problem}");
        if problem["owner"].is_string() {
            return problem["owner"].clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_worker_is_sent_to_the_server_in_charge() {
    let [one, two] = two().await;
    let token = join(&one, "ann").await;
    // Another server has never heard of it; that alone must not end it.
    let path = "/v1/workers/ann/heartbeat";
    let owner = redirected(&two, path, &json!({"nonce": 1, "token": token})).await;
    assert_eq!(owner, json!(one.url()));
    let first = json!({"nonce": 1, "profile": {"queues": ["q"]}});
    assert_eq!(redirected(&two, path, &first).await, owner, "also if it shows no token");
    assert_eq!(beat(&one, "ann", &token).await.0, 200);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_key_that_no_server_knows_is_dead() {
    let [one, two] = two().await;
    join(&one, "other").await;
    let (status, problem) = beat(&one, "ann", &json!("1.1")).await;
    assert_eq!((status, &problem["type"]), (409, &json!("worker_inactive")), "{problem}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn only_the_server_in_charge_hears_pings_leaves_and_reports_of_its_workers() {
    let [one, two] = two().await;
    join(&one, "ann").await;
    while one.http("POST", "/v1/workers/simple/ping", "").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    join(&two, "other").await;
    for (path, body) in [
        ("/v1/workers/simple/ping", Value::Null),
        ("/v1/workers/ann/leave", json!({"nonce": 1, "all_stopped": true})),
        ("/v1/workers/ann/kick", Value::Null),
        ("/v1/workers/ann/drain", Value::Null),
        ("/v1/work/finish", json!({"worker": "ann", "reports": []})),
    ] {
        assert_eq!(redirected(&two, path, &body).await, json!(one.url()), "{path}");
    }
    let (_, list) = two.http("GET", "/v1/workers", "").await;
    let seen: Vec<_> = list["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|worker| (worker["key"].as_str().unwrap_or(""), worker["server"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(seen, [("ann", "one"), ("other", ""), ("simple", "one")]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_hands_its_workers_over_at_once() {
    let [one, two] = two().await;
    let token = join(&one, "ann").await;
    join(&two, "other").await;
    let stopped = tokio::time::Instant::now();
    one.stop().await;
    let token = loop {
        let (status, problem) = beat(&two, "ann", &token).await;
        if status == 409 {
            assert_eq!(problem["type"], "token_mismatch", "it is known, and asked for all it has: {problem}");
            break problem["token"].clone();
        }
        assert!([421, 429].contains(&status), "{problem}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // One that dies is given five seconds.
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
    let full = json!({"nonce": 1, "token": token, "full": {"holds": []}}).to_string();
    let (status, answer) = two.http("POST", "/v1/workers/ann/heartbeat", &full).await;
    assert_eq!(status, 200, "{answer}");
    two.stop().await;
}

#[tokio::test]
async fn what_one_takes_in_another_gives_out_and_the_first_hears_how_it_ended() {
    let [one, two] = two().await;
    join(&two, "other").await;
    let claim = json!({"worker": "curl", "queues": ["q"], "wait_ms": 20_000}).to_string();
    let claiming = two.http("POST", "/v1/work/claim", &claim);
    let enqueuing = async {
        // Not before the other waits for work.
        while two.http("GET", "/v1/stats", "").await.1["workers"] == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        one.http("POST", "/v1/jobs", r#"{"queue": "q", "payload": 1}"#).await
    };
    let ((status, claimed), (_, enqueued)) = tokio::join!(claiming, enqueuing);
    assert_eq!(status, 200, "{claimed}");
    let job = &claimed["jobs"][0];
    assert_eq!(job["job"], enqueued["jobs"][0]["id"], "{claimed}");

    let path = format!("/v1/jobs/{}/wait?timeout_ms=20000", job["job"].as_str().expect("an id"));
    let waiting = one.http("GET", &path, "");
    let report = json!({"worker": "curl", "reports": [
        {"job": job["job"], "fence": job["fence"], "outcome": "completed"}]});
    let finishing = async { two.http("POST", "/v1/work/finish", &report.to_string()).await };
    let ((_, ended), (status, _)) = tokio::join!(waiting, finishing);
    assert_eq!((status, &ended["state"]), (200, &json!("completed")), "{ended}");
    one.stop().await;
    two.stop().await;
}
