//! Three servers on one database that are killed and frozen at random, while twenty workers work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cli::effects::{self, What};
use model::{Fence, JobId};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rpc::wire;
use rustix::process::Signal;

use crate::backend::Backend;
use crate::servers::{Producer, Servers};

const SERVERS: usize = 3;
const WORKERS: usize = 20;
/// A server is away for less than this, and a worker's lease is longer by far: whoever loses its lease was judged wrongly.
const AWAY_MAX: Duration = Duration::from_secs(8);
const LEASE: &str = "20s";
/// Somebody has always been up for this long: time to take over, and for the workers to find it. Otherwise bad luck after bad
/// luck would keep workers from all servers for longer than their lease, and they would be right to lapse.
const STEADY: Duration = Duration::from_secs(12);
/// How long a row's own lease is.
const VERIFY_AFTER: Duration = Duration::from_secs(2);

/// How long the chaos lasts; `cargo xtask soak` asks for five minutes.
fn length() -> Duration {
    let seconds = std::env::var("TENURE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(30))
}

/// What is done to one server, and when that is over.
enum Fault {
    Killed { until: Instant },
    Frozen { until: Instant },
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_die_and_freeze_lose_nothing_and_rescue_nobody_wrongly() {
    let seed = std::env::var("TENURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(rand::random());
    println!("TENURE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let backend = Backend::new();
    let verify_after = format!("{}ms", VERIFY_AFTER.as_millis());
    let flags = ["--lease", LEASE, "--verify-after", &verify_after];
    let mut servers = Servers::start(&[backend.url(); SERVERS], &flags).await;
    let set = wire::SetQueueRequest { name: "x".to_owned(), exclusive: Some(true), ..Default::default() };
    servers.client(0).set_queue(set).await.expect("the queue is set");
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let name = format!("worker-{number}");
        let queues = ["--queue", "q", "--queue", "x", "--queue", "long"];
        let flags = [&queues[..], &["--work-ms", "60", "--concurrency", "4"]].concat();
        workers.push(servers.worker(number % SERVERS, &name, &flags).await);
    }
    let producer = Producer::start(&servers.urls, &["q", "q", "q", "x"], "{}", Duration::from_millis(10));
    // Their rows' leases run out several times while they run, and each time somebody is asked about their workers.
    let long = format!("{{\"work_ms\":{}}}", VERIFY_AFTER.as_millis() * 3);
    let slow_producer = Producer::start(&servers.urls, &["long"], &long, Duration::from_millis(300));

    let mut faults: BTreeMap<usize, Fault> = BTreeMap::new();
    let mut up_since: [Option<Instant>; SERVERS] = [None; SERVERS];
    let (mut kills, mut freezes) = (0, 0);
    let end = Instant::now() + length();
    while Instant::now() < end {
        for number in mend(&mut servers, &mut faults, Instant::now()).await {
            up_since[number] = Some(Instant::now());
        }
        let victim = rng.random_range(0..SERVERS);
        let is_steady = |number: &usize| up_since[*number].is_none_or(|since| since.elapsed() > STEADY);
        let is_up = |number: &usize| *number != victim && !faults.contains_key(number);
        if !faults.contains_key(&victim) && (0..SERVERS).any(|number| is_up(&number) && is_steady(&number)) {
            let until = Instant::now() + AWAY_MAX.mul_f64(rng.random_range(0.0..1.0));
            let fault = if rng.next_u32() % 2 == 0 {
                kills += 1;
                servers.process(victim).signal(Signal::KILL).expect("it was running");
                servers.process(victim).ended().await.expect("it is gone");
                Fault::Killed { until }
            } else {
                freezes += 1;
                servers.process(victim).signal(Signal::STOP).expect("it was running");
                Fault::Frozen { until }
            };
            faults.insert(victim, fault);
        }
        // The pace of the chaos, not a wait for anything.
        tokio::time::sleep(Duration::from_millis(rng.random_range(100..1_500))).await;
    }
    mend(&mut servers, &mut faults, end + AWAY_MAX).await;
    let ids = [producer.stop().await, slow_producer.stop().await].concat();
    let jobs = servers.ended(0, &ids).await;
    println!("{} jobs, {kills} kills, {freezes} freezes", jobs.len());

    let not_completed: Vec<_> = jobs.iter().filter(|job| job.state != "completed").collect();
    assert!(not_completed.is_empty(), "of {} jobs: {not_completed:?}", jobs.len());
    let entries = servers.entries();
    let mut effects: BTreeMap<(JobId, Fence), usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.what == What::Effect) {
        *effects.entry((entry.job, entry.fence)).or_default() += 1;
    }
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "effects twice under one fence: {twice:?}");
    let done: BTreeSet<JobId> = effects.keys().map(|(job, _)| *job).collect();
    assert!(ids.iter().all(|id| done.contains(id)), "a completed job had no effect");

    // Nobody takes a job from a worker that lives and works on it: whoever began a long one ended it.
    let is_long: BTreeSet<JobId> =
        jobs.iter().filter(|job| job.queue == "long").map(|job| job.id.parse().expect("a job id")).collect();
    let mut begun: BTreeMap<JobId, BTreeSet<Fence>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.what == What::Start && is_long.contains(&entry.job)) {
        begun.entry(entry.job).or_default().insert(entry.fence);
    }
    let taken_back: Vec<_> = begun.iter().filter(|(_, fences)| fences.len() > 1).collect();
    assert!(!begun.is_empty() && taken_back.is_empty(), "taken from workers that lived: {taken_back:?}");

    // Nobody takes an exclusive job from whoever may run it.
    for queue in ["x", "long"] {
        let ids = jobs.iter().filter(|job| job.queue == queue).map(|job| job.id.parse().expect("a job id"));
        let ids: BTreeSet<JobId> = ids.collect();
        let overlaps: Vec<_> = effects::hand_overs(entries.iter().filter(|entry| ids.contains(&entry.job)))
            .into_iter()
            .filter(|(_, gap)| *gap < 0)
            .collect();
        assert!(overlaps.is_empty(), "two runs at the same time in {queue}: {overlaps:?}");
    }

    // All workers were alive all the time, and no server was away for as long as a lease.
    for number in 0..SERVERS {
        let log = servers.log(number);
        let judged: Vec<&str> = log.lines().filter(|line| line.contains("its lease ran out")).collect();
        assert!(judged.is_empty(), "server {number} judged live workers: {judged:?}");
    }
    let taken = (0..SERVERS).map(|number| servers.log(number).matches("are taken over").count());
    assert!(taken.sum::<usize>() > 0, "nobody ever took over");
}

/// Ends faults whose time is over; whose.
async fn mend(servers: &mut Servers, faults: &mut BTreeMap<usize, Fault>, now: Instant) -> Vec<usize> {
    let is_over = |fault: &Fault| match fault {
        Fault::Killed { until } | Fault::Frozen { until } => *until <= now,
    };
    let over: Vec<usize> =
        faults.iter().filter(|(_, fault)| is_over(fault)).map(|(number, _)| *number).collect();
    for number in &over {
        match faults.remove(number) {
            Some(Fault::Frozen { .. }) => {
                servers.process(*number).signal(Signal::CONT).expect("it is still there");
            }
            _ => servers.run(*number).await,
        }
    }
    over
}
