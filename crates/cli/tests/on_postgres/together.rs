//! What is said to one server holds at the others.

use std::time::Duration;

use cli::effects::What;
use cli::fleet::Process;
use model::JobId;
use rpc::wire;
use rustix::process::Signal;

use crate::backend::Backend;
use crate::servers::{Servers, until};
use crate::support::{hear, http, tenure};

async fn enqueue(servers: &Servers, number: usize, count: usize) -> Vec<JobId> {
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job; count], ..Default::default() };
    let response = servers.client(number).enqueue(request).await.expect("the enqueue is accepted");
    response.jobs.iter().map(|job| job.id.parse().expect("a job id")).collect()
}

/// A worker of the second server, with one job that runs until it is told otherwise.
async fn scene() -> (Backend, Servers, Process, JobId) {
    let backend = Backend::new();
    let mut servers = Servers::start(&[backend.url(); 2], &["--lease", "4s"]).await;
    let flags = ["--queue", "q", "--work-ms", "600000", "--echo", "--concurrency", "1"];
    let mut worker = servers.worker(1, "ann", &flags).await;
    let id = enqueue(&servers, 0, 1).await[0];
    assert_eq!(hear(&mut worker, What::Start).await.job, id, "the other server's worker is woken");
    (backend, servers, worker, id)
}

#[tokio::test]
async fn a_job_is_cancelled_and_waited_for_at_another_server_than_its_workers() {
    let backend = Backend::new();
    let servers = Servers::start(&[backend.url(); 2], &["--lease", "4s"]).await;
    let args = ["worker", "--server", &servers.urls[1], "--queue", "q", "--", "sleep", "600"];
    let _worker = Process::start(tenure(), args, &servers.home.path().join("worker.log")).expect("it starts");
    let id = enqueue(&servers, 0, 1).await[0];
    let client = servers.client(0);
    until("a running job", || async {
        let job = client.get(wire::GetJobRequest { id: id.to_string() }).await.expect("the job");
        (job.state == "running").then_some(())
    })
    .await;
    let watched = wire::WatchRequest { ids: vec![id.to_string()], ..Default::default() };
    let mut watch = client.watch(watched).await.expect("it is watched");
    let cancelled = client.cancel(wire::CancelRequest { ids: vec![id.to_string()] }).await;
    assert_eq!(cancelled.expect("an answer").jobs[0].answer, "asked");
    let cancelled = async {
        while watch.next().await.expect("the watch goes on").expect("an event").state != "cancelled" {}
    };
    // Its lease is not waited for: the other server is told.
    tokio::time::timeout(Duration::from_secs(30), cancelled).await.expect("it is stopped");
}

#[tokio::test]
async fn workers_are_seen_everywhere_and_kicked_only_where_they_are_heard() {
    let (_backend, servers, _worker, _) = scene().await;
    let stranger = servers.client(0);
    // The first server learns of the other by its next beat.
    let listed = until("the worker in the other server's list", || async {
        let list = stranger.workers(wire::ListWorkersRequest::default()).await.expect("a list");
        list.workers.into_iter().next()
    })
    .await;
    assert_eq!((listed.name.as_str(), listed.server.as_str()), ("ann", "server-1"));
    let kick = format!("/v1/workers/{}/kick", listed.key);
    let (status, refusal) = http(&servers.urls[0], "POST", &kick, "").await;
    assert_eq!(status, 421, "it is not its worker: {refusal}");
    let refusal: rpc::Problem = serde_json::from_str(&refusal).expect("a problem");
    assert_eq!(refusal.owner.as_ref(), Some(&servers.urls[1]));
    // The client goes where it is sent.
    let kick = wire::KickWorkerRequest { key: listed.key.clone() };
    assert_eq!(stranger.kick_worker(kick).await.expect("it is somebody's").state, "inactive");
}

#[tokio::test]
async fn a_queue_that_is_paused_at_one_server_is_paused_at_all() {
    let backend = Backend::new();
    let mut servers = Servers::start(&[backend.url(); 2], &["--lease", "4s"]).await;
    let pause =
        |paused| wire::SetQueueRequest { name: "q".to_owned(), paused: Some(paused), ..Default::default() };
    servers.client(0).set_queue(pause(true)).await.expect("the queue is paused");
    let flags = ["--queue", "q", "--work-ms", "1", "--echo"];
    let mut worker = servers.worker(1, "ann", &flags).await;
    let ids = enqueue(&servers, 1, 3).await;
    let started = tokio::time::timeout(Duration::from_millis(500), hear(&mut worker, What::Start)).await;
    assert!(started.is_err(), "a job of a paused queue was started");
    servers.client(0).set_queue(pause(false)).await.expect("the queue goes on");
    servers.ended(0, &ids).await;
}

/// The server is killed for good, in the middle of a job.
#[tokio::test]
async fn a_worker_whose_server_dies_goes_on_at_another_with_its_job() {
    let backend = Backend::new();
    let mut servers = Servers::start(&[backend.url(); 2], &["--lease", "20s"]).await;
    let flags = ["--queue", "q", "--work-ms", "9000", "--echo"];
    let mut worker = servers.worker(1, "ann", &flags).await;
    let id = enqueue(&servers, 0, 1).await[0];
    let start = hear(&mut worker, What::Start).await;
    servers.process(1).signal(Signal::KILL).expect("it was running");
    let job = servers.ended(0, &[id]).await.remove(0);
    assert_eq!(
        (job.state.as_str(), job.attempt, job.lost, job.fence),
        ("completed", 1, 0, start.fence.get())
    );
    until("the worker at the other server", || async {
        let list = servers.client(0).workers(wire::ListWorkersRequest::default()).await.expect("a list");
        list.workers.into_iter().find(|worker| worker.server.is_empty() && worker.state == "active")
    })
    .await;
}
