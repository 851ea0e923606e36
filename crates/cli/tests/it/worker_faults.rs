//! Workers that die, freeze and come back.

use cli::effects::{Entry, What};
use rustix::process::Signal;

use crate::support::{Fleet, hear};

/// Long enough that a fault always hits the middle of the job.
const FOREVER_MS: &str = "3600000";

#[tokio::test]
async fn a_killed_workers_job_is_done_by_another() {
    let mut fleet = Fleet::start(&["--lease", "1s"]).await;
    let id = fleet.enqueue(1).await[0];
    let mut first = fleet.worker("first", &["--echo", "--work-ms", FOREVER_MS]).await;
    let begun = hear(&mut first, What::Start).await;
    first.signal(Signal::KILL).expect("it was running");
    first.ended().await.expect("it is gone");

    let mut second = fleet.worker("second", &["--echo", "--work-ms", "0"]).await;
    let again = hear(&mut second, What::Start).await;
    assert_eq!(again.job, id);
    assert!(again.fence > begun.fence, "a new claim has a new fence");
    let job = fleet.ended(&[id]).await.remove(0);
    assert_eq!(
        (job.state.as_str(), job.attempt, job.lost),
        ("completed", 1, 1),
        "lost is counted apart from failed"
    );
    assert_eq!(fleet.effects().into_keys().collect::<Vec<_>>(), [(id, again.fence)]);
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 1.0);
}

#[tokio::test]
async fn a_worker_frozen_past_its_lease_is_refused_and_told_to_stop() {
    let mut fleet = Fleet::start(&["--lease", "1s"]).await;
    // One job ends as soon as its frozen worker wakes, the other would go on for long.
    let (short, long) = (fleet.enqueue_work(500).await, fleet.enqueue_work(6_000).await);
    let mut zombie = fleet.worker("zombie", &["--echo", "--concurrency", "2"]).await;
    let begun = [hear(&mut zombie, What::Start).await, hear(&mut zombie, What::Start).await];
    zombie.signal(Signal::STOP).expect("it was running");

    let mut heir = fleet.worker("heir", &["--echo"]).await;
    let taken_over = [hear(&mut heir, What::Start).await, hear(&mut heir, What::Start).await];
    let fence_of =
        |entries: &[Entry], job| entries.iter().find(|entry| entry.job == job).expect("both jobs").fence;
    for job in [short, long] {
        assert!(fence_of(&taken_over, job) > fence_of(&begun, job));
    }

    zombie.signal(Signal::CONT).expect("it is still there");
    let refused = hear(&mut zombie, What::Refuse).await;
    assert_eq!((refused.job, refused.fence), (short, fence_of(&begun, short)));
    let told = |entry: &Entry| {
        entry.what == What::Lost && (entry.job, entry.fence) == (long, fence_of(&begun, long))
    };
    while !fleet.entries().iter().any(told) {
        // The zombie goes on talking until it has been told to stop; its silence fails the test.
        zombie.line().await.expect("the zombie is told to stop");
    }
    assert!(fleet.metric("tenure_stale_writes_refused_total", "finish").await >= 1.0);
    for shown in fleet.ended(&[short, long]).await {
        let fence = fence_of(&taken_over, shown.id.parse().expect("a job id")).get();
        assert_eq!((shown.state.as_str(), shown.fence), ("completed", fence), "the zombie changed nothing");
    }
}

#[tokio::test]
async fn the_same_worker_gets_its_own_lost_job_again_and_only_the_new_claim_counts() {
    let mut fleet = Fleet::start(&["--lease", "1s"]).await;
    let id = fleet.enqueue(1).await[0];
    // Two slots: the second one is still on offer while the first one's job is lost.
    let mut worker =
        fleet.worker("self-zombie", &["--echo", "--work-ms", "2500", "--concurrency", "2"]).await;
    let begun = hear(&mut worker, What::Start).await;
    worker.signal(Signal::STOP).expect("it was running");
    // The rescue is seen from outside: the job is offered again. Only this worker is there to take it.
    let mut events = fleet
        .client
        .watch(rpc::wire::WatchRequest { ids: vec![id.to_string()], ..Default::default() })
        .await
        .expect("the job is there");
    while events.next().await.expect("the stream goes on").expect("no error").state != "available" {}
    worker.signal(Signal::CONT).expect("it is still there");
    // It finds that its lease is over, and comes back as someone else.
    let job = fleet.ended(&[id]).await.remove(0);
    assert_eq!(job.state, "completed");
    let accepted =
        |fence: i64| fleet.entries().iter().any(|e| e.what == What::Accept && e.fence.get() == fence);
    while !accepted(job.fence) {
        worker.line().await.expect("the worker hears that its report is taken");
    }
    assert!(
        job.fence > begun.fence.get() && !accepted(begun.fence.get()),
        "only a new claim's report is accepted"
    );
    assert!(fleet.effects().values().all(|times| *times == 1));
    assert!(
        fleet.effects().contains_key(&(id, model::Fence::new(job.fence))),
        "the claim that counts did the work"
    );
}

#[tokio::test]
async fn a_drained_worker_loses_nothing_and_counts_nothing() {
    let mut fleet = Fleet::start(&["--lease", "30s"]).await;
    let ids = fleet.enqueue(40).await;
    let mut first = fleet.worker("first", &["--echo", "--work-ms", "100", "--concurrency", "4"]).await;
    hear(&mut first, What::Start).await;
    first.signal(Signal::TERM).expect("it was running");
    first.ended().await.expect("it drains");
    let _second = fleet.worker("second", &["--work-ms", "0"]).await;
    let jobs = fleet.ended(&ids).await;
    assert!(
        jobs.iter().all(|job| (job.state.as_str(), job.attempt, job.lost) == ("completed", 1, 0)),
        "{jobs:?}"
    );
    assert_eq!(fleet.effects().len(), ids.len(), "each job was done once");
    assert_eq!(fleet.metric("tenure_jobs_rescued_total", "").await, 0.0);
}
