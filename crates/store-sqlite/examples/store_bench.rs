//! How fast the store is by itself, without network or workers.
//!
//! ```text
//! cargo run --release -p store-sqlite --example store_bench -- [jobs=300000] [batch=1000] [payload=100] [backlog=1000000]
//!     [in_flight=2] [rounds=2] [fsync=true] [dir=DIR]
//! ```
//!
//! Prints jobs a second by the wall clock and what each job cost the writer thread in CPU time, which is the figure to
//! compare on a machine that does other things besides. The last part shows that a claim costs the same whatever waits.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clock::SystemClock;
use model::{
    Clock, Hold, HolderEnd, JobId, Kind, NewJob, Nonce, Outcome, QueueName, RegistryId, Report, When,
    WorkerKey,
};
use store::{Claim, Enlist, EnqueueBatch, JobStore, Retention};
use store_sqlite::{OnCommit, SqliteOptions, SqliteStore};
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(60);

/// How long each commit took.
static COMMITS: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let plan = Plan::from_args()?;
    println!("{plan:?}");
    let scratch = tempfile::tempdir_in(&plan.dir)?;
    let store = open(scratch.path(), &plan)?;
    for _ in 0..plan.rounds {
        COMMITS.lock().expect("nobody panics with it").clear();
        let enqueue = enqueue(&store, &plan, plan.jobs, "default", 0, When::Now).await?;
        let (claim, finish) = claim_and_finish(&store, &plan).await?;
        println!(
            "enqueue {enqueue}   claim {claim}   finish {finish}   claim+finish {}",
            claim.then(&finish)
        );
        println!("    commits {}", commit_times());
    }
    println!("purge {}", purge(&store).await?);
    drop(store);
    if plan.backlog > 0 {
        backlog(&plan).await?;
        rescue(&plan).await?;
        workers(&plan).await?;
    }
    Ok(())
}

