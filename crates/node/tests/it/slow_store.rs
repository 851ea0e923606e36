//! A store that stands still must not make its workers look dead: signs of life do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use node::NodeConfig;
use rpc::wire::{self, WorkerFrame};
use tokio::sync::Semaphore;

use crate::frames::{Stream, completed, enqueue};
use crate::gated::Gated;
use crate::support::Server;

#[tokio::test]
async fn heartbeats_are_answered_while_the_store_keeps_reports_waiting() {
    let store = Arc::new(Gated { reports: Semaphore::new(0), ..Gated::new() });
    let server = Server::start_on(NodeConfig::default(), store.clone()).await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 0).await;
    let mut token = beat(&mut stream, 1, String::new()).await;
    stream.frames.send(WorkerFrame { credits: 1, ..Default::default() }).await.expect("the stream is open");
    let job = stream.assignment().await;
    let reports = vec![completed(&job, 0)];
    stream.frames.send(WorkerFrame { reports, ..Default::default() }).await.expect("the stream is open");

    // The report is stuck in the store; the worker is as alive as ever. Each answer is the first thing to come back.
    for number in 2..10 {
        token = beat(&mut stream, number, token).await;
    }
    store.reports.add_permits(1);
    let answered = stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answered.answer, "done");
    server.stop().await;
}

#[tokio::test]
async fn a_store_in_trouble_ends_no_session_and_takes_the_report_later() {
    let store = Arc::new(Gated { failures: AtomicU32::new(3), ..Gated::new() });
    let server = Server::start_on(NodeConfig::default(), store.clone()).await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 1).await;
    let job = stream.assignment().await;
    let reports = vec![completed(&job, 0)];
    stream.frames.send(WorkerFrame { reports, ..Default::default() }).await.expect("the stream is open");
    let answered = stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answered.answer, "done", "on the same stream, without being asked again");
    assert_eq!(store.failures.load(Ordering::SeqCst), 0);
    server.stop().await;
}

/// A disk that takes longer for a commit than the lease of the claim in it.
#[tokio::test]
async fn a_job_whose_claim_was_slow_is_not_taken_from_the_worker_that_gets_it() {
    let store = Arc::new(Gated { claims: Semaphore::new(1), ..Gated::new() });
    let config = NodeConfig { verify_after: Duration::from_secs(1), ..NodeConfig::default() };
    let server = Server::start_on(config, store.clone()).await;
    // Somebody else's job, whose lease makes the server look at all leases.
    let other = r#"{"queue": "other", "heartbeat_timeout_ms": 1000}"#;
    assert_eq!(server.http("POST", "/v1/jobs", other).await.0, 200);
    let claim = r#"{"worker": "other", "queues": ["other"], "limit": 1}"#;
    assert_eq!(server.http("POST", "/v1/work/claim", claim).await.0, 200);

    let mut stream = Stream::open(&server, 0).await;
    beat(&mut stream, 1, String::new()).await;
    stream.say(WorkerFrame { credits: 1, ..Default::default() }).await;
    enqueue(&server).await;
    // The length of the fault.
    tokio::time::sleep(Duration::from_secs(4)).await;
    store.claims.add_permits(1_000);
    let job = stream.assignment().await;
    stream.say(WorkerFrame { reports: vec![completed(&job, 0)], ..Default::default() }).await;
    let answered = stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answered.answer, "done");
    let shown = server.client.get(wire::GetJobRequest { id: job.job }).await.expect("the job is there");
    assert_eq!((shown.state.as_str(), shown.attempt, shown.lost), ("completed", 1, 0), "{shown:?}");
    assert!(server.metric("tenure_own_stalls_total", "").await >= 1.0, "it is counted as a stall");
    server.stop().await;
}

/// Sends a heartbeat; its answer must be the next frame, and must be ok.
async fn beat(stream: &mut Stream, number: u64, token: String) -> String {
    let heartbeat = Some(wire::Heartbeat { number, token, ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    let answer = stream
        .hear(|frame| {
            assert!(frame.reports.is_empty(), "the report cannot be answered yet");
            frame.heartbeat
        })
        .await;
    assert_eq!((answer.number, answer.answer.as_str()), (number, "ok"), "{answer:?}");
    answer.token
}
