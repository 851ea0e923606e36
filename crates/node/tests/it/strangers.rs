//! What a web page can have its browser send does nothing here; what programs send works by every name that is ours.

use axum::body::Body;
use node::{DoorConfig, NodeConfig};
use serde_json::json;

use crate::raw;
use crate::support::Server;

const JOB: &str = "{\"queue\":\"q\",\"payload\":1}";

fn post(host: &str, headers: &str) -> String {
    let length = JOB.len();
    format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{JOB}"
    )
}

async fn enqueued(server: &Server) -> usize {
    let (_, listed) = server.http("GET", "/v1/jobs", "").await;
    listed["jobs"].as_array().expect("a list").len()
}

#[tokio::test]
async fn what_a_page_of_another_origin_sends_is_refused_and_does_nothing() {
    let server = Server::start().await;
    let here = server.address().to_string();
    for (headers, status, why) in [
        ("origin: http://evil.example\r\n", 403, "web pages of other origins"),
        ("origin: http://127.0.0.1:1\r\n", 403, "another port"),
        ("origin: null\r\n", 403, "web pages"),
        ("sec-fetch-site: cross-site\r\n", 403, "web pages"),
        ("sec-fetch-site: same-site\r\n", 403, "web pages"),
        ("content-type: text/plain\r\n", 415, "application/json"),
        ("content-type: multipart/form-data; boundary=x\r\n", 415, "application/json"),
        (
            "content-type: application/x-www-form-urlencoded\r\norigin: http://evil.example\r\n",
            403,
            "web pages",
        ),
    ] {
        let (answered, text) = raw::http(server.address(), &post(&here, headers)).await;
        assert_eq!(answered, status, "{headers}: {text}");
        assert!(text.contains(why) && text.contains("application/problem+json"), "{text}");
        assert!(!text.to_ascii_lowercase().contains("access-control-"), "{text}");
    }
    let preflight = format!(
        "OPTIONS /v1/jobs HTTP/1.1\r\nhost: {here}\r\nconnection: close\r\norigin: http://evil.example\r\n\
         access-control-request-method: PUT\r\n\r\n"
    );
    let (answered, text) = raw::http(server.address(), &preflight).await;
    assert_eq!(answered, 403, "{text}");
    assert!(!text.to_ascii_lowercase().contains("access-control-allow"), "{text}");
    assert_eq!(enqueued(&server).await, 0);
    assert_eq!(server.metric("tenure_requests_refused_total", "origin").await, 7.0);
    assert_eq!(server.metric("tenure_requests_refused_total", "content_type").await, 2.0);
    server.stop().await;
}

#[tokio::test]
async fn a_name_that_is_not_ours_reads_and_does_nothing() {
    let server = Server::start().await;
    let rebound = "evil.test:7117";
    let (status, text) = raw::http(server.address(), &post(rebound, "")).await;
    assert_eq!(status, 421, "{text}");
    assert!(text.contains("--allow-host evil.test") && !text.contains("owner"), "{text}");
    for request in [
        format!("GET /v1/jobs HTTP/1.1\r\nhost: {rebound}\r\nconnection: close\r\n\r\n"),
        format!("GET /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: {rebound}\r\nconnection: close\r\n\r\n"),
        "GET /v1/jobs HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
        "GET /v1/jobs HTTP/1.0\r\norigin: http://evil.test\r\n\r\n".to_owned(),
    ] {
        let (status, text) = raw::http(server.address(), &request).await;
        assert!([421, 400, 403].contains(&status) && !text.contains("\"jobs\""), "{request}: {text}");
    }
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    let stranger = raw::channel(server.address(), rebound).await;
    let called = raw::call(stranger, "/tenure.v1.Jobs/List", &grpc, Body::from(raw::message(b""))).await;
    let called = called.expect("an answer");
    assert_eq!((called.http.as_u16(), called.grpc), (421, 3), "{}", called.message);
    assert!(called.message.contains("--allow-host"), "{}", called.message);
    assert_eq!(enqueued(&server).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn grpc_is_only_what_no_browser_can_send() {
    let server = Server::start().await;
    let here = server.address().to_string();
    // SetQueueRequest { name: "q", exclusive: true } in text that a form could send, and as bytes.
    let pause = raw::message(b"\x0a\x01q\x10\x01");
    for (kind, status) in
        [("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("application/grpc", 400)]
    {
        let head = format!(
            "POST /tenure.v1.Queues/Set HTTP/1.1\r\nhost: {here}\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n{}",
            pause.len(),
            String::from_utf8_lossy(&pause)
        );
        let (answered, text) = raw::http(server.address(), &head).await;
        assert_eq!(answered, status, "{kind}: {text}");
        assert!(text.contains("gRPC") || text.contains("application/json"), "{text}");
    }
    for kind in ["text/plain", "application/grpc-web", "application/json"] {
        let channel = raw::channel(server.address(), &here).await;
        let body = Body::from(pause.clone());
        let called = raw::call(channel, "/tenure.v1.Queues/Set", &[("content-type", kind)], body).await;
        assert_eq!(called.expect("an answer").http.as_u16(), 415, "{kind}");
    }
    let (_, queues) = server.http("GET", "/v1/queues", "").await;
    assert_eq!(queues["queues"], json!([]), "none of it was executed");
    let called = raw::grpc(server.address(), "/tenure.v1.Queues/Set", Body::from(pause)).await;
    assert_eq!(called.expect("an answer").grpc, 0, "a client in order is served");
    server.stop().await;
}

#[tokio::test]
async fn programs_are_served_by_every_name_of_ours() {
    let door = DoorConfig { hosts: vec!["jobs.lan".to_owned()], ..DoorConfig::default() };
    let server = Server::start_with(NodeConfig { door, ..NodeConfig::default() }).await;
    let port = server.address().port();
    // As `curl -d` says it, as curl -H says it, and as a page that we served ourselves would.
    let same = format!("origin: http://127.0.0.1:{port}\r\nsec-fetch-site: same-origin\r\n");
    for headers in [
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/json\r\n",
        "",
        &same,
    ] {
        let (status, text) = raw::http(server.address(), &post(&format!("127.0.0.1:{port}"), headers)).await;
        assert_eq!(status, 200, "{headers}: {text}");
    }
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    for name in ["127.0.0.1", "localhost", "[::1]", "jobs.lan", "10.1.2.3"] {
        for host in [name.to_owned(), format!("{name}:{port}"), format!("{name}:8000")] {
            let (status, text) = raw::http(server.address(), &post(&host, "")).await;
            assert_eq!(status, 200, "{host}: {text}");
            let channel = raw::channel(server.address(), &host).await;
            let called =
                raw::call(channel, "/tenure.v1.Jobs/Stats", &grpc, Body::from(raw::message(b""))).await;
            assert_eq!(called.expect("an answer").grpc, 0, "{host}");
        }
    }
    let (status, _) = raw::http(server.address(), "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(status, 200, "HTTP/1.0 needs no host");
    server.stop().await;
}
