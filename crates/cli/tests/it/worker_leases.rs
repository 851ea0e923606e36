//! One lease per worker, with real processes: what is lost on the way, what a restart forgets, what silence brings back.

use std::collections::BTreeSet;

use cli::effects::What;
use cli::fleet::Process;
use rpc::wire;
use rustix::process::Signal;

use crate::support::{Fleet, hear};

/// Long enough that a fault always hits the middle of the job.
const FOREVER_MS: &str = "3600000";

async fn workers(fleet: &Fleet) -> Vec<wire::Worker> {
    let (status, body) = fleet.http("GET", "/v1/workers?limit=1000", "").await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<wire::ListWorkersResponse>(&body).expect("a list of workers").workers
}

async fn hear_starts(worker: &mut Process, count: usize) {
    for _ in 0..count {
        hear(worker, What::Start).await;
    }
}

#[tokio::test]
async fn two_hundred_jobs_of_a_killed_worker_come_back_together_one_lease_later() {
    let mut fleet = Fleet::start(&["--lease", "2s"]).await;
    let ids = fleet.enqueue(200).await;
    let many = ["--echo", "--concurrency", "200", "--work-ms"];
    let mut first = fleet.worker("first", &[&many[..], &[FOREVER_MS]].concat()).await;
    hear_starts(&mut first, 200).await;
    first.signal(Signal::KILL).expect("it was running");
    first.ended().await.expect("it is gone");

    let mut heir = fleet.worker("heir", &[&many[..], &["0"]].concat()).await;
    hear_starts(&mut heir, 200).await;
    let jobs = fleet.ended(&ids).await;
    assert!(jobs.iter().all(|job| (job.state.as_str(), job.lost) == ("completed", 1)), "{jobs:?}");
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 200.0);
    // From the worker's last heartbeat to the moment its jobs were offered again.
    let total = fleet.metric("tenure_rescue_seconds_sum", "").await;
    let each = total / fleet.metric("tenure_rescue_seconds_count", "").await;
    let stalled = fleet.metric("tenure_own_stalled_seconds_total", "").await;
    assert!(
        (2.0..3.0 + 2.0 * stalled).contains(&each),
        "{each} s each, the server stood still for {stalled} s"
    );
}

#[tokio::test]
async fn an_assignment_that_never_arrived_is_noticed_while_its_worker_is_healthy() {
    let mut fleet = Fleet::start(&["--verify-after", "1s", "--faults", "drop-assignments=1"]).await;
    let mut worker = fleet.worker("healthy", &["--echo", "--work-ms", "0"]).await;
    let before = loop {
        let known = workers(&fleet).await;
        if !known.is_empty() {
            break known;
        }
        tokio::task::yield_now().await;
    };
    let id = fleet.enqueue(1).await[0];
    // The only frame with the job was lost; nothing but the verification brings it back.
    let started = hear(&mut worker, What::Start).await;
    assert_eq!(started.job, id);
    let job = fleet.ended(&[id]).await.remove(0);
    assert_eq!((job.state.as_str(), job.attempt, job.lost), ("completed", 1, 1));
    assert_eq!(fleet.effects().len(), 1, "it ran once");
    let after = workers(&fleet).await;
    let alive = |workers: &[wire::Worker]| {
        workers.iter().map(|worker| (worker.key.clone(), worker.state.clone())).collect::<Vec<_>>()
    };
    assert_eq!(alive(&before), alive(&after), "the same worker, alive all the time");
    assert_eq!(after[0].state, "active");
}

