//! Large jobs: whatever they add up to, each frame and each page fits a message.

use bytes::Bytes;
use rpc::wire;
use worker::{JobContext, JobError, Worker};

use crate::support::Server;

const JOBS: usize = 40;
const PAYLOAD: usize = 1_000_000;

async fn fill(server: &Server) -> Vec<String> {
    let payload = Bytes::from(format!("\"{}\"", "x".repeat(PAYLOAD - 2)));
    let job = wire::NewJob { queue: "q".to_owned(), payload, ..Default::default() };
    let mut ids = Vec::new();
    for _ in 0..JOBS / 8 {
        let request = wire::EnqueueRequest { jobs: vec![job.clone(); 8], ..Default::default() };
        ids.extend(
            server.client.enqueue(request).await.expect("accepted").jobs.into_iter().map(|job| job.id),
        );
    }
    ids
}

#[tokio::test]
async fn a_worker_with_many_slots_gets_many_large_jobs() {
    let server = Server::start().await;
    let ids = fill(&server).await;
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(server.url())
        .queue("q")
        .concurrency(JOBS as u32)
        .handle_raw("*", move |_: JobContext, payload: Bytes| {
            let _ = done.send(payload.len());
            async { Ok::<_, JobError>(Bytes::new()) }
        })
        .build()
        .expect("a valid worker");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await });
    for _ in 0..JOBS {
        assert_eq!(finished.recv().await, Some(PAYLOAD));
    }
    stop.send(()).expect("the worker is listening");
    let summary = running.await.expect("no panic");
    assert_eq!((summary.completed, summary.lost), (JOBS as u64, 0), "{summary:?}");
    for id in ids {
        let job = server.client.get(wire::GetJobRequest { id }).await.expect("the job is there");
        assert_eq!((job.state.as_str(), job.attempt, job.lost), ("completed", 1, 0));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_list_of_large_jobs_comes_in_pages_that_fit() {
    let server = Server::start().await;
    let mut expected = fill(&server).await;
    let mut listed = Vec::new();
    let mut cursor = String::new();
    loop {
        let request = wire::ListJobsRequest { limit: 1_000, cursor, ..Default::default() };
        let page = server.client.list(request).await.expect("every page fits a message");
        listed.extend(page.jobs.into_iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_empty() {
            break;
        }
    }
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected, "each job once");
    server.stop().await;
}

#[tokio::test]
async fn a_unary_claim_of_large_jobs_fits_too() {
    let server = Server::start().await;
    let ids = fill(&server).await;
    let mut claimed = 0;
    while claimed < ids.len() {
        let request = wire::ClaimRequest {
            worker: "w".to_owned(),
            queues: vec!["q".to_owned()],
            limit: 1_000,
            wait_ms: 0,
        };
        let jobs = server.client.claim(request).await.expect("it fits a message").jobs;
        assert!(!jobs.is_empty(), "{claimed} of {} were claimed", ids.len());
        claimed += jobs.len();
    }
    server.stop().await;
}
