//! At most one running, for handlers inside the worker's own process that heed nothing: only the end of that process stops
//! them, and someone must see to it in time.

use cli::effects::{self, What};
use cli::fleet::Process;
use model::JobId;
use rpc::wire;
use rustix::process::Signal;

use crate::proxy::{Cut, Proxy};
use crate::support::{Fleet, hear};

const FOREVER_MS: &str = "3600000";

async fn exclusive_fleet() -> Fleet {
    let fleet = Fleet::start(&["--lease", "2s"]).await;
    let set = wire::SetQueueRequest { name: "q".to_owned(), exclusive: Some(true), ..Default::default() };
    fleet.client.set_queue(set).await.expect("the queue is set");
    fleet
}

/// No two runs of one job at the same time, by what the handlers wrote down; and it did change hands.
fn check(fleet: &Fleet, jobs: &[JobId]) {
    let hand_overs = effects::hand_overs(&fleet.entries());
    for job in jobs {
        assert!(hand_overs.iter().any(|(moved, _)| moved == job), "{job} never changed hands");
    }
    for (job, margin) in hand_overs {
        assert!(margin > 0, "two runs of {job} at the same time, by {margin} ns");
    }
}

async fn starts(worker: &mut Process, count: usize) {
    for _ in 0..count {
        hear(worker, What::Start).await;
    }
}

/// The worker cannot reach its server; each handler blocks a thread of its runtime, which has one for each CPU.
async fn cut_off(handlers: usize) {
    let mut fleet = exclusive_fleet().await;
    let proxy = Proxy::to(&fleet.server.url).await;
    let deaf = ["--deaf", "--echo", "--concurrency", "16", "--work-ms", FOREVER_MS];
    let mut first = fleet.worker_at(&proxy.url, "first", &deaf).await;
    let jobs = fleet.enqueue(handlers).await;
    starts(&mut first, handlers).await;
    proxy.cut(Cut { to_server: true, to_worker: true });
    let mut second =
        fleet.guarded_worker("second", &["--echo", "--concurrency", "16", "--work-ms", "50"]).await;
    starts(&mut second, handlers).await;
    let status = first.ended().await.expect("it was ended");
    assert!(!status.success(), "it did not end by itself: {status}");
    fleet.ended(&jobs).await;
    check(&fleet, &jobs);
}

#[tokio::test]
async fn a_worker_that_cannot_stop_a_handler_ends_itself_in_time() {
    cut_off(1).await;
}

#[tokio::test]
async fn a_worker_without_a_thread_left_is_ended_by_its_guardian_in_time() {
    let threads = std::thread::available_parallelism().expect("a number").get();
    cut_off(threads).await;
}

#[tokio::test]
async fn a_frozen_worker_is_ended_by_its_guardian_in_time() {
    let mut fleet = exclusive_fleet().await;
    let mut first = fleet.guarded_worker("first", &["--echo", "--work-ms", FOREVER_MS]).await;
    let jobs = fleet.enqueue(4).await;
    starts(&mut first, 4).await;
    first.signal(Signal::STOP).expect("it was running");
    let mut second = fleet.guarded_worker("second", &["--echo", "--work-ms", "50"]).await;
    starts(&mut second, 4).await;
    first.ended().await.expect("a frozen process can be killed");
    fleet.ended(&jobs).await;
    check(&fleet, &jobs);
}

#[tokio::test]
async fn a_killed_workers_exclusive_handlers_go_on_elsewhere_at_its_guardians_word() {
    let mut fleet = exclusive_fleet().await;
    let mut first = fleet.guarded_worker("first", &["--echo", "--work-ms", FOREVER_MS]).await;
    let jobs = fleet.enqueue(4).await;
    starts(&mut first, 4).await;
    let mut second = fleet.guarded_worker("second", &["--echo", "--work-ms", "50"]).await;
    first.signal(Signal::KILL).expect("it was running");
    starts(&mut second, 4).await;
    fleet.ended(&jobs).await;
    check(&fleet, &jobs);
    assert_eq!(fleet.metric("tenure_handover_margin_seconds_count", "word").await, 4.0);
}

#[tokio::test]
async fn a_worker_without_a_guardian_gets_nothing_exclusive() {
    let mut fleet = exclusive_fleet().await;
    let _unguarded = fleet.worker("unguarded", &["--echo"]).await;
    let jobs = fleet.enqueue(3).await;
    let mut guarded = fleet.guarded_worker("guarded", &["--echo", "--work-ms", "1"]).await;
    starts(&mut guarded, 3).await;
    let ended = fleet.ended(&jobs).await;
    assert!(ended.iter().all(|job| job.attempt == 1), "{ended:?}");
}
