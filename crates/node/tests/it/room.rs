//! Volatile queues on a server whose memory is full: it says so, loses nothing, and takes more when some have ended.

use std::time::Duration;

use bytes::Bytes;
use model::ClientId;
use rpc::wire::{self, WorkerFrame};
use store::{JobStore as _, Retention};

use crate::support::Server;
use crate::volatile::{Submitting, Survivor, client, start_within, status};

/// What the jobs may take, and what each of them carries: four fit.
const BYTES_MAX: usize = 1_000_000;
const PAYLOAD: usize = 200_000;

fn jobs(client: ClientId, sequences: impl IntoIterator<Item = u64>) -> Vec<wire::NewJob> {
    let job = |sequence| wire::NewJob {
        id: client.job(sequence).to_string(),
        queue: "q".to_owned(),
        payload: Bytes::from(vec![b'x'; PAYLOAD]),
        content_type: "text/plain".to_owned(),
        ..Default::default()
    };
    sequences.into_iter().map(job).collect()
}

fn ids(client: ClientId, sequences: impl IntoIterator<Item = u64>) -> Vec<String> {
    sequences.into_iter().map(|sequence| client.job(sequence).to_string()).collect()
}

/// Submits these jobs; which were not taken because there was no room.
async fn submit(submitting: &mut Submitting, frame: wire::SubmitFrame) -> Vec<String> {
    submitting.say(frame).await;
    loop {
        let answer = submitting.answer().await;
        if answer.frames > 0 {
            assert_eq!(answer.retry_after_ms > 0, !answer.postponed.is_empty(), "{answer:?}");
            assert!(answer.refusals.is_empty(), "{answer:?}");
            return answer.postponed;
        }
    }
}

#[tokio::test]
async fn jobs_for_which_there_is_no_room_are_postponed_and_taken_when_others_have_ended() {
    let (server, _) = start_within(BYTES_MAX).await;
    let client = client();
    let mut worker = Survivor::join(&server, "w", 0).await;
    let mut submitting = Submitting::open(&server, client).await;
    let all = wire::SubmitFrame { jobs: jobs(client, 1..=6), ..Default::default() };
    assert_eq!(
        submit(&mut submitting, all).await,
        ids(client, 5..=6),
        "as many as fit are taken, in their order"
    );
    let later = wire::SubmitFrame { jobs: jobs(client, 5..=6), ..Default::default() };
    assert_eq!(submit(&mut submitting, later.clone()).await, ids(client, 5..=6));

    worker.stream.say(WorkerFrame { credits: 1, ..Default::default() }).await;
    let job = worker.take().await;
    assert_eq!(worker.report(&job).await.answer, "done");
    assert_eq!(submitting.end().await.id, job.job);
    assert_eq!(
        submit(&mut submitting, later.clone()).await,
        ids(client, 5..=6),
        "the end is kept until it is known"
    );
    // What makes room is heard before what needs it.
    let known = wire::SubmitFrame { acknowledged: vec![job.job.clone()], ..later };
    assert_eq!(submit(&mut submitting, known).await, ids(client, [6]));
    for sequence in 2..=5 {
        let id = client.job(sequence).to_string();
        let job = server.client.get(wire::GetJobRequest { id }).await.expect("it was taken");
        assert_eq!(job.state, "available");
    }
    server.stop().await;
}

/// Since when the server says that it remembers this client.
async fn memory_of(server: &Server, client: ClientId) -> u64 {
    let greeting = wire::SubmitFrame { client: client.job(0).to_string(), ..Default::default() };
    let mut submitting = Submitting::greet(server, greeting).await.expect("the stream opens");
    submitting.answer().await.memory
}

#[tokio::test]
async fn a_client_that_comes_back_is_told_if_its_ends_were_forgotten() {
    let (server, store) = start_within(BYTES_MAX).await;
    let client = client();
    let before = memory_of(&server, client).await;
    let mut worker = Survivor::join(&server, "w", 1).await;
    let request = wire::EnqueueRequest { jobs: jobs(client, [1]), ..Default::default() };
    server.client.enqueue(request).await.expect("there is room");
    let job = worker.take().await;
    assert_eq!(worker.report(&job).await.answer, "done");
    assert_eq!(memory_of(&server, client).await, before);
    let nothing_is_kept = Retention { completed: Duration::ZERO, dead: Duration::ZERO };
    assert_eq!(store.purge(nothing_is_kept, 10).await.expect("memory does not fail"), 1);
    assert_ne!(memory_of(&server, client).await, before);
    server.stop().await;
}

#[tokio::test]
async fn whoever_makes_single_calls_is_told_to_come_again() {
    let (server, _) = start_within(BYTES_MAX).await;
    let client = client();
    let request = |sequences| wire::EnqueueRequest { jobs: jobs(client, sequences), ..Default::default() };
    server.client.enqueue(request(1..=4)).await.expect("there is room");
    let shown = status(&server).await;
    assert_eq!(shown.bytes_max, BYTES_MAX as u64);
    assert!((4 * PAYLOAD as u64..=shown.bytes_max).contains(&shown.bytes), "{shown:?}");
    let refused = server.client.enqueue(request(5..=5)).await.expect_err("there is none");
    assert!(refused.to_string().contains("--volatile-memory"), "{refused}");
    let body = serde_json::json!({"jobs": [{"queue": "q", "payload": "x".repeat(PAYLOAD)}]});
    let (code, problem) = server.http("POST", "/v1/jobs", &body.to_string()).await;
    assert_eq!((code, problem["type"].as_str()), (429, Some("throttled")), "{problem}");
    assert_eq!(problem["retry_after_ms"].as_u64(), Some(1_000), "{problem}");
    let again = server.client.enqueue(request(1..=4)).await.expect("they are here");
    assert!(again.jobs.iter().all(|job| job.duplicate));
    for (name, value) in [
        ("tenure_volatile_bytes_max", BYTES_MAX as f64),
        ("tenure_volatile_bytes ", shown.bytes as f64),
        ("tenure_volatile_postponed_total", 2.0),
    ] {
        assert_eq!(server.metric(name, "").await, value, "{name}");
    }
    let unknown = server.client.get(wire::GetJobRequest { id: client.job(5).to_string() }).await;
    assert!(unknown.is_err(), "nothing of what was refused is here");
    server.stop().await;
}
