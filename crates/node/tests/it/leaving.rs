//! Workers that leave in good order: what is surely stopped moves on at once instead of waiting for its lease.

use rpc::wire;
use worker::{JobContext, JobError, Worker};

use crate::support::Server;

async fn enqueue(server: &Server, count: usize) -> Vec<String> {
    let job =
        wire::NewJob { queue: "q".to_owned(), heartbeat_timeout_ms: Some(3_600_000), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job; count], ..Default::default() };
    let response = server.client.enqueue(request).await.expect("the enqueue is accepted");
    response.jobs.into_iter().map(|job| job.id).collect()
}

/// A drained worker hands back what it could not finish, uncounted, although its leases would run for an hour.
#[tokio::test]
async fn a_drained_worker_hands_back_without_counting_the_attempt() {
    let server = Server::start().await;
    let id = enqueue(&server, 1).await.remove(0);
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let build = |started: tokio::sync::mpsc::UnboundedSender<u32>, patient: bool| {
        Worker::builder(server.url())
            .queue("q")
            .grace(std::time::Duration::from_millis(200))
            .kill_wait(std::time::Duration::from_millis(100))
            .handle_raw("*", move |context: JobContext, payload| {
                let _ = started.send(context.attempt());
                async move {
                    if patient {
                        // Ignores the request to stop; the drain must end it all the same.
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, JobError>(payload)
                }
            })
            .build()
            .expect("a valid worker")
    };
    let stubborn = build(started.clone(), true);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { stubborn.run_until(async { drop(stopped.await) }).await });
    assert_eq!(starts.recv().await, Some(1));
    stop.send(()).expect("the worker is listening");
    let summary = running.await.expect("no panic");
    assert_eq!((summary.handed_back, summary.completed), (1, 0), "{summary:?}");

    let shown = server.client.get(wire::GetJobRequest { id: id.clone() }).await.expect("the job is there");
    assert_eq!((shown.state.as_str(), shown.attempt, shown.lost), ("available", 0, 0));
    let willing = build(started, false);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { willing.run_until(async { drop(stopped.await) }).await });
    assert_eq!(starts.recv().await, Some(1), "the handed back attempt was not counted");
    stop.send(()).expect("the worker is listening");
    running.await.expect("no panic");
    server.stop().await;
}
