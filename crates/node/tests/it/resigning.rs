//! A server that is told to stop lets others have its workers at once, and is the first to believe that they are not its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::SystemClock;
use node::NodeConfig;
use serde_json::json;
use store::{JobStore as _, MemoryStore, ServerInfo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::gated::Gated;
use crate::support::Server;

/// A request that is under way until the connection is closed: the server waits for the rest of its body.
async fn unfinished_request(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("the server listens");
    let head =
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.expect("it asks for the body");
    stream
}

#[tokio::test]
async fn workers_do_not_wait_until_all_connections_are_closed() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let server = Server::start_on(NodeConfig::default(), Arc::new(store.seat())).await;
    let slow = unfinished_request(&server).await;
    let info = ServerInfo { name: "other".to_owned(), address: String::new() };
    let other = store.found(info).await.expect("a registry");
    let stopping = tokio::time::Instant::now();
    server.begin_stop();
    loop {
        let peers = store.beat(other).await.expect("the store answers").expect("it is there");
        if peers.iter().any(|peer| peer.resigned) {
            break;
        }
        assert!(stopping.elapsed() < NodeConfig::default().drain_grace / 2, "it waits for the connection");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(slow);
    server.stop().await;
}

#[tokio::test]
async fn whoever_resigns_believes_it_first() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated { resignations: Semaphore::new(0), ..Gated::on(store) });
    let server = Server::start_on(NodeConfig::default(), gated.clone()).await;
    let path = "/v1/workers/ann/heartbeat";
    let first = json!({"nonce": 1, "profile": {"queues": ["q"]}}).to_string();
    let ack = loop {
        let (status, answer) = server.http("POST", path, &first).await;
        if status == 200 {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(ack["exclusive_hold"], true, "{ack}");
    server.begin_stop();
    while gated.resigning.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // As soon as the store hears it, others may take over: nothing exclusive may live on our word then.
    let beat = json!({"nonce": 1, "token": ack["token"]}).to_string();
    let (status, ack) = server.http("POST", path, &beat).await;
    assert_eq!(status, 200, "{ack}");
    assert_ne!(ack["exclusive_hold"], true, "{ack}");
    gated.resignations.add_permits(1);
    server.stop().await;
}

#[tokio::test]
async fn the_last_life_is_buried_beside_the_beats() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated { resignations: Semaphore::new(0), ..Gated::on(store.seat()) });
    let (server, last) = Server::start_again_on(NodeConfig::default(), gated.clone()).await;
    while gated.resigning.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The store is slow to take note; meanwhile the server says that it lives, and takes over by itself.
    let seen = async {
        loop {
            let (status, list) = server.http("GET", "/v1/servers", "").await;
            if status == 200 && list["servers"].as_array().is_some_and(|list| list.len() == 1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), seen).await.expect("its beats are committed");
    assert_eq!(store.beat(last).await.expect("an answer"), None, "nothing is left of the last life");
    gated.resignations.add_permits(2);
    server.stop().await;
}
