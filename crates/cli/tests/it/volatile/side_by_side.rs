//! Volatile and durable queues on one server: after a restart the durable ones go on at once, the volatile ones wait.

use rpc::wire;
use rustix::process::Signal;
use worker::SubmitOptions;

use super::{is_settled, job, muster, worker};
use crate::support::Fleet;

#[tokio::test]
async fn durable_jobs_do_not_wait_for_what_volatile_ones_wait_for() {
    // Six seconds and one more to wait: the durable jobs are done long before.
    let mut fleet = Fleet::start(&["--lease", "6s"]).await;
    let status = fleet.client.muster_status().await.expect("answered");
    assert!(!status.active && !status.waiting, "no volatile queue, nothing to wait for: {status:?}");
    let volatile = wire::SetQueueRequest { name: "v".into(), volatile: Some(true), ..Default::default() };
    let queue = fleet.client.set_queue(volatile).await.expect("it has no jobs");
    assert!(queue.volatile && queue.exclusive, "{queue:?}");

    let _ann = worker(&fleet, "ann", &["d", "v"], "cat");
    let mut bob = worker(&fleet, "bob", &["d", "v"], "cat");
    muster(&fleet.client, "two healthy workers", |status| is_settled(status, 2)).await;
    let submitter = fleet.client.submitter(SubmitOptions::default());
    let end = submitter.submit(job("v", "before")).await.expect("there is room").await.expect("it is taken");
    assert_eq!(end.result, "before");
    fleet.client.enqueue(enqueue("d", 1)).await.expect("it is taken");

    fleet.server.process.signal(Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    // Nobody is left to say that this one is gone: the volatile queues wait for it in full.
    bob.signal(Signal::KILL).expect("it was running");
    bob.ended().await.expect("it is gone");
    fleet.restart().await;
    let waiting = submitter.submit(job("v", "after")).await.expect("there is room");
    let answer = fleet.client.enqueue(enqueue("d", 5)).await.expect("it is taken");
    let ids: Vec<model::JobId> = answer.jobs.iter().map(|job| job.id.parse().expect("an id")).collect();
    assert!(ids.iter().all(|id| !id.is_volatile()) && waiting.id().is_volatile());
    for job in fleet.ended(&ids).await {
        assert_eq!(job.state, "completed", "{job:?}");
    }
    // Its client may have looked longer for the new life of the server.
    let status = muster(&fleet.client, "the volatile job is there", |status| status.bytes > 0).await;
    assert!(status.waiting, "the durable jobs are done, and the volatile queue still waits: {status:?}");
    assert_eq!(fleet.job(waiting.id()).await.state, "available", "nothing volatile is started");

    assert_eq!(waiting.await.expect("it is taken").result, "after");
    let status = fleet.client.muster_status().await.expect("answered");
    assert_eq!((status.waiting, status.how.as_str()), (false, "safe_wait"), "{status:?}");
    submitter.close().await;
}

fn enqueue(queue: &str, count: usize) -> wire::EnqueueRequest {
    wire::EnqueueRequest { jobs: vec![job(queue, "x"); count], ..Default::default() }
}
