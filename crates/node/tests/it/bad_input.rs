//! Whatever comes in, the answer is one clear sentence, nothing is lost, and the server goes on.

use rpc::wire;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::Server;

#[tokio::test]
async fn each_bad_request_gets_its_sentence() {
    let server = Server::start().await;
    let job = |change: serde_json::Value| {
        let mut job = json!({"queue": "q", "payload": 1});
        job.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        job.to_string()
    };
    let big = "x".repeat(1 << 20);
    let table: Vec<(&str, &str, String, u16, &str)> = vec![
        ("POST", "/v1/jobs", job(json!({"payload": big})), 400, "at most 1048576 are allowed"),
        ("POST", "/v1/jobs", job(json!({"delay_ms": -5})), 400, "delay_ms is -5; it must not be negative"),
        ("POST", "/v1/jobs", job(json!({"delay_ms": 1, "run_at_ms": 1})), 400, "either run_at_ms or delay_ms"),
        ("POST", "/v1/jobs", job(json!({"heartbeat_timeout_ms": 1})), 400, "choose between 500ms and 86400s"),
        ("POST", "/v1/jobs", job(json!({"heartbeat_timeout_ms": 315_360_000_000i64})), 400, "choose between 500ms and 86400s"),
        ("POST", "/v1/jobs", job(json!({"unique_key": "k".repeat(10_000)})), 400, "at most 512 are allowed"),
        ("POST", "/v1/jobs", job(json!({"queue": "no spaces"})), 400, "queue name must not contain ' '"),
        ("POST", "/v1/jobs", job(json!({"queue": ""})), 400, "queue name must not be empty"),
        ("POST", "/v1/jobs", job(json!({"priority": 40_000})), 400, "between -32768 and 32767"),
        ("POST", "/v1/jobs", job(json!({"retry": "linear"})), 400, "exponential, fixed or quadratic"),
        ("POST", "/v1/jobs", job(json!({"id": "seven"})), 400, "is not a UUID"),
        ("POST", "/v1/jobs", job(json!({"colour": "red"})), 400, "unknown field `colour`"),
        ("POST", "/v1/jobs", "{\"jobs\": [{\"queue\": \"q\"}, {\"queue\": \"a b\"}]}".to_owned(), 400, "job 1: queue name"),
        ("POST", "/v1/jobs", "{".to_owned(), 400, "not the JSON expected here"),
        ("POST", "/v1/jobs", "\u{0}\u{1}".to_owned(), 400, "not the JSON expected here"),
        ("GET", "/v1/jobs/seven", String::new(), 400, "is not a UUID"),
        ("GET", "/v1/jobs/%ff%fe", String::new(), 400, "Invalid UTF-8"),
        ("GET", "/v1/jobs/0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f", String::new(), 404, "there is no job"),
        ("GET", "/v1/jobs?state=asleep", String::new(), 400, "is not one of scheduled"),
        ("GET", "/v1/jobs?colour=red", String::new(), 400, "colour"),
        ("POST", "/v1/jobs/cancel", "{\"ids\": []}".to_owned(), 400, "at least one job id"),
        ("POST", "/v1/jobs/retry", "{}".to_owned(), 400, "name job ids, a queue"),
        ("POST", "/v1/work/claim", json!({"worker": "w", "queues": []}).to_string(), 400, "at least one queue"),
        ("POST", "/v1/work/claim", json!({"worker": "", "queues": ["q"]}).to_string(), 400, "worker key must not be empty"),
        ("POST", "/v1/work/claim", json!({"worker": "w", "queues": ["q"], "wait_ms": 61_000}).to_string(), 400, "wait at most"),
        (
            "POST",
            "/v1/work/finish",
            json!({"worker": "w", "reports": [{"job": "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "fence": 1, "outcome": "great"}]}).to_string(),
            400,
            "is not one of completed",
        ),
        ("PUT", "/v1/queues/q", json!({"heartbeat_timeout_ms": 1}).to_string(), 400, "choose between"),
        ("PUT", "/v1/queues/q", json!({"max_attempts": 5_000}).to_string(), 400, "between 1 and 1000"),
        ("GET", "/nothing", String::new(), 404, "GET / lists"),
        ("DELETE", "/v1/jobs", String::new(), 405, "does not take this method"),
    ];
    for (method, path, body, status, sentence) in table {
        let (answered, problem) = server.http(method, path, &body).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(answered, status, "{method} {path} {body:.80}: {problem}");
        assert!(detail.contains(sentence), "{method} {path}: {detail:?} does not say {sentence:?}");
    }
    // Nothing of all that was enqueued, and the server still works.
    let (_, listed) = server.http("GET", "/v1/jobs", "").await;
    assert_eq!(listed["jobs"], json!([]));
    let (status, _) = server.http("POST", "/v1/jobs", &job(json!({}))).await;
    assert_eq!(status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_body_beyond_all_limits_is_cut_off() {
    let server = Server::start().await;
    let huge = format!("{{\"queue\": \"q\", \"payload\": \"{}\"}}", "x".repeat(40 << 20));
    let (status, _) = server.http("POST", "/v1/jobs", &huge).await;
    assert!(status == 413 || status == 0, "answered {status}");
    assert_eq!(server.http("GET", "/healthz", "").await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn garbage_on_the_port_is_survived() {
    let server = Server::start().await;
    for garbage in
        [&b"\x00\xff\x00\xff\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff", b"GET"]
    {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
        stream.write_all(garbage).await.expect("garbage can be sent");
        stream.shutdown().await.expect("and ended");
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    server.client.stats().await.expect("the server goes on");
    server.stop().await;
}

#[tokio::test]
async fn grpc_errors_carry_the_same_kinds() {
    let server = Server::start().await;
    let kind = |result: Result<wire::Job, worker::ClientError>| match result {
        Err(worker::ClientError::Api(error)) => error.kind,
        other => panic!("expected an error, got {other:?}"),
    };
    let get = |id: &str| server.client.get(wire::GetJobRequest { id: id.to_owned() });
    assert_eq!(kind(get("seven").await), model::ErrorKind::Invalid);
    assert_eq!(kind(get("0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f").await), model::ErrorKind::NotFound);
    server.stop().await;
}
