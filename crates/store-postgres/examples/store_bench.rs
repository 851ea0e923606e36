//! How fast the store is by itself, without servers or workers.
//!
//! ```text
//! cargo run --release -p store-postgres --example store_bench -- url=postgresql://… [jobs=100000] [batch=1000] [payload=100]
//!     [backlog=0] [in_flight=4] [rounds=2] [pace=200] [paced=2000] [tune=SQL]
//! ```
//!
//! The database should be empty: its schema named tenure is dropped first. Prints jobs a second by the wall clock; for
//! each job what the database's processes took in CPU time (if they run on this machine) and what was written ahead. The
//! last part shows that a claim costs the same whatever waits.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clock::SystemClock;
use model::{Clock, Hold, JobId, Kind, NewJob, Outcome, QueueName, Report, When, WorkerKey};
use store::{Claim, EnqueueBatch, JobStore};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

const LEASE: Duration = Duration::from_secs(60);

type Outcomes<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcomes<()> {
    let plan = Plan::from_args()?;
    println!("{plan:?}");
    let meter = Meter::connect(&plan.url).await?;
    meter
        .client
        .batch_execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS tenure CASCADE")
        .await?;
    let store = Arc::new(PostgresStore::connect(PostgresOptions::new(&plan.url)).await?);
    meter.client.batch_execute(&plan.tune).await?;
    for _ in 0..plan.rounds {
        let enqueued =
            meter.time(plan.jobs, enqueue(&store, &plan, plan.jobs, "default", 0, When::Now)).await?;
        let drained = meter.time(plan.jobs, drain(&store, &plan, plan.jobs, "default")).await?;
        let both = async {
            let producer = enqueue(&store, &plan, plan.jobs, "both", 0, When::Now);
            let consumer = drain(&store, &plan, plan.jobs, "both");
            let (produced, consumed) = tokio::join!(producer, consumer);
            produced.and(consumed)
        };
        let both = meter.time(plan.jobs, both).await?;
        println!("enqueue {enqueued}\ndrain   {drained}\nboth    {both}");
    }
    pace(&store, &plan).await?;
    if plan.backlog > 0 {
        backlog(&store, &meter, &plan).await?;
    }
    for line in meter.tables().await? {
        println!("{line}");
    }
    Ok(())
}

/// Keeps `in_flight` batches under way.
async fn enqueue(
    store: &Arc<PostgresStore>,
    plan: &Plan,
    jobs: usize,
    queue: &str,
    priority: i16,
    when: When,
) -> Outcomes<()> {
    let payload = Bytes::from(vec![b'x'; plan.payload]);
    let (kind, queue) = (Kind::new("send.mail")?, QueueName::new(queue)?);
    let mut under_way = JoinSet::new();
    for start in (0..jobs).step_by(plan.batch) {
        let count = plan.batch.min(jobs - start);
        let new =
            |_| NewJob { priority, when, ..NewJob::new(id(), queue.clone(), kind.clone(), payload.clone()) };
        let batch = EnqueueBatch { request_id: None, jobs: (0..count).map(new).collect() };
        let store = store.clone();
        if under_way.len() >= plan.in_flight {
            under_way.join_next().await.expect("some are under way")??;
        }
        under_way.spawn(async move { store.enqueue(batch).await });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}

/// Claims and finishes, one batch of each under way at the same time.
async fn drain(store: &Arc<PostgresStore>, plan: &Plan, jobs: usize, queue: &str) -> Outcomes<()> {
    let (claimed, mut to_finish) = mpsc::channel::<Vec<Hold>>(4);
    let finisher = {
        let store = store.clone();
        tokio::spawn(async move {
            let mut finished = 0;
            while let Some(holds) = to_finish.recv().await {
                let reports: Vec<Report> = holds.into_iter().map(report).collect();
                finished += store.finish(&worker(), reports).await?.len();
            }
            Ok::<usize, store::StoreError>(finished)
        })
    };
    let mut taken = 0;
    while taken < jobs {
        let batch = store.claim(claim(queue, plan.batch)?).await?;
        taken += batch.len();
        if batch.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        claimed.send(batch.into_iter().map(|claimed| claimed.hold).collect()).await?;
    }
    drop(claimed);
    assert_eq!(finisher.await??, jobs, "every job is finished once");
    Ok(())
}

/// Jobs that come one by one, and how long each takes until it is claimed.
async fn pace(store: &Arc<PostgresStore>, plan: &Plan) -> Outcomes<()> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / plan.pace);
    let queue = QueueName::new("paced")?;
    let mut tasks = JoinSet::new();
    for _ in 0..plan.paced {
        ticks.tick().await;
        let (store, queue) = (store.clone(), queue.clone());
        tasks.spawn(async move {
            let started = Instant::now();
            let job = NewJob::new(
                id(),
                queue,
                Kind::new("k").expect("a good kind"),
                Bytes::from_static(&[b'x'; 100]),
            );
            store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await?;
            let enqueued = started.elapsed();
            let claimed = store.claim(claim("paced", 1).expect("a good queue")).await?;
            let started = started.elapsed();
            let reports = claimed.iter().map(|claimed| report(claimed.hold)).collect();
            store.finish(&worker(), reports).await?;
            Ok::<_, store::StoreError>((enqueued, started))
        });
    }
    let (mut enqueued, mut started) = (Vec::new(), Vec::new());
    while let Some(times) = tasks.join_next().await {
        let (one, other) = times??;
        enqueued.push(one);
        started.push(other);
    }
    println!("at {}/s: enqueue {}   start {}", plan.pace, percentiles(enqueued), percentiles(started));
    Ok(())
}

