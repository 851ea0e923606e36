//! Bodies: malformed, too slow, and more of them than there is room for.

use std::time::Duration;

use axum::body::Body;
use node::{DoorConfig, NodeConfig};

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
    // A session is open for as long as it likes, and answered when it says something wrong at last.
    let (say, said) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(said));
    let address = server.address();
    let session = tokio::spawn(async move { raw::grpc(address, "/tenure.v1.Work/Session", body).await });
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!session.is_finished());
    say.send(Ok(raw::message(b""))).await.expect("the session is open");
    let called = session.await.expect("no panic").expect("an answer");
    assert_eq!(called.grpc, 3, "{}", called.message);
    assert!(called.message.contains("must carry a hello"), "{}", called.message);
    server.stop().await;
}
