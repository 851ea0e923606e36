//! Seats over the wire: one instance at a time in a named place, and whoever may not sit is told why.

use rpc::wire;
use serde_json::json;

use crate::frames::Stream;
use crate::support::Server;
use crate::volatile::{Survivor, client, start_first, status, submit};

/// A worker that claims the seat.
fn seated(key: &str, host: &str, started_us: i64) -> wire::Hello {
    let (seat, host) = ("rack7".to_owned(), host.to_owned());
    wire::Hello { seat, host, started_us, ..Survivor::hello(key) }
}

async fn sit(server: &Server, key: &'static str, host: &str, started_us: i64) -> Survivor {
    Survivor::join_as(server, seated(key, host, started_us), key, 1).await
}

async fn shown(server: &Server, key: &str) -> Option<wire::MusterWorker> {
    status(server).await.workers.into_iter().find(|worker| worker.key == key)
}

/// Beats until it is told what it is wanted to hear.
async fn told(
    worker: &mut Survivor,
    is_it: impl Fn(&wire::HeartbeatAnswer) -> bool,
) -> wire::HeartbeatAnswer {
    loop {
        let answer = worker.heartbeat().await;
        if is_it(&answer) {
            return answer;
        }
    }
}

#[tokio::test]
async fn the_later_start_on_the_same_machine_takes_the_seat() {
    let server = start_first().await;
    let mut first = sit(&server, "first", "a", 1).await;
    let _second = sit(&server, "second", "a", 2).await;
    first.stream.ended().await;
    first.stream = Stream::open_with(&server, seated("first", "a", 1), 1).await;
    let answer = first.heartbeat().await;
    assert_eq!(answer.answer, "worker_inactive", "its key is dead: {answer:?}");
    assert_ne!(shown(&server, "second").await.expect("it sits").health, "must_die");
    server.stop().await;
}

/// A new life of the server would find the others agreed without it, and start its job again.
#[tokio::test]
async fn whoever_lost_its_seat_counts_until_it_says_that_all_has_stopped() {
    let server = start_first().await;
    let mut first = sit(&server, "first", "a", 1).await;
    submit(&server, client(), 1).await;
    first.take().await;
    let _second = sit(&server, "second", "a", 2).await;
    first.stream.ended().await;
    for all_stopped in [false, true] {
        let it = shown(&server, "first").await.expect("its job may be running");
        assert_eq!((it.health.as_str(), it.why.as_str()), ("unhealthy", "its lease is renewed no more"));
        let body = json!({ "nonce": 7, "all_stopped": all_stopped }).to_string();
        let (code, answer) = server.http("POST", "/v1/workers/first/leave", &body).await;
        assert_eq!(code, 200, "{answer}");
    }
    assert_eq!(shown(&server, "first").await, None);
    server.stop().await;
}

#[tokio::test]
async fn whoever_may_not_sit_is_sent_away_and_told_why() {
    let server = start_first().await;
    let mut sitter = sit(&server, "sitter", "a", 2).await;
    for (key, host, why) in [
        ("earlier", "a", "sitter sits in its seat and started later"),
        ("elsewhere", "b", "sitter sits in its seat on another machine and may be running something"),
    ] {
        let mut other = sit(&server, key, host, 1).await;
        let answer = told(&mut other, |answer| answer.drain).await;
        assert_eq!((answer.answer.as_str(), answer.why.as_str()), ("ok", why));
    }
    let answer = sitter.heartbeat().await;
    assert_eq!((answer.answer.as_str(), answer.drain, answer.why.as_str()), ("ok", false, ""));
    // One that an operator sends away is told no reason.
    let (code, _) = server.http("POST", "/v1/workers/sitter/drain", "").await;
    assert_eq!(code, 200);
    assert_eq!(told(&mut sitter, |answer| answer.drain).await.why, "");
    server.stop().await;
}
