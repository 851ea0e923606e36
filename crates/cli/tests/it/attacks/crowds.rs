//! Connections by the thousand, bodies without end, and readers that do not read.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::honest::Honest;
use super::{memory, size};
use crate::support::Fleet;

/// The beginning of HTTP/2, with no settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// What bodies and answers on their way may take, in MiB.
const BUDGET: u64 = 64;

async fn fleet(flags: &[&str]) -> Fleet {
    Fleet::start(&[&["--max-inflight-bytes", "64MiB"], flags].concat()).await
}

async fn connect(fleet: &Fleet) -> TcpStream {
    TcpStream::connect(fleet.server.url.trim_start_matches("http://")).await.expect("the backlog takes it")
}

/// Answers pings until the server hangs up.
async fn answer_pings(mut stream: TcpStream, request: Vec<u8>) {
    let _ = stream.write_all(PREFACE).await;
    let _ = stream.write_all(&request).await;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let mut rest = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut rest).await.is_err() {
            return;
        }
        if head[3..5] == [6, 0] {
            head[4] = 1;
            let _ = stream.write_all(&[&head[..], &rest].concat()).await;
        }
    }
}

/// How much more memory there is than before, in MiB, and what became of the honest client.
async fn judge(what: &str, fleet: &Fleet, before: u64, honest: Honest) -> u64 {
    let grown = memory(fleet).saturating_sub(before) >> 20;
    let (served, waited) = honest.stop().await;
    println!("{what}: {grown} MiB more; honest client {served} times, worst {waited:?}");
    assert!(served > 0);
    grown
}

#[tokio::test]
async fn connections_that_only_answer_pings_keep_nobody_out() {
    let count = size(1_500, 10_300);
    let per_address = size(300, 9_984).to_string();
    let fleet = fleet(&["--connections-per-address", &per_address]).await;
    let before = memory(&fleet);
    let mut crowd = JoinSet::new();
    let honest = Honest::start(&fleet);
    for _ in 0..count {
        crowd.spawn(answer_pings(connect(&fleet).await, Vec::new()));
    }
    let open = async || fleet.metric("tenure_connections", "").await;
    // The figure is some seconds old; until it is there the crowd has all its places.
    while open().await < size(200, 9_000) as f64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let grown = judge(&format!("{count} idle connections"), &fleet, before, honest).await;
    assert!(grown < 400, "{grown} MiB more");
    crowd.shutdown().await;
}

#[tokio::test]
async fn bodies_without_end_take_no_more_than_the_budget() {
    let count = size(40, 200);
    let fleet = fleet(&[]).await;
    let before = memory(&fleet);
    let honest = Honest::start(&fleet);
    let mut crowd = JoinSet::new();
    for _ in 0..count {
        let mut stream = connect(&fleet).await;
        crowd.spawn(async move {
            let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            let sent = stream.write_all(&vec![b' '; 15 << 20]).await;
            // Whoever was refused has gone; the others stay.
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            (sent.is_ok(), String::from_utf8_lossy(&answer).contains("503"))
        });
    }
    // Those for whom there was no room are answered; the others wait to be given up.
    let mut refused = 0;
    while let Ok(Some(done)) = tokio::time::timeout(Duration::from_secs(20), crowd.join_next()).await {
        let (was_taken, was_refused) = done.expect("no panic");
        refused += usize::from(!was_taken || was_refused);
    }
    let grown = judge(&format!("{count} bodies of 15 MiB without end"), &fleet, before, honest).await;
    assert!(refused > count - 6, "{refused} refused");
    assert!(grown < 2 * BUDGET + 40, "{grown} MiB more");
    crowd.shutdown().await;
}

#[tokio::test]
async fn readers_that_do_not_read_take_no_more_than_the_budget() {
    let count = size(60, 300);
    let fleet = fleet(&[]).await;
    for _ in 0..4 {
        let job = json!({"queue": "q", "payload": "x".repeat(1_000_000)});
        assert_eq!(fleet.http("POST", "/v1/jobs", &job.to_string()).await.0, 200);
    }
    let before = memory(&fleet);
    let honest = Honest::start(&fleet);
    let mut crowd = JoinSet::new();
    // `GET /v1/jobs?queue=q` as stream 1, by a client that grants no more room than everybody has.
    let block = [&[0x82, 0x86, 0x04, 16][..], b"/v1/jobs?queue=q", &[0x01, 9], b"localhost"].concat();
    let request = [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat();
    for _ in 0..count {
        crowd.spawn(answer_pings(connect(&fleet).await, request.clone()));
    }
    // Some fill the budget and the others are refused, until those have been cut.
    while fleet.metric("tenure_requests_refused_total", "room").await < (count - 20) as f64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let grown = judge(&format!("{count} readers of 4 MiB that do not read"), &fleet, before, honest).await;
    assert!(grown < 2 * BUDGET + 40, "{grown} MiB more");
    crowd.shutdown().await;
}
