//! HTTP/1: requests whose every part may be wrong, and bytes that are no requests.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::honest::Honest;
use super::{PATIENCE, memory, seeded, size};
use crate::support::Fleet;

/// One of each path; the second word is the body that belongs there.
const ROUTES: [(&str, &str, &str); 29] = [
    ("GET", "/", ""),
    ("GET", "/healthz", ""),
    ("GET", "/readyz", ""),
    ("GET", "/metrics", ""),
    (
        "POST",
        "/v1/jobs",
        r#"{"queue":"q","kind":"k","payload":{"a":[1,2,"x"]},"priority":3,"delay_ms":5,"unique_key":"u"}"#,
    ),
    (
        "POST",
        "/v1/jobs",
        r#"{"jobs":[{"queue":"q","payload":1,"max_attempts":2,"retry":"fixed:1:1"},{"queue":"r"}]}"#,
    ),
    ("GET", "/v1/jobs?queue=q&kind=k&state=available&limit=3&cursor=x", ""),
    ("GET", "/v1/jobs/0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f", ""),
    ("GET", "/v1/jobs/0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f/wait?timeout_ms=1", ""),
    ("POST", "/v1/jobs/cancel", r#"{"ids":["0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f"]}"#),
    ("POST", "/v1/jobs/retry", r#"{"queue":"q","ids":[]}"#),
    ("POST", "/v1/jobs/0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f/cancel", ""),
    ("POST", "/v1/jobs/0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f/retry", ""),
    ("GET", "/v1/stats", ""),
    ("GET", "/v1/queues", ""),
    ("PUT", "/v1/queues/q", r#"{"paused":false,"max_attempts":3,"retry":"exponential","exclusive":false}"#),
    ("POST", "/v1/queues/q/pause", ""),
    ("POST", "/v1/queues/q/resume", ""),
    ("GET", "/v1/servers", ""),
    ("GET", "/v1/muster", ""),
    ("GET", "/v1/workers?state=active&queue=q&limit=2", ""),
    ("POST", "/v1/workers/w/drain", ""),
    (
        "POST",
        "/v1/workers/w/heartbeat",
        r#"{"nonce":1,"token":"1.1","lease_ms":20000,"profile":{"queues":["q"]}}"#,
    ),
    ("POST", "/v1/workers/w/leave", r#"{"nonce":1,"all_stopped":true}"#),
    ("POST", "/v1/workers/w/ping", ""),
    ("POST", "/v1/work/claim", r#"{"worker":"w","queues":["q"],"limit":1}"#),
    (
        "POST",
        "/v1/work/renew",
        r#"{"worker":"w","holds":[{"job":"0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f","fence":1}]}"#,
    ),
    ("POST", "/v1/work/progress", r#"{"worker":"w","notes":[{"job":"x","fence":1,"note":{"p":4}}]}"#),
    (
        "POST",
        "/v1/work/finish",
        r#"{"worker":"w","reports":[{"job":"x","fence":1,"outcome":"completed","result":{}}]}"#,
    ),
];

/// What is put in where something else belongs.
const ODD: [&str; 22] = [
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "NaN",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "[[[[[[[[[[",
    "{}",
    "\u{202e}",
    "%00",
    "../..",
    "%ff",
    ";",
    "'--",
    "\u{0}",
    "{\"a\":",
    "true",
    "\"\"",
    "[]",
    "9007199254740993",
    "\u{1F600}",
];

fn mutate(rng: &mut StdRng, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = rng.random(),
            1 => drop(bytes.splice(at..at, ODD.choose(rng).expect("some").bytes())),
            2 => bytes.truncate(at),
            3 => {
                let end = rng.random_range(at..=bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + rng.random_range(0..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// A request that HTTP can carry, whatever it says.
fn request(rng: &mut StdRng) -> Vec<u8> {
    let (method, path, body) = ROUTES.choose(rng).expect("some");
    let method = if rng.random_bool(0.9) {
        method
    } else {
        ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"].choose(rng).expect("some")
    };
    let path = if rng.random_bool(0.7) { path.as_bytes().to_vec() } else { mutate(rng, path) };
    let is_sendable = |byte: &u8| byte.is_ascii_graphic() && !b"#<>\\\"^`{|}".contains(byte);
    let path: Vec<u8> = path.into_iter().filter(is_sendable).collect();
    let path = if path.starts_with(b"/") { path } else { [b"/", path.as_slice()].concat() };
    let body = match rng.random_range(0..10) {
        0 => (0..rng.random_range(0..200)).map(|_| rng.random()).collect(),
        1 => "[".repeat(rng.random_range(1..5_000)).into_bytes(),
        _ => mutate(rng, body),
    };
    let odd = [
        "content-type: text/plain\r\n",
        "origin: http://evil.test\r\n",
        "host: evil.test\r\n",
        "x-odd: \u{7f}\u{e9}\r\n",
    ];
    let odd = if rng.random_bool(0.05) { odd.choose(rng).expect("some") } else { "" };
    let head = format!(" HTTP/1.1\r\nhost: localhost\r\n{odd}content-length: {}\r\n\r\n", body.len());
    [method.as_bytes(), b" ", &path, head.as_bytes(), &body].concat()
}

/// Bytes that may be no request at all; nothing follows them.
fn garbage(rng: &mut StdRng) -> Vec<u8> {
    const HEADS: [&str; 9] = [
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        "GET / HTTP/1.1\r\nhost : localhost\r\n\r\n",
        "GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
        "GET http://evil.test/ HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ];
    let head = HEADS.choose(rng).expect("some");
    if rng.random_bool(0.3) {
        let mut bytes = vec![0; rng.random_range(1..400)];
        rng.fill_bytes(&mut bytes);
        return bytes;
    }
    mutate(rng, head)
}

/// Reads one answer: its status, and whether another one may follow.
async fn answer(stream: &mut BufReader<TcpStream>) -> Option<(u16, bool)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let status: u16 = line.split(' ').nth(1)?.parse().ok()?;
    let (mut length, mut is_chunked, mut stays) = (0, false, true);
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let header = line.trim_end().to_ascii_lowercase();
        match header.split_once(": ") {
            None if header.is_empty() => break,
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(("transfer-encoding", _)) => is_chunked = true,
            Some(("connection", "close")) => stays = false,
            _ => {}
        }
    }
    if is_chunked {
        return Some((status, false));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((status, stays))
}

async fn fuzz(address: String, mut rng: StdRng, count: usize) -> (usize, Duration) {
    let (mut answered, mut worst) = (0, Duration::ZERO);
    let mut open: Option<BufReader<TcpStream>> = None;
    for _ in 0..count {
        let begun = Instant::now();
        let is_garbage = rng.random_bool(0.1);
        let bytes = if is_garbage { garbage(&mut rng) } else { request(&mut rng) };
        let mut stream = match open.take().filter(|_| !is_garbage) {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(&address).await.expect("the server listens")),
        };
        // A connection that the server has just closed takes nothing.
        let _ = stream.write_all(&bytes).await;
        if is_garbage {
            let _ = stream.shutdown().await;
        }
        let heard = tokio::time::timeout(PATIENCE, answer(&mut stream)).await;
        let heard = heard.unwrap_or_else(|_| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
        if let Some((status, stays)) = heard {
            assert!(status < 500, "{status} to {:?}", String::from_utf8_lossy(&bytes));
            answered += 1;
            open = Some(stream).filter(|_| stays && !is_garbage && !bytes.starts_with(b"HEAD"));
        }
        worst = worst.max(begun.elapsed());
    }
    (answered, worst)
}

#[tokio::test]
async fn no_request_is_answered_as_a_defect_or_hangs() {
    const CLIENTS: usize = 8;
    let count = size(3_000, 120_000);
    let mut rng = seeded("http");
    let fleet = Fleet::start(&[]).await;
    let address = fleet.server.url.trim_start_matches("http://").to_owned();
    let before = memory(&fleet);
    let honest = Honest::start(&fleet);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let rng = rand::SeedableRng::from_rng(&mut rng);
        clients.spawn(fuzz(address.clone(), rng, count / CLIENTS));
    }
    let done = clients.join_all().await;
    let (served, waited) = honest.stop().await;
    let answered: usize = done.iter().map(|(answered, _)| answered).sum();
    let worst = done.iter().map(|(_, worst)| *worst).max().unwrap_or_default();
    let grown = memory(&fleet).saturating_sub(before) >> 20;
    println!(
        "http: {count} requests, {answered} answered, none with 5xx, worst {worst:?}; {grown} MiB more; \
         honest client {served} times, worst {waited:?}"
    );
    assert!(answered > count / 2, "only {answered} of {count} were answered at all");
    assert!(grown < 100, "{grown} MiB more");
}
