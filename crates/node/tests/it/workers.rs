//! Worker leases over the wire, by heartbeats without a stream: every answer, and what bad input gets.

use std::time::Duration;

use node::NodeConfig;
use rpc::wire;
use rpc::wire::workers_client::WorkersClient;
use serde_json::{Value, json};

use crate::support::Server;

/// A worker that speaks HTTP, as plainly as can be.
pub(crate) struct Plain {
    key: &'static str,
    nonce: u64,
    token: String,
    change: u64,
    lease_ms: i64,
}

impl Plain {
    pub(crate) fn new(key: &'static str) -> Plain {
        Plain { key, nonce: 7, token: String::new(), change: 0, lease_ms: 20_000 }
    }

    /// Sends a heartbeat with these extra fields; takes the token if there is one.
    pub(crate) async fn beat(&mut self, server: &Server, extra: Value) -> (u16, Value) {
        let mut body = json!({
            "nonce": self.nonce, "token": self.token, "lease_ms": self.lease_ms, "change": self.change,
            "profile": {"queues": ["q"], "slots": 4},
        });
        for (name, value) in extra.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let path = format!("/v1/workers/{}/heartbeat", self.key);
        let (status, answer) = server.http("POST", &path, &body.to_string()).await;
        if let Some(token) = answer["token"].as_str().filter(|_| status == 200) {
            self.token = token.to_owned();
        }
        (status, answer)
    }

    pub(crate) async fn ok(&mut self, server: &Server, extra: Value) -> Value {
        let (status, answer) = self.beat(server, extra).await;
        assert_eq!((status, &answer["answer"]), (200, &json!("ok")), "{answer}");
        answer
    }

    async fn refused(&mut self, server: &Server, extra: Value) -> Value {
        let (status, problem) = self.beat(server, extra).await;
        assert_eq!(status, 409, "{problem}");
        problem
    }

    /// Binds a claimed job: the change and the digest of it as the only one held.
    fn bind(&mut self, job: &Value) -> Value {
        self.bind_all(&[job])
    }

    /// Binds claimed jobs, which are all that is held.
    pub(crate) fn bind_all(&mut self, jobs: &[&Value]) -> Value {
        self.change += 1;
        let digest: lease::digest::Digest = jobs.iter().map(|job| hold(job)).collect();
        let bind = |job: &&Value| json!({"job": job["job"], "fence": job["fence"], "change": self.change});
        json!({
            "binds": jobs.iter().map(bind).collect::<Vec<_>>(),
            "change": self.change, "digest_count": digest.count(), "digest_hash": digest.hash(),
        })
    }
}

/// Which claim of which job this is.
pub(crate) fn hold(job: &Value) -> model::Hold {
    model::Hold {
        job: job["job"].as_str().expect("an id").parse().expect("an id"),
        fence: model::Fence::new(job["fence"].as_i64().expect("a fence")),
    }
}