#[tokio::test]
async fn a_lost_answer_is_healed_without_losing_a_change() {
    let mut fleet = Fleet::start(&["--lease", "2s", "--faults", "drop-answers=3"]).await;
    let ids = fleet.enqueue(8).await;
    let mut worker = fleet.worker("patient", &["--echo", "--work-ms", "4000"]).await;
    hear_starts(&mut worker, 8).await;
    // Bound is what the registry believes; it is right although answers were lost while the jobs were bound.
    loop {
        let known = workers(&fleet).await;
        if known.len() == 1 && known[0].bound == Some(8) {
            break;
        }
        tokio::task::yield_now().await;
    }
    let jobs = fleet.ended(&ids).await;
    assert!(
        jobs.iter().all(|job| (job.state.as_str(), job.attempt, job.lost) == ("completed", 1, 0)),
        "{jobs:?}"
    );
    assert!(fleet.metric("tenure_heartbeats_total", "token_mismatch").await >= 1.0);
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 0.0);
}

#[tokio::test]
async fn a_restarted_server_takes_nothing_from_fifty_workers_and_starts_nothing_twice() {
    const WORKERS: usize = 50;
    let mut fleet = Fleet::start(&["--lease", "5s"]).await;
    let ids = fleet.enqueue(2 * WORKERS).await;
    let mut fleet_of = Vec::new();
    for number in 0..WORKERS {
        let args = ["--echo", "--concurrency", "2", "--work-ms", "12000"];
        fleet_of.push(fleet.worker(&format!("w{number}"), &args).await);
    }
    for worker in &mut fleet_of {
        hear_starts(worker, 2).await;
    }
    fleet.server.process.signal(Signal::KILL).expect("the server was running");
    fleet.server.process.ended().await.expect("it is gone");
    fleet.restart().await;

    let jobs = fleet.ended(&ids).await;
    let untouched = |job: &&wire::Job| (job.state.as_str(), job.attempt, job.lost) == ("completed", 1, 0);
    assert_eq!(jobs.iter().filter(untouched).count(), ids.len(), "{jobs:?}");
    let starts: Vec<_> = fleet.entries().into_iter().filter(|entry| entry.what == What::Start).collect();
    let started: BTreeSet<_> = starts.iter().map(|entry| entry.job).collect();
    assert_eq!((starts.len(), started.len()), (ids.len(), ids.len()), "each job was started once");
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 0.0);
}

#[tokio::test]
async fn a_kicked_worker_comes_back_under_a_new_key() {
    let mut fleet = Fleet::start(&["--lease", "2s"]).await;
    let id = fleet.enqueue(1).await[0];
    let mut worker = fleet.worker("kicked", &["--echo", "--work-ms", "3000"]).await;
    hear(&mut worker, What::Start).await;
    let key = workers(&fleet).await.remove(0).key;
    let (status, shown) = fleet.http("POST", &format!("/v1/workers/{key}/kick"), "").await;
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("it was kicked"), "{shown}");
    // It is told that its job is lost, and gets it again as someone else.
    hear(&mut worker, What::Lost).await;
    hear(&mut worker, What::Start).await;
    let now = workers(&fleet).await;
    assert!(now.len() == 1 && now[0].key != key, "{now:?}");
    assert_eq!(fleet.ended(&[id]).await[0].lost, 0, "a kick does not count as a loss");
}

#[tokio::test]
async fn a_worker_that_is_drained_and_kicked_does_not_come_back() {
    // With this lease its next heartbeat, which would tell it to drain, is four seconds away.
    let mut fleet = Fleet::start(&["--lease", "20s"]).await;
    let id = fleet.enqueue(1).await[0];
    let mut worker = fleet.worker("unwanted", &["--echo", "--work-ms", "8000"]).await;
    hear(&mut worker, What::Start).await;
    let key = workers(&fleet).await.remove(0).key;
    for order in ["drain", "kick"] {
        let (status, shown) = fleet.http("POST", &format!("/v1/workers/{key}/{order}"), "").await;
        assert_eq!(status, 200, "{shown}");
    }
    hear(&mut worker, What::Lost).await;
    // The job is there to be had, and it goes all the same.
    assert!(worker.ended().await.expect("it ends").success());
    let job = fleet.client.get(wire::GetJobRequest { id: id.to_string() }).await.expect("it is there");
    assert_eq!(job.state, "available");
}
