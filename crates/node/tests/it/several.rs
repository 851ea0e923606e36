//! Several servers on one store: whose worker it is, and what is said to one holds at the others.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use model::{JobId, NewJob, State};
use node::NodeConfig;
use serde_json::{Value, json};
use store::{Claim, EnqueueBatch, JobStore as _, MemoryStore};

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
async fn what_only_the_server_in_charge_knows_is_absent_at_the_others() {
    let [one, two] = two().await;
    join(&one, "ann").await;
    join(&two, "other").await;
    // Until the two have seen each other.
    redirected(&two, "/v1/workers/ann/kick", &Value::Null).await;
    let unknown = [
        "slots",
        "free_slots",
        "lease_left_ms",
        "last_heartbeat_ago_ms",
        "first_heartbeat_ago_ms",
        "bound",
        "assigned",
        "draining",
        "lag_ms",
        "connected",
        "exclusive",
    ];
    let (_, list) = two.http("GET", "/v1/workers", "").await;
    let (_, shown) = two.http("GET", "/v1/workers/ann", "").await;
    assert_eq!(list["workers"][0], shown);
    for field in unknown {
        assert_eq!(shown[field], Value::Null, "{field}: {shown}");
    }
    let why = shown["why"].as_str().expect("a text");
    assert!(why.contains(&one.url()), "it says whom to ask: {why}");
    let (_, shown) = one.http("GET", "/v1/workers/ann", "").await;
    for field in unknown {
        assert_ne!(shown[field], Value::Null, "{field}: {shown}");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn queues_that_another_server_may_serve_are_not_called_unserved() {
    let [one, two] = two().await;
    join(&one, "ann").await;
    redirected(&two, "/v1/workers/ann/kick", &Value::Null).await;
    let job = r#"{"queue": "q", "payload": 1}"#;
    let (_, enqueued) = two.http("POST", "/v1/jobs", job).await;
    assert_eq!(enqueued["unserved_queues"], json!([]), "{enqueued}");
    let path = format!("/v1/jobs/{}", enqueued["jobs"][0]["id"].as_str().expect("an id"));
    assert_eq!(two.http("GET", &path, "").await.1["workers"], Value::Null);
    assert_eq!(two.http("GET", "/v1/stats", "").await.1["queues"][0]["workers"], Value::Null);
    // Once it is alone it knows.
    one.stop().await;
    while two.http("GET", &path, "").await.1["workers"] != json!(0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (_, enqueued) = two.http("POST", "/v1/jobs", job).await;
    assert_eq!(enqueued["unserved_queues"], json!(["q"]), "{enqueued}");
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

/// All servers were away for longer than a lease. Whoever holds jobs by single calls could not renew, and has one lease to
/// do so from the start of the first server.
#[tokio::test]
async fn holders_without_heartbeats_have_a_lease_to_find_a_server_that_starts() {
    const LEASE: Duration = Duration::from_secs(2);
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let jobs = [1, 2].map(|byte| {
        let (queue, kind) = ("q".parse().expect("a name"), "k".parse().expect("a kind"));
        NewJob::new(JobId::from_bytes([byte; 16]), queue, kind, Default::default())
    });
    store.enqueue(EnqueueBatch { request_id: None, jobs: jobs.to_vec() }).await.expect("enqueued");
    let claim = Claim {
        holder: "curl".parse().expect("a key"),
        queues: vec!["q".parse().expect("a name")],
        limit: 2,
        bytes_max: usize::MAX,
        lease: LEASE,
        exclusive: false,
    };
    let claimed = store.claim(claim).await.expect("claimed");
    assert_eq!(claimed.len(), 2);
    tokio::time::sleep(LEASE).await;

    let started = tokio::time::Instant::now();
    let server = Server::start_on(NodeConfig::default(), Arc::new(store.seat())).await;
    let [kept, lost] = [claimed[0].hold, claimed[1].hold];
    let renew =
        json!({"worker": "curl", "holds": [{"job": kept.job.to_string(), "fence": kept.fence.get()}]});
    let (status, answer) = server.http("POST", "/v1/work/renew", &renew.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    while store.get(lost.job).await.expect("an answer").expect("it is there").state == State::Running {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(started.elapsed() >= LEASE, "taken back after {:?}", started.elapsed());
    assert_eq!(store.get(kept.job).await.expect("an answer").expect("it is there").state, State::Running);
    server.stop().await;
}