pub(crate) async fn enqueue(server: &Server, job: Value) -> String {
    let (status, answer) = server.http("POST", "/v1/jobs", &job.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer["jobs"][0]["id"].as_str().expect("an id").to_owned()
}

pub(crate) async fn claim(server: &Server, worker: &str, wait_ms: i64) -> Value {
    let body = json!({"worker": worker, "queues": ["q"], "wait_ms": wait_ms});
    let (status, answer) = server.http("POST", "/v1/work/claim", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer["jobs"][0].clone()
}

async fn shown(server: &Server, key: &str) -> Value {
    let (status, worker) = server.http("GET", &format!("/v1/workers/{key}"), "").await;
    assert_eq!(status, 200, "{worker}");
    worker
}

#[tokio::test]
async fn a_lost_answer_is_noticed_and_healed() {
    let server = Server::start().await;
    let mut worker = Plain::new("w1");
    worker.ok(&server, json!({})).await;
    let before = worker.token.clone();
    worker.ok(&server, json!({})).await;
    assert_ne!(worker.token, before, "a new token in every answer");

    // The answer before was lost, or the worker has forgotten everything: the current token comes with the refusal.
    for stale in [before.as_str(), "", "garbage", "ffff.1"] {
        let problem = worker.refused(&server, json!({"token": stale})).await;
        assert_eq!(problem["type"], "token_mismatch", "{problem}");
        assert_eq!(problem["token"], json!(worker.token), "with token {stale:?}");
    }
    worker.ok(&server, json!({})).await;
    assert_eq!(server.metric("tenure_heartbeats_total", "token_mismatch").await, 4.0);
    server.stop().await;
}

#[tokio::test]
async fn a_key_nobody_knows_and_a_key_of_another_process_are_dead() {
    let server = Server::start().await;
    let mut stranger = Plain::new("stranger");
    for token in ["1.1", "garbage"] {
        let problem = stranger.refused(&server, json!({"token": token})).await;
        assert_eq!(problem["type"], "worker_inactive");
        assert!(problem["detail"].as_str().expect("words").contains("register under a new key"), "{problem}");
    }
    let mut first = Plain::new("shared");
    first.ok(&server, json!({})).await;
    let mut second = Plain { nonce: 8, token: first.token.clone(), ..Plain::new("shared") };
    let problem = second.refused(&server, json!({})).await;
    assert!(problem["detail"].as_str().expect("words").contains("another process"), "{problem}");
    first.ok(&server, json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn leases_are_clamped_and_nonsense_is_refused_in_words() {
    let server = Server::start().await;
    for (key, asked, granted) in [("a", 0, 20_000), ("b", 1, 500), ("c", 315_360_000_000, 3_600_000)] {
        let mut worker = Plain { lease_ms: asked, ..Plain::new(key) };
        assert_eq!(worker.ok(&server, json!({})).await["lease_ms"], json!(granted), "asked for {asked}");
    }
    let mut worker = Plain::new("d");
    for (extra, words) in [
        (json!({"lease_ms": -1}), "lease_ms is -1"),
        (json!({"free_slots": 1_000_000}), "offer at most 100000"),
        (json!({"binds": [{"job": "x", "fence": 1, "change": 1}]}), "not a UUID"),
        (json!({"profile": {"queues": []}}), "at least one queue"),
        (json!({"sorcery": 1}), "unknown field"),
    ] {
        let (status, problem) = worker.beat(&server, extra).await;
        assert_eq!(status, 400, "{problem}");
        assert!(problem["detail"].as_str().expect("words").contains(words), "{problem}");
    }
    let (status, problem) = server.http("GET", "/v1/workers/nobody", "").await;
    assert_eq!((status, &problem["type"]), (404, &json!("not_found")));
    let (status, _) = server.http("GET", "/v1/workers?state=odd", "").await;
    assert_eq!(status, 400);
    server.stop().await;
}

#[tokio::test]
async fn a_silent_worker_is_declared_inactive_and_its_jobs_come_back_at_once() {
    let server = Server::start().await;
    let mut silent = Plain { lease_ms: 500, ..Plain::new("silent") };
    silent.ok(&server, json!({})).await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    let job = claim(&server, "silent", 0).await;
    let bind = silent.bind(&job);
    assert_eq!(silent.ok(&server, bind).await["resync"], json!(false));
    assert_eq!(shown(&server, "silent").await["bound"], 1);

    // The row's own lease is 20 s; the worker's is half a second.
    let rescued = claim(&server, "heir", 30_000).await;
    assert_eq!((&rescued["job"], &rescued["attempt"]), (&json!(id), &json!(1)));
    assert!(rescued["fence"].as_i64() > job["fence"].as_i64());
    let worker = shown(&server, "silent").await;
    assert_eq!((&worker["state"], &worker["lease_left_ms"]), (&json!("inactive"), &json!(0)));
    assert!(worker["why"].as_str().expect("words").contains("ran out"), "{worker}");
    let problem = silent.refused(&server, json!({})).await;
    assert_eq!(problem["type"], "worker_inactive");
    silent.token.clear();
    assert_eq!(silent.refused(&server, json!({})).await["type"], "worker_inactive", "a dead key stays dead");
    server.stop().await;
}

#[tokio::test]
async fn a_worker_that_left_stays_gone_and_its_jobs_move_on() {
    let server = Server::start().await;
    let mut leaver = Plain::new("leaver");
    leaver.ok(&server, json!({})).await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    let job = claim(&server, "leaver", 0).await;
    let bind = leaver.bind(&job);
    leaver.ok(&server, bind).await;

    // With jobs that still run, a leave is silence; by another process it is nothing.
    for (nonce, all_stopped) in [(7, false), (8, true)] {
        let body = json!({"nonce": nonce, "all_stopped": all_stopped});
        server.http("POST", "/v1/workers/leaver/leave", &body.to_string()).await;
        assert_eq!(shown(&server, "leaver").await["state"], "active");
    }
    let body = json!({"nonce": 7, "all_stopped": true});
    let (status, _) = server.http("POST", "/v1/workers/leaver/leave", &body.to_string()).await;
    assert_eq!(status, 200);
    assert_eq!(shown(&server, "leaver").await["state"], "left");
    let again = claim(&server, "heir", 0).await;
    assert_eq!((&again["job"], &again["attempt"]), (&json!(id), &json!(1)), "at once, and uncounted");
    let problem = leaver.refused(&server, json!({})).await;
    assert!(problem["detail"].as_str().expect("words").contains("it left"), "{problem}");
    let body = json!({"worker": "leaver", "queues": ["q"], "wait_ms": 30_000}).to_string();
    let (status, problem) = server.http("POST", "/v1/work/claim", &body).await;
    assert_eq!((status, &problem["type"]), (409, &json!("worker_inactive")), "a dead key claims nothing");
    server.stop().await;
}

#[tokio::test]
async fn jobs_it_does_not_hold_are_put_on_its_stop_list() {
    let server = Server::start().await;
    let mut thief = Plain::new("thief");
    thief.ok(&server, json!({})).await;
    enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    let others = claim(&server, "owner", 0).await;
    let bind = thief.bind(&others);
    let mut answer = thief.ok(&server, bind.clone()).await;
    let digest = json!({"digest_count": bind["digest_count"], "digest_hash": bind["digest_hash"]});
    // The row is asked first; the order to stop comes with one of the next answers and is repeated until it is heeded.
    while answer["stops"] == json!([]) {
        answer = thief.ok(&server, digest.clone()).await;
    }
    for _ in 0..2 {
        assert_eq!(
            answer["stops"],
            json!([{"job": others["job"], "fence": others["fence"], "reason": "lost"}])
        );
        answer = thief.ok(&server, digest.clone()).await;
    }
    thief.change += 1;
    let unbind =
        json!({"unbinds": [{"job": others["job"], "fence": others["fence"], "change": thief.change}]});
    assert_eq!(thief.ok(&server, unbind).await["stops"], json!([]));
    let (status, _) = server.http("GET", "/v1/workers", "").await;
    assert_eq!(status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_hundred_thousand_changes_are_answered_and_more_are_refused() {
    let server = Server::start().await;
    let mut healthy = Plain::new("healthy");
    healthy.ok(&server, json!({})).await;
    let mut client = WorkersClient::connect(server.url())
        .await
        .expect("the server listens")
        .max_encoding_message_size(32 << 20);
    let profile = wire::Hello { queues: vec!["q".to_owned()], ..Default::default() };
    let beat = |token: String, count: u64| wire::Heartbeat {
        worker: "flood".to_owned(),
        nonce: 1,
        token,
        binds: (1..=count)
            .map(|change| wire::Change {
                job: format!("00000000-0000-7000-8000-{change:012x}"),
                fence: 1,
                change,
            })
            .collect(),
        change: count,
        profile: Some(profile.clone()),
        ..Default::default()
    };
    let first = client.heartbeat(beat(String::new(), 0)).await.expect("registered").into_inner();
    let refused = client.heartbeat(beat(first.token.clone(), 100_001)).await.expect_err("too many");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("at most 100000"), "{}", refused.message());
    let answer = client.heartbeat(beat(first.token, 100_000)).await.expect("answered").into_inner();
    assert_eq!(answer.answer, "ok");
    healthy.ok(&server, json!({})).await;
    // None of them exists: all end on the stop list, a bounded part of it in each answer.
    let mut answer = answer;
    while answer.stops.is_empty() {
        let next = wire::Heartbeat { change: 100_000, ..beat(answer.token.clone(), 0) };
        answer = client.heartbeat(next).await.expect("answered").into_inner();
        healthy.ok(&server, json!({})).await;
    }
    assert!(answer.stops.len() <= 1_000, "{} stops in one answer", answer.stops.len());
    healthy.ok(&server, json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn a_flood_of_registrations_waits_and_known_workers_do_not() {
    let config = NodeConfig { registrations_per_second: 50, ..NodeConfig::default() };
    let server = Server::start_with(config).await;
    let mut known = Plain::new("known");
    known.ok(&server, json!({})).await;
    let client = WorkersClient::connect(server.url()).await.expect("the server listens");
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..1_000 {
        let mut client = client.clone();
        calls.spawn(async move {
            let profile = wire::Hello { queues: vec!["q".to_owned()], ..Default::default() };
            let worker = format!("flood-{number}");
            client.heartbeat(wire::Heartbeat { worker, profile: Some(profile), ..Default::default() }).await
        });
    }
    let (mut taken, mut put_off) = (0, 0);
    while let Some(call) = calls.join_next().await {
        match call.expect("no panic") {
            Ok(_) => taken += 1,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
                assert!(status.metadata().contains_key("tenure-retry-after-ms"), "{status}");
                put_off += 1;
            }
        }
        if (taken + put_off) % 100 == 0 {
            known.ok(&server, json!({})).await;
        }
    }
    assert!(taken >= 49 && put_off > 0, "{taken} taken, {put_off} put off");
    server.stop().await;
}

#[tokio::test]
async fn a_wedged_handler_of_a_live_worker_loses_its_job() {
    let server = Server::start().await;
    let mut chatty = Plain::new("chatty");
    chatty.ok(&server, json!({})).await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1, "heartbeat_timeout_ms": 500})).await;
    let job = claim(&server, "chatty", 0).await;
    let bind = chatty.bind(&job);
    chatty.ok(&server, bind.clone()).await;
    let digest = json!({"digest_count": bind["digest_count"], "digest_hash": bind["digest_hash"]});

    // It beats as a worker all the time, but nobody says that the job gets on.
    let beating = async {
        loop {
            chatty.ok(&server, digest.clone()).await;
        }
    };
    let rescued = tokio::select! {
        rescued = claim(&server, "heir", 30_000) => rescued,
        () = beating => unreachable!("it beats for ever"),
    };
    assert_eq!(rescued["job"], json!(id));
    // Its last heartbeat was cut off before the answer, as happens.
    if let (409, problem) = chatty.beat(&server, digest.clone()).await {
        chatty.token = problem["token"].as_str().expect("the current token").to_owned();
    }
    let answer = chatty.ok(&server, digest).await;
    assert_eq!(answer["stops"][0]["job"], json!(id), "and its worker is told: {answer}");
    assert_eq!(shown(&server, "chatty").await["state"], "active");
    server.stop().await;
}

#[tokio::test]
async fn drain_and_kick_reach_the_worker() {
    let server = Server::start().await;
    let mut worker = Plain::new("w");
    assert_eq!(worker.ok(&server, json!({})).await["drain"], json!(false));
    let (status, drained) = server.http("POST", "/v1/workers/w/drain", "").await;
    assert_eq!((status, &drained["draining"]), (200, &json!(true)), "{drained}");
    assert_eq!(worker.ok(&server, json!({})).await["drain"], json!(true));

    enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    claim(&server, "w", 0).await;
    let (status, kicked) = server.http("POST", "/v1/workers/w/kick", "").await;
    assert_eq!((status, &kicked["state"]), (200, &json!("inactive")), "{kicked}");
    assert_eq!(claim(&server, "heir", 0).await["attempt"], 1, "its job is offered at once");
    assert_eq!(worker.refused(&server, json!({})).await["type"], "worker_inactive");
    let (status, problem) = server.http("POST", "/v1/workers/w/kick", "").await;
    assert_eq!((status, &problem["type"]), (409, &json!("refused")), "{problem}");
    server.stop().await;
}

#[tokio::test]
async fn a_restarted_server_knows_its_workers_and_takes_nothing_from_them() {
    let server = Server::start().await;
    let mut worker = Plain { lease_ms: 60_000, ..Plain::new("steady") };
    worker.ok(&server, json!({})).await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    let job = claim(&server, "steady", 0).await;
    let bind = worker.bind(&job);
    worker.ok(&server, bind.clone()).await;

    let server = server.restart_with(NodeConfig::default()).await;
    let known = shown(&server, "steady").await;
    assert_eq!((&known["state"], &known["lease_ms"]), (&json!("unsynced"), &json!(60_000)), "{known}");
    let problem = worker.refused(&server, json!({})).await;
    assert_eq!(problem["type"], "token_mismatch", "a token of the life before");
    worker.token = problem["token"].as_str().expect("a token").to_owned();
    let full = json!({
        "full": {"holds": [{"job": job["job"], "fence": job["fence"]}]},
        "digest_count": bind["digest_count"], "digest_hash": bind["digest_hash"],
    });
    worker.ok(&server, full).await;
    while shown(&server, "steady").await["state"] != "active" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(shown(&server, "steady").await["bound"], 1);
    let (_, held) = server.http("GET", &format!("/v1/jobs/{id}"), "").await;
    assert_eq!((&held["state"], &held["holder"]), (&json!("running"), &json!("steady")));
    server.stop().await;
}