/// Claims of 100 from a short queue, from a long one, and from one with many scheduled jobs at top priority.
async fn backlog(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir_in(&plan.dir)?;
    let store = open(scratch.path(), plan)?;
    let later = When::After(Duration::from_secs(24 * 3600));
    enqueue(&store, plan, 11_000, "short", 0, When::Now).await?;
    enqueue(&store, plan, plan.backlog, "long", 0, When::Now).await?;
    enqueue(&store, plan, plan.backlog, "later", i16::MAX, later).await?;
    enqueue(&store, plan, 11_000, "later", 0, When::Now).await?;
    // In turns, so that whatever else the machine does hits all of them alike.
    let mut cpu: HashMap<&str, Vec<f64>> = HashMap::new();
    for _ in 0..100 {
        for queue in ["short", "long", "later"] {
            let before = writer_cpu();
            let claimed = store.claim(claim(queue, 100)).await?;
            assert_eq!(claimed.len(), 100, "{queue} must have enough jobs");
            cpu.entry(queue).or_default().push((writer_cpu() - before).as_secs_f64() * 1e6);
        }
    }
    let mut middle = |queue: &str| {
        let times = cpu.get_mut(queue).expect("every queue was measured");
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (short, long, scheduled) = (middle("short"), middle("long"), middle("later"));
    println!("claim of 100, median writer CPU:");
    println!("  1,000 to 11,000 available        {short:>7.0} µs");
    println!("  {:>9} available              {long:>7.0} µs  ({:.2}×)", plan.backlog, long / short);
    println!("  {:>9} scheduled at the top   {scheduled:>7.0} µs  ({:.2}×)", plan.backlog, scheduled / short);
    let started = Instant::now();
    let stats = store.stats().await?;
    println!("stats of {} queues {:?}", stats.len(), started.elapsed());
    drop(store);
    let started = Instant::now();
    let store = open(scratch.path(), plan)?;
    println!("open {:?}", started.elapsed());
    drop(store);
    Ok(())
}

/// Takes back the jobs of many silent holders, by their leases and by name.
async fn rescue(plan: &Plan) -> Result<(), Box<dyn Error>> {
    const HOLDERS: usize = 1_000;
    const HELD_BY_EACH: usize = 100;
    let scratch = tempfile::tempdir_in(&plan.dir)?;
    let store = open(scratch.path(), plan)?;
    enqueue(&store, plan, HOLDERS * HELD_BY_EACH, "default", 0, When::Now).await?;
    for by_name in [false, true] {
        let holders: Vec<WorkerKey> = (0..HOLDERS)
            .map(|n| WorkerKey::new(&format!("worker-{by_name}-{n}")))
            .collect::<Result<_, _>>()?;
        for holder in &holders {
            let claim = Claim {
                holder: holder.clone(),
                lease: Duration::from_millis(1),
                ..claim("default", HELD_BY_EACH)
            };
            store.claim(claim).await?;
        }
        let deadlines = Instant::now();
        store.deadlines(RegistryId::ONLY).await?;
        let deadlines = deadlines.elapsed();
        let started = Instant::now();
        let mut rescued = 0;
        let mut looking = Duration::ZERO;
        if by_name {
            for holder in &holders {
                store.retire(holder, HolderEnd::Left, RegistryId::ONLY).await?;
                rescued += store.reap_holder(holder, false).await?.len();
            }
        } else {
            loop {
                let look = Instant::now();
                let seen = store.expired(RegistryId::ONLY, 1_000).await?;
                looking += look.elapsed();
                if seen.is_empty() {
                    break;
                }
                rescued += store.reap(seen).await?.len();
            }
        }
        println!(
            "rescue of {rescued} jobs of {HOLDERS} holders {}: {:?} (looking {looking:?}); deadlines {deadlines:?}",
            if by_name { "by name" } else { "by lease" },
            started.elapsed()
        );
    }
    Ok(())
}

/// Enlists many workers, most of which end, pushes the leases of what the others hold, and lets each go on under a new
/// key.
async fn workers(plan: &Plan) -> Result<(), Box<dyn Error>> {
    const ACTIVE: usize = 1_000;
    const ENDED: usize = 100_000;
    const HELD_BY_EACH: usize = 100;
    let scratch = tempfile::tempdir_in(&plan.dir)?;
    let store = open(scratch.path(), plan)?;
    let enlist = |key: String| -> Result<Enlist, Box<dyn Error>> {
        Ok(Enlist {
            key: WorkerKey::new(&key)?,
            nonce: Nonce::new(7),
            registry: RegistryId::ONLY,
            pings: false,
            grant: LEASE,
            name: "bench".to_owned(),
        })
    };
    let registry = RegistryId::ONLY;
    let active: Vec<Enlist> = (0..ACTIVE).map(|n| enlist(format!("active-{n}"))).collect::<Result<_, _>>()?;
    store.enlist(active.clone()).await?;
    let started = Instant::now();
    let roster = store.roster(registry).await?.len();
    let alone = started.elapsed();
    let ended: Vec<Enlist> = (0..ENDED).map(|n| enlist(format!("ended-{n}"))).collect::<Result<_, _>>()?;
    let meter = Meter::start();
    for workers in ended.chunks(1_000) {
        store.enlist(workers.to_vec()).await?;
    }
    println!("enlist {}", meter.stop(ENDED));
    let mut under_way = JoinSet::new();
    for worker in ended {
        let store = store.clone();
        under_way.spawn(async move { store.retire(&worker.key, HolderEnd::Expired, RegistryId::ONLY).await });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    let started = Instant::now();
    assert_eq!(store.roster(registry).await?.len(), roster, "who ended is not there");
    println!("roster of {roster} workers {alone:?}, with {ENDED} that ended {:?}", started.elapsed());

    enqueue(&store, plan, ACTIVE * HELD_BY_EACH, "default", 0, When::Now).await?;
    let mut held = Vec::new();
    for worker in &active {
        let lease = Duration::from_millis(1);
        let claim = Claim { holder: worker.key.clone(), lease, ..claim("default", HELD_BY_EACH) };
        held.push(store.claim(claim).await?.into_iter().map(|claimed| claimed.hold).collect::<Vec<Hold>>());
    }
    let mut pushing = Rate::default();
    loop {
        let seen = store.expired(RegistryId::ONLY, 1_000).await?;
        if seen.is_empty() {
            break;
        }
        let meter = Meter::start();
        let pushed = store.push(seen, LEASE).await?;
        pushing.add(meter.stop(pushed as usize));
    }
    println!("push {pushing}");
    let successors: Vec<Enlist> =
        (0..ACTIVE).map(|n| enlist(format!("new-{n}"))).collect::<Result<_, _>>()?;
    store.enlist(successors.clone()).await?;
    let meter = Meter::start();
    for ((former, successor), holds) in active.iter().zip(&successors).zip(held) {
        let moved = store.succeed(&former.key, &successor.key, holds).await?;
        assert_eq!(moved, [true; HELD_BY_EACH], "all of it moves");
    }
    println!("succeed {}", meter.stop(ACTIVE * HELD_BY_EACH));
    Ok(())
}

/// Keeps `in_flight` batches under way.
async fn enqueue(
    store: &Arc<SqliteStore>,
    plan: &Plan,
    jobs: usize,
    queue: &'static str,
    priority: i16,
    when: When,
) -> Result<Rate, Box<dyn Error>> {
    let payload = Bytes::from(vec![b'x'; plan.payload]);
    let kind = Kind::new("send.mail")?;
    let queue = QueueName::new(queue)?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64
        ^ Instant::now().elapsed().as_nanos() as u64
        ^ writer_cpu().as_nanos() as u64;
    let mut under_way = JoinSet::new();
    let meter = Meter::start();
    for start in (0..jobs).step_by(plan.batch) {
        let count = plan.batch.min(jobs - start);
        let jobs = (0..count).map(|_| NewJob {
            priority,
            when,
            ..NewJob::new(id(&mut random), queue.clone(), kind.clone(), payload.clone())
        });
        let batch = EnqueueBatch { request_id: None, jobs: jobs.collect() };
        let store = store.clone();
        if under_way.len() >= plan.in_flight {
            under_way.join_next().await.expect("some are under way")??;
        }
        under_way.spawn(async move { store.enqueue(batch).await });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(meter.stop(jobs))
}

async fn claim_and_finish(store: &Arc<SqliteStore>, plan: &Plan) -> Result<(Rate, Rate), Box<dyn Error>> {
    let holder = worker();
    let (mut claiming, mut finishing) = (Rate::default(), Rate::default());
    loop {
        let meter = Meter::start();
        let claimed = store.claim(claim("default", plan.batch)).await?;
        claiming.add(meter.stop(claimed.len()));
        if claimed.is_empty() {
            return Ok((claiming, finishing));
        }
        let reports = claimed.iter().map(|claimed| report(claimed.hold)).collect();
        let meter = Meter::start();
        let finished = store.finish(&holder, reports).await?;
        finishing.add(meter.stop(finished.len()));
    }
}

async fn purge(store: &Arc<SqliteStore>) -> Result<Rate, Box<dyn Error>> {
    let retention = Retention { completed: Duration::ZERO, dead: Duration::ZERO };
    let mut purging = Rate::default();
    loop {
        let meter = Meter::start();
        let purged = store.purge(retention, 1_000).await? as usize;
        purging.add(meter.stop(purged));
        if purged == 0 {
            return Ok(purging);
        }
    }
}

fn open(dir: &Path, plan: &Plan) -> Result<Arc<SqliteStore>, Box<dyn Error>> {
    let on_commit: OnCommit = Arc::new(|took, _| COMMITS.lock().expect("nobody panics with it").push(took));
    let options = SqliteOptions { fsync: plan.fsync, on_commit: Some(on_commit), ..SqliteOptions::new(dir) };
    Ok(Arc::new(SqliteStore::open(options, Arc::new(SystemClock))?))
}

fn commit_times() -> String {
    let mut times = COMMITS.lock().expect("nobody panics with it").clone();
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).or(times.last());
    format!("{}: p50 {:?} p90 {:?} p99 {:?} max {:?}", times.len(), at(0.5), at(0.9), at(0.99), times.last())
}

fn claim(queue: &str, limit: usize) -> Claim {
    let queues = vec![QueueName::new(queue).expect("our queues have good names")];
    Claim { holder: worker(), queues, limit, bytes_max: usize::MAX, lease: LEASE, exclusive: false }
}

fn worker() -> WorkerKey {
    WorkerKey::new("0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f").expect("a UUID is a good key")
}

fn report(hold: Hold) -> Report {
    Report { hold, outcome: Outcome::Completed { result: Bytes::new() } }
}

fn id(random: &mut u64) -> JobId {
    let mut next = || {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        random.to_le_bytes()
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&next());
    bytes[8..].copy_from_slice(&next()[..2]);
    JobId::v7(SystemClock.wall(), bytes)
}

/// What to do, from `name=value` arguments.
#[derive(Debug)]
struct Plan {
    jobs: usize,
    batch: usize,
    payload: usize,
    backlog: usize,
    in_flight: usize,
    rounds: usize,
    fsync: bool,
    dir: String,
}

impl Plan {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut plan = Plan {
            jobs: 300_000,
            batch: 1_000,
            payload: 100,
            backlog: 1_000_000,
            in_flight: 2,
            rounds: 2,
            fsync: true,
            dir: std::env::temp_dir().display().to_string(),
        };
        for argument in std::env::args().skip(1) {
            let (name, value) = argument.split_once('=').ok_or("arguments have the form name=value")?;
            match name {
                "jobs" => plan.jobs = value.parse()?,
                "batch" => plan.batch = value.parse()?,
                "payload" => plan.payload = value.parse()?,
                "backlog" => plan.backlog = value.parse()?,
                "in_flight" => plan.in_flight = value.parse()?,
                "rounds" => plan.rounds = value.parse()?,
                "fsync" => plan.fsync = value.parse()?,
                "dir" => plan.dir = value.to_owned(),
                _ => return Err(format!("there is no argument {name}").into()),
            }
        }
        Ok(plan)
    }
}

/// Measures a stretch of work.
struct Meter {
    started: Instant,
    cpu: Duration,
}

impl Meter {
    fn start() -> Self {
        Meter { started: Instant::now(), cpu: writer_cpu() }
    }

    fn stop(self, jobs: usize) -> Rate {
        Rate { jobs, wall: self.started.elapsed(), cpu: writer_cpu().saturating_sub(self.cpu) }
    }
}

#[derive(Default)]
struct Rate {
    jobs: usize,
    wall: Duration,
    cpu: Duration,
}

impl Rate {
    fn add(&mut self, more: Rate) {
        self.jobs += more.jobs;
        self.wall += more.wall;
        self.cpu += more.cpu;
    }

    /// Both, one after the other, for the same jobs.
    fn then(&self, next: &Rate) -> Rate {
        Rate { jobs: self.jobs, wall: self.wall + next.wall, cpu: self.cpu + next.cpu }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let jobs = self.jobs as f64;
        write!(f, "{:.0}/s ({:.2} µs)", jobs / self.wall.as_secs_f64(), self.cpu.as_secs_f64() * 1e6 / jobs)
    }
}

/// CPU time of the writer thread so far.
fn writer_cpu() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let nanos = threads.flatten().find_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        if name.trim() != "store-writer" {
            return None;
        }
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    });
    Duration::from_nanos(nanos.unwrap_or(0))
}