/// Claims of 100 from a short queue, from a long one, and from one with many scheduled jobs at top priority.
async fn backlog(store: &Arc<PostgresStore>, meter: &Meter, plan: &Plan) -> Outcomes<()> {
    let later = When::After(Duration::from_secs(24 * 3600));
    enqueue(store, plan, 11_000, "short", 0, When::Now).await?;
    enqueue(store, plan, plan.backlog, "long", 0, When::Now).await?;
    enqueue(store, plan, plan.backlog, "later", i16::MAX, later).await?;
    enqueue(store, plan, 11_000, "later", 0, When::Now).await?;
    for queue in ["short", "long", "later", "short", "long", "later"] {
        let claims = async {
            for _ in 0..50 {
                let claimed = store.claim(claim(queue, 100)?).await?;
                assert_eq!(claimed.len(), 100, "{queue} must have enough jobs");
            }
            Ok(())
        };
        println!("claims of 100 from {queue:<6} {}", meter.time(5_000, claims).await?);
    }
    let started = Instant::now();
    let stats = store.stats().await?;
    println!("stats of {} queues {:?}", stats.len(), started.elapsed());
    Ok(())
}

fn claim(queue: &str, limit: usize) -> Outcomes<Claim> {
    let queues = vec![QueueName::new(queue)?];
    Ok(Claim { holder: worker(), queues, limit, bytes_max: usize::MAX, lease: LEASE, exclusive: false })
}

fn worker() -> WorkerKey {
    WorkerKey::new("0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f").expect("a UUID is a good key")
}

fn report(hold: Hold) -> Report {
    Report { hold, outcome: Outcome::Completed { result: Bytes::new() } }
}

fn id() -> JobId {
    JobId::v7(SystemClock.wall(), rand::random())
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!("p50 {:?} p90 {:?} p99 {:?}", at(0.5), at(0.9), at(0.99))
}

/// What to do, from `name=value` arguments.
#[derive(Debug)]
struct Plan {
    url: String,
    jobs: usize,
    batch: usize,
    payload: usize,
    backlog: usize,
    in_flight: usize,
    rounds: usize,
    pace: u32,
    paced: usize,
    tune: String,
}

impl Plan {
    fn from_args() -> Outcomes<Self> {
        let mut plan = Plan {
            url: String::new(),
            jobs: 100_000,
            batch: 1_000,
            payload: 100,
            backlog: 0,
            in_flight: 4,
            rounds: 2,
            pace: 200,
            paced: 2_000,
            tune: String::new(),
        };
        for argument in std::env::args().skip(1) {
            let (name, value) = argument.split_once('=').ok_or("arguments have the form name=value")?;
            match name {
                "url" => plan.url = value.to_owned(),
                "jobs" => plan.jobs = value.parse()?,
                "batch" => plan.batch = value.parse()?,
                "payload" => plan.payload = value.parse()?,
                "backlog" => plan.backlog = value.parse()?,
                "in_flight" => plan.in_flight = value.parse()?,
                "rounds" => plan.rounds = value.parse()?,
                "pace" => plan.pace = value.parse()?,
                "paced" => plan.paced = value.parse()?,
                "tune" => plan.tune = value.to_owned(),
                _ => return Err(format!("there is no argument {name}").into()),
            }
        }
        if plan.url.is_empty() {
            return Err("give url=postgresql://…".into());
        }
        Ok(plan)
    }
}

/// Measures a stretch of work.
struct Meter {
    client: Client,
}

impl Meter {
    async fn connect(url: &str) -> Outcomes<Self> {
        let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(driver);
        Ok(Meter { client })
    }

    async fn time(&self, jobs: usize, work: impl Future<Output = Outcomes<()>>) -> Outcomes<String> {
        let (wal, cpu) = (self.written().await?, self.cpu().await?);
        let (own, started) = (own_cpu(), Instant::now());
        work.await?;
        let (wall, own) = (started.elapsed().as_secs_f64(), own_cpu() - own);
        let cpu = self.cpu().await?.saturating_sub(cpu).as_secs_f64() * 1e6;
        let wal = self.written().await? - wal;
        let n = jobs as f64;
        Ok(format!(
            "{:>7.0}/s   database {:>5.1} µs, ours {:>4.1} µs, log {:>4.0} bytes each",
            n / wall,
            cpu / n,
            own.as_secs_f64() * 1e6 / n,
            wal as f64 / n
        ))
    }

    /// Bytes written ahead so far.
    async fn written(&self) -> Outcomes<i64> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        Ok(self.client.query_one(sql, &[]).await?.try_get(0)?)
    }

    /// CPU time of all processes of the database that serve us.
    async fn cpu(&self) -> Outcomes<Duration> {
        let rows = self
            .client
            .query("SELECT pid FROM pg_stat_activity WHERE application_name = 'tenure'", &[])
            .await?;
        let nanos = rows.iter().filter_map(|row| {
            let pid: i32 = row.try_get(0).ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        Ok(Duration::from_nanos(nanos.sum()))
    }

    async fn tables(&self) -> Outcomes<Vec<String>> {
        let sql = "
            SELECT relname::text, n_live_tup, n_dead_tup, autovacuum_count, pg_total_relation_size(relid) / 1024
            FROM pg_stat_user_tables WHERE schemaname = 'tenure' ORDER BY 5 DESC LIMIT 4";
        let rows = self.client.query(sql, &[]).await?;
        let line = |row: &tokio_postgres::Row| {
            let number = |column: usize| row.get::<_, i64>(column);
            format!(
                "{:<12} {:>8} live {:>8} dead, vacuumed {} times, {:>8} KiB",
                row.get::<_, String>(0),
                number(1),
                number(2),
                number(3),
                number(4)
            )
        };
        Ok(rows.iter().map(line).collect())
    }
}

/// CPU time of this process so far.
fn own_cpu() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let nanos = threads.flatten().filter_map(|thread| {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
