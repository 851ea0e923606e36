//! The server dies under load, again and again; the server freezes for three leases.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cli::effects::What;
use model::JobId;
use rpc::wire;
use rustix::process::Signal;
use tokio::sync::watch;
use worker::Client;

use crate::support::{Fleet, hear};

/// Kills in one run; `cargo xtask soak` asks for more.
fn rounds() -> usize {
    std::env::var("TENURE_SOAK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Enqueues without end; each batch is sent again under the same request id until it is acknowledged.
async fn produce(
    client: Client,
    acknowledged: watch::Sender<usize>,
    stop: Arc<tokio::sync::Notify>,
) -> Vec<JobId> {
    let mut ids = Vec::new();
    let stopped = stop.notified();
    tokio::pin!(stopped);
    for batch in 0.. {
        let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
        let request = wire::EnqueueRequest {
            request_id: format!("batch-{batch}"),
            jobs: vec![job; 10],
            ..Default::default()
        };
        loop {
            match client.enqueue(request.clone()).await {
                Ok(response) => {
                    ids.extend(response.jobs.iter().map(|job| job.id.parse::<JobId>().expect("a job id")));
                    break;
                }
                // The server is dead just now. The pause only keeps this loop from spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        acknowledged.send_replace(ids.len());
        if futures_util::FutureExt::now_or_never(&mut stopped).is_some() {
            break;
        }
    }
    ids
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    let mut fleet = Fleet::start(&["--lease", "1s"]).await;
    let mut workers = Vec::new();
    for name in ["ann", "bob", "cyd"] {
        workers.push(fleet.worker(name, &["--work-ms", "3"]).await);
    }
    let (sender, mut acknowledged) = watch::channel(0);
    let stop = Arc::new(tokio::sync::Notify::new());
    let producer = tokio::spawn(produce(fleet.client.clone(), sender, Arc::clone(&stop)));
    for round in 0..rounds() {
        // Mid-load: the next kill comes when this life of the server has acknowledged some more.
        let goal = *acknowledged.borrow() + 50 + 7 * round;
        acknowledged.wait_for(|count| *count >= goal).await.expect("the producer goes on");
        fleet.server.process.signal(Signal::KILL).expect("the server was running");
        fleet.server.process.ended().await.expect("it is gone");
        fleet.restart().await;
    }
    stop.notify_one();
    let ids = producer.await.expect("the producer does not panic");
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "a repeated request makes no second job"
    );
    let jobs = fleet.ended(&ids).await;
    let not_completed: Vec<_> = jobs.iter().filter(|job| job.state != "completed").collect();
    assert!(not_completed.is_empty(), "of {} jobs: {not_completed:?}", jobs.len());

    let effects = fleet.effects();
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "effects twice under one fence: {twice:?}");
    let done: BTreeSet<JobId> = effects.keys().map(|(job, _)| *job).collect();
    assert!(ids.iter().all(|id| done.contains(id)), "a completed job had no effect");
}

#[tokio::test]
async fn a_server_frozen_for_three_leases_rescues_nobody() {
    let mut fleet = Fleet::start(&["--lease", "1s"]).await;
    let ids = fleet.enqueue(24).await;
    let mut workers = Vec::new();
    for name in ["ann", "bob", "cyd"] {
        let mut worker = fleet.worker(name, &["--echo", "--work-ms", "5000", "--concurrency", "8"]).await;
        for _ in 0..8 {
            hear(&mut worker, What::Start).await;
        }
        workers.push(worker);
    }
    fleet.server.process.signal(Signal::STOP).expect("the server was running");
    // The length of the fault, not a wait for anything.
    tokio::time::sleep(Duration::from_secs(3)).await;
    fleet.server.process.signal(Signal::CONT).expect("the server is still there");

    let jobs = fleet.ended(&ids).await;
    assert!(
        jobs.iter().all(|job| (job.state.as_str(), job.attempt, job.lost) == ("completed", 1, 0)),
        "{jobs:?}"
    );
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 0.0);
    assert!(
        fleet.metric("tenure_own_stalls_total", "").await >= 1.0,
        "the server noticed that it stood still"
    );
    let starts = fleet.entries().iter().filter(|entry| entry.what == What::Start).count();
    assert_eq!(starts, ids.len(), "no job was started a second time");
}
