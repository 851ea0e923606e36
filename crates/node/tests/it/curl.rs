//! `curl` alone can be a producer and a worker: claim, renew, progress, finish over plain HTTP/1.1.

use rpc::wire;
use serde_json::{Value, json};

use crate::support::Server;

async fn enqueue(server: &Server, job: Value) -> String {
    let (status, answer) = server.http("POST", "/v1/jobs", &job.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer["jobs"][0]["id"].as_str().expect("an id").to_owned()
}

async fn claim(server: &Server, worker: &str, wait_ms: u64) -> Value {
    let request = json!({"worker": worker, "queues": ["q"], "limit": 1, "wait_ms": wait_ms});
    let (status, answer) = server.http("POST", "/v1/work/claim", &request.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer["jobs"][0].clone()
}

async fn finish(server: &Server, worker: &str, job: &Value, outcome: &str) -> (u16, Value) {
    let report = json!({"job": job["job"], "fence": job["fence"], "outcome": outcome, "result": {"ok": true}, "error": "boom"});
    server.http("POST", "/v1/work/finish", &json!({"worker": worker, "reports": [report]}).to_string()).await
}

#[tokio::test]
async fn a_job_goes_through_its_whole_life() {
    let server = Server::start().await;
    let id = enqueue(&server, json!({"queue": "q", "kind": "mail", "payload": {"to": "ann"}, "priority": 3}))
        .await;
    let job = claim(&server, "curl-1", 0).await;
    assert_eq!(
        (&job["job"], &job["payload"], &job["attempt"]),
        (&json!(id), &json!({"to": "ann"}), &json!(1))
    );

    let hold = json!({"job": job["job"], "fence": job["fence"]});
    let (status, answer) = server
        .http("POST", "/v1/work/renew", &json!({"worker": "curl-1", "holds": [hold]}).to_string())
        .await;
    assert_eq!((status, answer["held"][0]["lease_ms"].as_i64()), (200, Some(20_000)));

    let note =
        json!({"job": job["job"], "fence": job["fence"], "note": {"percent": 40}, "checkpoint": "page 7"});
    let (status, answer) = server
        .http("POST", "/v1/work/progress", &json!({"worker": "curl-1", "notes": [note]}).to_string())
        .await;
    assert_eq!((status, &answer["notes"][0]["accepted"]), (200, &json!(true)));

    let (status, answer) = finish(&server, "curl-1", &job, "completed").await;
    assert_eq!((status, &answer["reports"][0]["state"]), (200, &json!("completed")));
    let (_, again) = finish(&server, "curl-1", &job, "completed").await;
    assert_eq!(again["reports"][0]["answer"], "already_done");

    let (_, shown) = server.http("GET", &format!("/v1/jobs/{id}"), "").await;
    assert_eq!(
        (&shown["state"], &shown["result"], &shown["progress"], &shown["checkpoint"]),
        (&json!("completed"), &json!({"ok": true}), &json!({"percent": 40}), &json!("page 7"))
    );
    server.stop().await;
}

/// The way through the server and back, once for each sort of payload: JSON, text, bytes.
#[tokio::test]
async fn what_went_in_by_one_door_comes_out_by_every_door() {
    let server = Server::start().await;
    let by_http = [
        (json!({"payload": {"base64": "MTIz"}}), &b"{\"base64\":\"MTIz\"}"[..]),
        (json!({"payload": "hello you", "content_type": "text/plain"}), b"hello you"),
        (json!({"payload": "hello you", "content_type": "application/json"}), b"\"hello you\""),
        (json!({"payload_base64": "/wAB", "content_type": "application/octet-stream"}), b"\xff\x00\x01"),
        (json!({"payload_base64": "MTIz", "content_type": "image/png"}), b"123"),
    ];
    for (fields, bytes) in by_http {
        let mut job = fields.clone();
        job["queue"] = json!("q");
        let by_http = enqueue(&server, job).await;
        let by_grpc = wire::NewJob {
            queue: "q".into(),
            payload: bytes.to_vec().into(),
            content_type: fields["content_type"].as_str().unwrap_or_default().into(),
            ..Default::default()
        };
        let request = wire::EnqueueRequest { jobs: vec![by_grpc], ..Default::default() };
        let by_grpc = server.client.enqueue(request).await.unwrap().jobs.remove(0).id;
        for id in [by_http, by_grpc] {
            let (_, shown) = server.http("GET", &format!("/v1/jobs/{id}"), "").await;
            assert_eq!(body(&shown, "payload"), body(&fields, "payload"), "{shown}");
            let kept = server.client.get(wire::GetJobRequest { id: id.clone() }).await.unwrap();
            assert_eq!(kept.payload, bytes, "by gRPC");
            let job = claim(&server, "curl-1", 0).await;
            assert_eq!((&job["job"], body(&job, "payload")), (&json!(id), body(&fields, "payload")));
            // The same value as result, checkpoint and progress note.
            let with = |mut object: Value, name: &str| {
                for end in ["", "_base64"] {
                    if let Some(value) = fields.get(format!("payload{end}")) {
                        object[format!("{name}{end}")] = value.clone();
                    }
                }
                object
            };
            let hold = json!({"job": job["job"], "fence": job["fence"]});
            let note = with(with(hold.clone(), "note"), "checkpoint");
            let notes = json!({"worker": "curl-1", "notes": [note]}).to_string();
            assert_eq!(server.http("POST", "/v1/work/progress", &notes).await.0, 200);
            let mut report = with(hold, "result");
            report["outcome"] = json!("completed");
            let reports = json!({"worker": "curl-1", "reports": [report]}).to_string();
            assert_eq!(server.http("POST", "/v1/work/finish", &reports).await.0, 200);
            let (_, shown) = server.http("GET", &format!("/v1/jobs/{id}"), "").await;
            // Nobody says of a result that it is bytes: it is shown as what it looks like.
            let looks = match bytes {
                b"123" => (Some(json!(123)), None),
                _ => body(&fields, "payload"),
            };
            for name in ["result", "progress", "checkpoint"] {
                assert_eq!(body(&shown, name), looks, "{name} of {shown}");
            }
        }
    }
    server.stop().await;
}

/// A value and the bytes of one name, as JSON has them.
fn body(object: &Value, name: &str) -> (Option<Value>, Option<Value>) {
    (object.get(name).cloned(), object.get(format!("{name}_base64")).cloned())
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_an_enqueue() {
    let server = Server::start().await;
    let (job, id) = tokio::join!(claim(&server, "curl-1", 30_000), async {
        // The claim is waiting as soon as the server counts a worker for the queue.
        while server.http("GET", "/v1/stats", "").await.1["workers"] == 0 {
            tokio::task::yield_now().await;
        }
        enqueue(&server, json!({"queue": "q", "payload": 1})).await
    });
    assert_eq!(job["job"], json!(id));
    server.stop().await;
}

#[tokio::test]
async fn the_same_worker_cannot_finish_with_the_fence_it_lost() {
    let server = Server::start().await;
    enqueue(&server, json!({"queue": "q", "payload": 1, "heartbeat_timeout_ms": 500})).await;
    let lost = claim(&server, "curl-1", 0).await;
    // Nobody renews: the lease ends, the job comes back, and the very same worker gets it again.
    let again = claim(&server, "curl-1", 30_000).await;
    assert_eq!(again["job"], lost["job"]);
    assert!(again["fence"].as_i64() > lost["fence"].as_i64(), "{again} after {lost}");
    assert_eq!(again["attempt"], 1, "a loss does not count as an attempt");

    let (status, problem) = finish(&server, "curl-1", &lost, "completed").await;
    assert_eq!((status, &problem["type"]), (409, &json!("stale_fence")), "{problem}");
    assert_eq!(server.metric("tenure_stale_writes_refused_total", "finish").await, 1.0);
    let (status, answer) = finish(&server, "curl-1", &again, "completed").await;
    assert_eq!((status, &answer["reports"][0]["answer"]), (200, &json!("done")));
    server.stop().await;
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_comes_back_after_its_lease() {
    let server = Server::start().await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1, "heartbeat_timeout_ms": 500})).await;
    // The first claimer never hears the answer and so never works, renews or reports.
    let unheard = claim(&server, "curl-1", 0).await;
    let rescued = claim(&server, "curl-2", 30_000).await;
    assert_eq!(rescued["job"], json!(id));
    assert!(rescued["fence"].as_i64() > unheard["fence"].as_i64());
    assert_eq!(server.metric("tenure_jobs_rescued_total", "").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn failures_retry_and_bury_and_come_back_by_retry() {
    let server = Server::start().await;
    let id =
        enqueue(&server, json!({"queue": "q", "payload": 1, "max_attempts": 2, "retry": "fixed:1:1"})).await;
    for attempt in 1..=2 {
        let job = claim(&server, "curl-1", 30_000).await;
        assert_eq!(job["attempt"], attempt);
        finish(&server, "curl-1", &job, "failed").await;
    }
    let (_, shown) = server.http("GET", &format!("/v1/jobs/{id}"), "").await;
    assert_eq!((&shown["state"], &shown["last_error"]), (&json!("dead"), &json!("boom")));

    let (status, _) = server.http("POST", &format!("/v1/jobs/{id}/retry"), "").await;
    assert_eq!(status, 200);
    let job = claim(&server, "curl-1", 0).await;
    assert_eq!((&job["job"], &job["attempt"]), (&json!(id), &json!(1)));
    let (status, problem) = server.http("POST", &format!("/v1/jobs/{id}/retry"), "").await;
    assert_eq!((status, &problem["type"]), (409, &json!("refused")));
    server.stop().await;
}

#[tokio::test]
async fn a_paused_queue_keeps_its_jobs_until_it_is_resumed() {
    let server = Server::start().await;
    server.http("POST", "/v1/queues/q/pause", "").await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    assert_eq!(claim(&server, "curl-1", 0).await, Value::Null);
    let (job, _) = tokio::join!(claim(&server, "curl-1", 30_000), async {
        while server.http("GET", "/v1/stats", "").await.1["workers"] == 0 {
            tokio::task::yield_now().await;
        }
        server.http("POST", "/v1/queues/q/resume", "").await
    });
    assert_eq!(job["job"], json!(id));
    server.stop().await;
}

#[tokio::test]
async fn a_cancelled_running_job_ends_as_cancelled_whatever_its_worker_reports() {
    let server = Server::start().await;
    let id = enqueue(&server, json!({"queue": "q", "payload": 1})).await;
    let job = claim(&server, "curl-1", 0).await;
    let (_, answer) = server.http("POST", &format!("/v1/jobs/{id}/cancel"), "").await;
    assert_eq!(answer["answer"], "asked");
    let hold = json!({"job": job["job"], "fence": job["fence"]});
    let renew = json!({"worker": "curl-1", "holds": [hold]}).to_string();
    let (_, answer) = server.http("POST", "/v1/work/renew", &renew).await;
    assert_eq!(answer["stops"][0]["reason"], "cancelled");
    let (_, answer) = finish(&server, "curl-1", &job, "completed").await;
    assert_eq!(answer["reports"][0]["state"], "cancelled");
    server.stop().await;
}
