//! Bodies: malformed, too slow, and more of them than there is room for.

use std::time::Duration;

use axum::body::Body;
use node::{DoorConfig, NodeConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::raw;
use crate::support::Server;

#[tokio::test]
async fn a_message_that_cannot_be_read_is_the_clients_mistake() {
    let server = Server::start().await;
    let cut_short = raw::message(&[0x0a, 200, 1]);
    for (why, body) in [
        ("no field ends", raw::message(&[0xff; 4])),
        ("a string that is none", raw::message(b"\x0a\x02\xc3\x28")),
        ("cut short", cut_short.slice(..cut_short.len() - 1)),
        ("no message", bytes::Bytes::new()),
        ("compressed, and nothing says how", [&[1, 0, 0, 0, 1][..], b"x"].concat().into()),
        ("a flag that is none", [&[7, 0, 0, 0, 1][..], b"x"].concat().into()),
    ] {
        for method in ["Jobs/Enqueue", "Jobs/Get", "Queues/Set", "Work/Session", "Jobs/Submit"] {
            let path = format!("/tenure.v1.{method}");
            let called =
                raw::grpc(server.address(), &path, Body::from(body.clone())).await.expect("an answer");
            assert_eq!(called.grpc, 3, "{method}, {why}: {}", called.message);
        }
    }
    let large = [&[0][..], &u32::MAX.to_be_bytes(), b"x"].concat();
    let called = raw::grpc(server.address(), "/tenure.v1.Jobs/Enqueue", Body::from(large)).await;
    let called = called.expect("an answer");
    assert_eq!(called.grpc, 11, "{}", called.message);
    assert!(called.message.contains("the limit is: 16777216 bytes"), "{}", called.message);
    server.client.stats().await.expect("the server goes on");
    server.stop().await;
}

#[tokio::test]
async fn a_message_that_never_ends_is_given_up_and_a_stream_is_not() {
    let door = DoorConfig { message_timeout: Duration::from_millis(200), ..DoorConfig::default() };
    let server = Server::start_with(NodeConfig { door, ..NodeConfig::default() }).await;
    let begun = raw::message(&[0; 100]).slice(..50);
    let started = std::time::Instant::now();
    for method in ["Jobs/Enqueue", "Workers/Heartbeat", "Jobs/Watch", "Nodes/Watch"] {
        let path = format!("/tenure.v1.{method}");
        let called = raw::grpc(server.address(), &path, raw::endless(begun.clone()));
        let called = tokio::time::timeout(raw::PATIENCE, called).await.expect("it is given up");
        let called = called.expect("an answer");
        assert_eq!(called.grpc, 4, "{method}: {}", called.message);
        assert!(called.message.contains("did not arrive within 200ms"), "{}", called.message);
    }
    assert!(started.elapsed() >= Duration::from_millis(800), "each had its time");
    // A session must say its first word in time, and then may be silent for as long as it likes.
    let (say, said) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(said));
    let address = server.address();
    let session = tokio::spawn(async move { raw::grpc(address, "/tenure.v1.Work/Session", body).await });
    say.send(Ok(raw::message(&hello()))).await.expect("the session is open");
    while server.metric("tenure_sessions", "").await == 0.0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!session.is_finished(), "silence between messages is fine");
    say.send(Ok(begun)).await.expect("the session is open");
    let ended = tokio::time::timeout(raw::PATIENCE, session).await.expect("half a message is given up");
    ended.expect("no panic").expect("an answer");
    let silent = raw::grpc(address, "/tenure.v1.Work/Session", raw::endless(bytes::Bytes::new()));
    let silent = tokio::time::timeout(raw::PATIENCE, silent).await.expect("so is one without a first word");
    let silent = silent.expect("an answer");
    assert!(silent.message.contains("did not arrive within 200ms"), "{}", silent.message);
    server.stop().await;
}

/// WorkerFrame { hello: Hello { worker: "w-1", queues: ["q"], nonce: 1 } }.
fn hello() -> Vec<u8> {
    let hello = b"\x0a\x03w-1\x12\x01q\x30\x01";
    [&[0x0a, hello.len() as u8], &hello[..]].concat()
}

/// A server whose budget for bodies is as small as it may be, and large bodies that leave little of it.
async fn with_little_room() -> (Server, Vec<TcpStream>) {
    let door = DoorConfig {
        inflight_bytes_max: DoorConfig::INFLIGHT_BYTES_LEAST,
        idle_timeout: Duration::from_secs(2),
        ..DoorConfig::default()
    };
    let server = Server::start_with(NodeConfig { door, ..NodeConfig::default() }).await;
    // An eighth is kept for small ones.
    let room = DoorConfig::INFLIGHT_BYTES_LEAST / 8 * 7;
    let part = 15 << 20;
    let mut uploads = Vec::new();
    for bytes in [part, part, part, room - 3 * part - 10_000] {
        let mut stream = TcpStream::connect(server.address()).await.expect("the server listens");
        let length = bytes + 1;
        let head = format!("POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&vec![b' '; bytes]).await.expect("sent");
        uploads.push(stream);
    }
    while server.metric("tenure_inflight_bytes", "").await < (room - 10_000) as f64 {
        tokio::task::yield_now().await;
    }
    (server, uploads)
}

#[tokio::test]
async fn bodies_beyond_the_budget_wait_outside_and_small_ones_pass() {
    let (server, uploads) = with_little_room().await;
    let large = format!("{{\"queue\":\"q\",\"payload\":\"{}\"}}", "x".repeat(200_000));
    let (status, text) = server.http("POST", "/v1/jobs", &large).await;
    assert_eq!(status, 503, "{text}");
    assert!(text["detail"].as_str().unwrap_or_default().contains("--max-inflight-bytes"), "{text}");
    assert_eq!(text["retry_after_ms"], 1_000);
    let message = [&[0x0a, 0xc0, 0x9a, 0x0c][..], &vec![b'x'; 200_000]].concat();
    let called = raw::grpc(server.address(), "/tenure.v1.Jobs/Enqueue", Body::from(raw::message(&message)));
    let called = called.await.expect("an answer");
    assert_eq!(called.grpc, 14, "{}", called.message);

    let small = format!("{{\"queue\":\"q\",\"payload\":\"{}\"}}", "x".repeat(20_000));
    assert_eq!(server.http("POST", "/v1/jobs", &small).await.0, 200);
    server.client.stats().await.expect("calls without a body are served");
    let beat = "{\"nonce\": 1, \"profile\": {\"queues\": [\"q\"]}}";
    let (status, answer) = server.http("POST", "/v1/workers/w-1/heartbeat", beat).await;
    assert_eq!(status, 200, "{answer}");

    drop(uploads);
    while server.http("POST", "/v1/jobs", &large).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
