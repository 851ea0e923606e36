//! Connections: more than there are places for, idle ones, and clients that read nothing.

use std::time::{Duration, Instant};

use node::{DoorConfig, NodeConfig};
use rpc::wire;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::raw;
use crate::support::Server;

async fn server(door: DoorConfig) -> Server {
    Server::start_with(NodeConfig { door, ..NodeConfig::default() }).await
}

/// The beginning of HTTP/2, with no settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// An HTTP/2 connection that says no more than hello, and what the server says first.
async fn hello(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("the server listens");
    stream.write_all(PREFACE).await.expect("sent");
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.expect("the settings of the server");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.expect("all of them");
    stream
}

/// Waits until the server closes this HTTP/2 connection. Answers its pings meanwhile, so that it is not taken for dead.
async fn closed(mut stream: TcpStream) {
    let told = async {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut rest = vec![0; length];
            if stream.read_exact(&mut rest).await.is_err() {
                break;
            }
            if head[3..5] == [6, 0] {
                head[4] = 1;
                let _ = stream.write_all(&[&head[..], &rest].concat()).await;
            }
        }
    };
    tokio::time::timeout(raw::PATIENCE, told).await.expect("the server closes it");
}

#[tokio::test]
async fn a_crowd_of_idle_connections_keeps_nobody_out() {
    let server = server(DoorConfig { connections_max: 80, ..DoorConfig::default() }).await;
    let session = server.client.stats().await;
    session.expect("the first client is served");
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address()).await.expect("the backlog takes it");
        let _ = stream.write_all(PREFACE).await;
        crowd.push(stream);
        if crowd.len() % 20 == 0 {
            assert_eq!(server.http("GET", "/healthz", "").await.0, 200, "with {}", crowd.len());
        }
    }
    server.client.stats().await.expect("the first client is served, over another connection if need be");
    closed(crowd.swap_remove(0)).await;
    server.stop().await;
}

#[tokio::test]
async fn an_address_whose_connections_are_all_in_use_gets_no_more_until_one_ends() {
    let door = DoorConfig { connections_per_address: Some(3), ..DoorConfig::default() };
    let server = server(door).await;
    // Each is in the middle of a request, which the server says by asking for the body.
    let upload =
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address()).await.expect("the server listens");
        stream.write_all(upload.as_bytes()).await.expect("sent");
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).await.expect("the server asks for the body");
        held.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(server.http("GET", "/healthz", "").await.0, 0, "closed without an answer");
    }
    held.pop();
    while server.http("GET", "/healthz", "").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    assert!(server.metric("tenure_connections_refused_total", "").await >= 3.0);
    drop(held);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_ended_well_and_one_in_use_is_not() {
    let door = DoorConfig { idle_timeout: Duration::from_millis(200), ..DoorConfig::default() };
    let server = server(door).await;
    server.client.stats().await.expect("served");
    let mut watched = server.client.watch(wire::WatchRequest::default()).await.expect("served");
    let idle = hello(&server).await;
    let begun = Instant::now();
    closed(idle).await;
    assert!(begun.elapsed() >= Duration::from_millis(150), "it had its time: {:?}", begun.elapsed());
    // The SDK's connection carries the watch, and goes on.
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    server
        .client
        .enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() })
        .await
        .expect("served");
    watched.next().await.expect("the stream is open");
    drop(watched);
    // Now it is idle too; whatever becomes of it, calls are served.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.client.stats().await.expect("served over another connection");
    }
    server.stop().await;
}

/// Jobs whose list is an answer of some megabytes.
async fn fill(server: &Server) {
    let payload = bytes::Bytes::from(format!("\"{}\"", "x".repeat(1_000_000)));
    let job = wire::NewJob { queue: "q".to_owned(), payload, ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job; 3], ..Default::default() };
    server.client.enqueue(request).await.expect("accepted");
}

/// `GET /v1/jobs` over HTTP/2 as stream 1, by a client that grants no more room than everybody has.
fn list_request() -> Vec<u8> {
    // Headers by number (GET, http), then path and authority as text.
    let block = [&[0x82, 0x86, 0x04, 8][..], b"/v1/jobs", &[0x01, 9], b"localhost"].concat();
    [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat()
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_and_others_are_served() {
    let door = DoorConfig { stalled_timeout: Duration::from_millis(500), ..DoorConfig::default() };
    let server = server(door).await;
    fill(&server).await;
    let mut closed_window = hello(&server).await;
    closed_window.write_all(&list_request()).await.expect("sent");
    let mut full_socket = TcpStream::connect(server.address()).await.expect("the server listens");
    let request = "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(40);
    full_socket.write_all(request.as_bytes()).await.expect("sent");
    while server.metric("tenure_connections_cut_total", "").await < 2.0 {
        let (status, listed) = server.http("GET", "/v1/jobs", "").await;
        assert_eq!((status, listed["jobs"].as_array().map(Vec::len)), (200, Some(3)), "others read it");
    }
    closed(closed_window).await;
    let mut taken = Vec::new();
    let _ = full_socket.read_to_end(&mut taken).await;
    assert!(taken.len() < 100_000_000, "it was cut before it had all its answers: {} bytes", taken.len());
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_floods_with_pings_is_hung_up_and_one_that_pings_is_not() {
    let server = server(DoorConfig::default()).await;
    let ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678";
    let mut polite = hello(&server).await;
    polite.write_all(&ping.repeat(1_000)).await.expect("taken");
    let (mut hear, mut say) = hello(&server).await.into_split();
    let listening = tokio::spawn(async move {
        let mut answers = Vec::new();
        let _ = hear.read_to_end(&mut answers).await;
        answers.len() / ping.len()
    });
    let pings = 100_000;
    for _ in 0..pings / 1_000 {
        let _ = say.write_all(&ping.repeat(1_000)).await;
    }
    let answered = tokio::time::timeout(raw::PATIENCE, listening).await.expect("the server hangs up");
    let answered = answered.expect("no panic");
    assert!(answered < pings, "all of them were answered");
    polite.write_all(ping).await.expect("the other is still there");
    let mut answers = vec![0; 1_001 * 17];
    polite.read_exact(&mut answers).await.expect("its pings are answered");
    server.stop().await;
}
