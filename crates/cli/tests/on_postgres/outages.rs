//! The database goes away in every way it can; what was acknowledged stays, and work goes on by itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cli::effects::{self, What};
use cli::fleet::Process;
use model::JobId;
use pg_cluster::Cluster;
use rpc::wire;

use crate::proxy::{Cut, Proxy};
use crate::servers::{Producer, Servers, until};
use crate::support::{hear, http};

/// How often the database is killed; `cargo xtask soak` asks for more.
fn rounds() -> usize {
    std::env::var("TENURE_SOAK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// How long the database stands still; `cargo xtask soak` asks for a minute.
fn stall() -> Duration {
    let seconds = std::env::var("TENURE_SOAK_STALL").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(12))
}

async fn three_workers(servers: &mut Servers) -> Vec<Process> {
    let mut workers = Vec::new();
    for name in ["ann", "bob", "cyd"] {
        workers.push(servers.worker(0, name, &["--queue", "q", "--work-ms", "3"]).await);
    }
    workers
}

/// Waits until something more is acknowledged and something more was done; how long that took.
async fn flows_again(servers: &Servers, producer: &mut Producer, since: Instant) -> Duration {
    let goal = *producer.acknowledged.borrow() + 4;
    producer.acknowledged.wait_for(|count| *count >= goal).await.expect("the producer goes on");
    let before = servers.entries().len();
    until("work", || async { (servers.entries().len() > before).then_some(()) }).await;
    since.elapsed()
}

/// All of these completed, and each had its effect once under each fence.
async fn all_is_well(servers: &Servers, ids: &[JobId]) {
    let jobs = servers.ended(0, ids).await;
    let not_completed: Vec<_> = jobs.iter().filter(|job| job.state != "completed").collect();
    assert!(not_completed.is_empty(), "of {} jobs: {not_completed:?}", jobs.len());
    let entries = servers.entries();
    let effects: Vec<_> = entries.iter().filter(|entry| entry.what == What::Effect).collect();
    let unique: BTreeSet<_> = effects.iter().map(|entry| (entry.job, entry.fence)).collect();
    assert_eq!(unique.len(), effects.len(), "an effect twice under one fence");
    let done: BTreeSet<JobId> = unique.into_iter().map(|(job, _)| job).collect();
    assert!(ids.iter().all(|id| done.contains(id)), "a completed job had no effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_killed_again_and_again_loses_nothing() {
    let cluster = Cluster::start().expect("a cluster");
    let mut servers = Servers::start(&[&cluster.fresh_database()], &["--lease", "20s"]).await;
    let _workers = three_workers(&mut servers).await;
    let mut producer = Producer::start(&servers.urls, &["q"; 10], "{}", Duration::from_millis(2));
    let mut times = Vec::new();
    for round in 0..rounds() {
        let goal = *producer.acknowledged.borrow() + 50 + 7 * round;
        producer.acknowledged.wait_for(|count| *count >= goal).await.expect("the producer goes on");
        cluster.kill();
        cluster.restart().expect("it starts again");
        times.push(flows_again(&servers, &mut producer, Instant::now()).await);
    }
    let ids = producer.stop().await;
    println!("{} jobs, {} crashes; work flowed again after {times:.2?}", ids.len(), times.len());
    all_is_well(&servers, &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_found_by_the_same_url_and_has_everything() {
    let primary = Cluster::start().expect("a cluster");
    primary.create_database("jobs").expect("a database");
    let standby = primary.standby("second").expect("a standby");
    primary.make_synchronous("second").expect("a synchronous standby");
    let url = format!(
        "postgresql://{}@127.0.0.1:{},127.0.0.1:{}/jobs?target_session_attrs=read-write",
        primary.login(),
        primary.port(),
        standby.port()
    );
    let mut servers = Servers::start(&[&url], &["--lease", "20s"]).await;
    let _workers = three_workers(&mut servers).await;
    let mut producer = Producer::start(&servers.urls, &["q"; 10], "{}", Duration::from_millis(2));
    producer.acknowledged.wait_for(|count| *count >= 200).await.expect("the producer goes on");
    primary.kill();
    let killed = Instant::now();
    // The new primary has no standby of its own, and must not wait for one.
    standby.promote().expect("it is promoted");
    standby.configure("synchronous_standby_names", "").expect("it is set");
    let promoted = Instant::now();
    let took = flows_again(&servers, &mut producer, promoted).await;
    println!("work flowed again {took:.2?} after the promotion, {:.2?} after the kill", killed.elapsed());
    let ids = producer.stop().await;
    all_is_well(&servers, &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stands_still_is_named_and_costs_nobody_his_lease() {
    let cluster = Cluster::start().expect("a cluster");
    let mut servers = Servers::start(&[&cluster.fresh_database()], &["--lease", "8s"]).await;
    let _workers = three_workers(&mut servers).await;
    let mut long = servers.worker(0, "dan", &["--queue", "long", "--work-ms", "20000", "--echo"]).await;
    let job = wire::NewJob { queue: "long".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    let enqueued = servers.client(0).enqueue(request).await.expect("the enqueue is accepted");
    let long_id: JobId = enqueued.jobs[0].id.parse().expect("a job id");
    hear(&mut long, What::Start).await;
    let mut producer = Producer::start(&servers.urls, &["q"; 10], "{}", Duration::from_millis(20));
    producer.acknowledged.wait_for(|count| *count >= 100).await.expect("the producer goes on");

    cluster.freeze();
    let frozen = Instant::now();
    let (status, why) = http(&servers.urls[0], "GET", "/readyz", "").await;
    assert_eq!(status, 503, "{why}");
    assert!(why.starts_with("store unavailable: "), "{why}");
    assert_eq!(http(&servers.urls[0], "GET", "/healthz", "").await.0, 200);
    tokio::time::sleep_until((frozen + stall()).into()).await;
    cluster.thaw();
    let took = flows_again(&servers, &mut producer, Instant::now()).await;
    println!("work flowed again {took:.2?} after {:?} of stillness", stall());
    until("a ready server", || async {
        (http(&servers.urls[0], "GET", "/readyz", "").await.0 == 200).then_some(())
    })
    .await;
    let ids = producer.stop().await;
    all_is_well(&servers, &[&ids[..], &[long_id]].concat()).await;
    let started =
        servers.entries().iter().filter(|entry| entry.job == long_id && entry.what == What::Start).count();
    assert_eq!(started, 1, "the long job was started twice");
    assert!(!servers.log(0).contains("its lease ran out"), "a live worker was judged");
}

/// The first server cannot reach the database any more; its workers can reach it. They must not depend on it for what is
/// exclusive, and the other server takes them over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_cut_off_from_the_database_alone_lets_go_of_its_workers() {
    let cluster = Cluster::shared();
    let direct = cluster.fresh_database();
    let proxy = Proxy::to(&format!("http://127.0.0.1:{}", cluster.port())).await;
    let through = direct.replace(&format!(":{}/", cluster.port()), &format!(":{}/", port_of(&proxy.url)));
    assert_ne!(through, direct);
    let mut servers = Servers::start(&[&through, &direct], &["--lease", "8s"]).await;
    let set = wire::SetQueueRequest { name: "x".to_owned(), exclusive: Some(true), ..Default::default() };
    servers.client(1).set_queue(set).await.expect("the queue is set");
    let listed = || async {
        let seen = servers.client(0).servers_seen().await.ok()?;
        (seen.servers.len() == 2).then_some(())
    };
    until("two servers that know each other", listed).await;
    let jobs = ["q", "x"].map(|queue| wire::NewJob { queue: queue.to_owned(), ..Default::default() });
    let request = wire::EnqueueRequest { jobs: jobs.to_vec(), ..Default::default() };
    let answer = servers.client(1).enqueue(request).await.expect("the enqueue is accepted");
    let ids: Vec<JobId> = answer.jobs.iter().map(|job| job.id.parse().expect("a job id")).collect();
    let work = ["--work-ms", "15000", "--echo"];
    let mut ann = servers.worker(0, "ann", &[&["--queue", "q"], &work[..]].concat()).await;
    let mut bob = servers.worker(0, "bob", &[&["--queue", "x"], &work[..]].concat()).await;
    hear(&mut ann, What::Start).await;
    hear(&mut bob, What::Start).await;
    let _cyd = servers.worker(1, "cyd", &["--queue", "x", "--work-ms", "100"]).await;
    proxy.cut(Cut { to_server: true, to_worker: true });
    until("the take-over", || async { servers.log(1).contains("are taken over").then_some(()) }).await;
    let ended = servers.ended(1, &ids).await;
    assert_eq!((ended[0].state.as_str(), ended[0].lost), ("completed", 0), "the ordinary job just went on");
    assert_eq!(ended[1].state, "completed");
    proxy.cut(Cut::default());
    until("the first server's new beginning", || async {
        servers.log(0).contains("beginning anew").then_some(())
    })
    .await;
    let entries = servers.entries();
    let exclusive = entries.iter().filter(|entry| entry.job == ids[1]);
    let overlaps: Vec<_> = effects::hand_overs(exclusive).into_iter().filter(|(_, gap)| *gap < 0).collect();
    assert!(overlaps.is_empty(), "two runs at the same time: {overlaps:?}");
    // And it serves again.
    let job = wire::NewJob {
        queue: "q".to_owned(),
        payload: rpc::convert::payload("{\"work_ms\":1}"),
        ..Default::default()
    };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    let answer = until("an answer of the first server", || async {
        servers.client(0).enqueue(request.clone()).await.ok()
    })
    .await;
    servers.ended(0, &[answer.jobs[0].id.parse().expect("a job id")]).await;
    // It began anew once, and nothing is left of what it had before.
    let both_seen = || async {
        let seen =
            [servers.client(0).servers_seen().await.ok()?, servers.client(1).servers_seen().await.ok()?];
        seen.iter().all(|seen| seen.servers.len() == 2).then_some(())
    };
    until("two registries", both_seen).await;
    assert_eq!(servers.log(0).matches("beginning anew").count(), 1, "{}", servers.log(0));
}

fn port_of(url: &str) -> &str {
    url.rsplit(':').next().expect("a port")
}
