//! Trouble with the database: a refusal to the caller, nothing half done, and back to work by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::{Hold, JobId, Kind, NewJob, Outcome, QueueName, RegistryId, Report, RequestId, State, WorkerKey};
use pg_cluster::{Cluster, Options};
use store::{Cancelled, Claim, EnqueueBatch, Finished, JobFilter, JobStore, Page, StoreError};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// Longer than the store needs to find out that the database is back.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often something that comes by itself is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn job_id(number: u64) -> JobId {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    JobId::from_bytes(id)
}

fn batch(first: u64, count: u64) -> EnqueueBatch {
    let job = |number: u64| {
        let (queue, kind) = (QueueName::new("q").unwrap(), Kind::new("k").unwrap());
        NewJob::new(job_id(number), queue, kind, Bytes::from_static(b"payload"))
    };
    EnqueueBatch { request_id: None, jobs: (first..first + count).map(job).collect() }
}

async fn connect(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(PostgresOptions::new(url)).await.unwrap())
}

/// Waits until the store has found its database again, without help: whatever is asked of it is answered.
async fn comes_back(store: &PostgresStore) {
    let begun = Instant::now();
    while let Err(error) = ask_everything(store).await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(begun.elapsed() < PATIENCE, "the store must come back by itself: {error}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Verbs of every sort that change nothing: each sort has a connection of its own.
async fn ask_everything(store: &PostgresStore) -> Result<(), StoreError> {
    let nobody = WorkerKey::new("nobody").unwrap();
    store.check().await?;
    store.enqueue(EnqueueBatch::default()).await?;
    store.claim(claim(&nobody, 0)).await?;
    store.finish(&nobody, Vec::new()).await?;
    store.renew(&nobody, Vec::new(), Duration::from_secs(1)).await?;
    store.progress(&nobody, Vec::new()).await?;
    store.stats().await?;
    store.beat(RegistryId::ONLY).await?;
    store.list(JobFilter::default(), Page { before: None, limit: 0, bytes_max: usize::MAX }).await?;
    Ok(())
}

/// All jobs there are. Their counts must be those that the store keeps.
async fn stored(store: &PostgresStore) -> Vec<(JobId, State)> {
    let page = Page { before: None, limit: 1_000_000, bytes_max: usize::MAX };
    let jobs = store.list(JobFilter::default(), page).await.unwrap();
    let mut counts = [0; 6];
    jobs.iter().for_each(|job| counts[job.state as usize] += 1);
    let mut kept = [0; 6];
    for stats in store.stats().await.unwrap() {
        (0..6).for_each(|state| kept[state] += stats.counts[state]);
    }
    assert_eq!(kept, counts, "the counts must be those of the jobs");
    jobs.iter().map(|job| (job.id, job.state)).collect()
}

/// A connection of our own, past the store.
async fn raw(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

/// What callers were told while there was trouble.
#[derive(Default)]
struct Told {
    enqueued: BTreeSet<JobId>,
    completed: BTreeSet<JobId>,
    /// Those of a call that failed: they may be there or not.
    unsure: Vec<Vec<JobId>>,
}

fn claim(holder: &WorkerKey, limit: usize) -> Claim {
    Claim {
        holder: holder.clone(),
        queues: vec![QueueName::new("q").unwrap()],
        limit,
        bytes_max: usize::MAX,
        lease: Duration::from_secs(600),
        exclusive: false,
    }
}

/// Enqueues batches until it is refused.
async fn produce(store: Arc<PostgresStore>, from: u64, acknowledged: Arc<AtomicU64>) -> Told {
    let mut told = Told::default();
    for first in (from..).step_by(10) {
        let ids = (first..first + 10).map(job_id);
        match store.enqueue(batch(first, 10)).await {
            Ok(_) => told.enqueued.extend(ids),
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                told.unsure.push(ids.collect());
                break;
            }
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    told
}

/// Claims and completes until it is refused.
async fn work(store: Arc<PostgresStore>, name: &str, acknowledged: Arc<AtomicU64>) -> Told {
    let mut told = Told::default();
    let holder = WorkerKey::new(name).unwrap();
    while let Ok(claimed) = store.claim(claim(&holder, 20)).await {
        let holds: Vec<Hold> = claimed.iter().map(|claimed| claimed.hold).collect();
        let outcome = Outcome::Completed { result: Bytes::new() };
        let reports = holds.iter().map(|hold| Report { hold: *hold, outcome: outcome.clone() }).collect();
        match store.finish(&holder, reports).await {
            Ok(answers) => {
                assert!(answers.iter().all(|answer| matches!(answer, Finished::Done { .. })), "{answers:?}");
                told.completed.extend(holds.iter().map(|hold| hold.job));
            }
            Err(_) => break,
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    told
}

/// A store under load, of which everyone works until he is refused.
struct Load {
    callers: JoinSet<Told>,
    acknowledged: Arc<AtomicU64>,
}

impl Load {
    fn start(store: &Arc<PostgresStore>) -> Self {
        let (mut callers, acknowledged) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        for number in 0..4 {
            callers.spawn(produce(store.clone(), number * 1_000_000, acknowledged.clone()));
        }
        for name in ["w1", "w2"] {
            let (store, acknowledged) = (store.clone(), acknowledged.clone());
            callers.spawn(async move { work(store, name, acknowledged).await });
        }
        Load { callers, acknowledged }
    }

    /// Waits until so many calls were answered.
    async fn acknowledged(&self, calls: u64) {
        let begun = Instant::now();
        while self.acknowledged.load(Ordering::Relaxed) < calls {
            assert!(begun.elapsed() < PATIENCE, "the load must go on");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What everyone was told before he was refused.
    async fn refused(self) -> Told {
        let mut all = Told::default();
        for told in self.callers.join_all().await {
            all.enqueued.extend(told.enqueued);
            all.completed.extend(told.completed);
            all.unsure.extend(told.unsure);
        }
        all
    }
}

/// Everything that was acknowledged is there, and of what was not, whole batches or nothing.
async fn check_kept(store: &PostgresStore, told: &Told) {
    let jobs = stored(store).await;
    let ids: BTreeSet<JobId> = jobs.iter().map(|(id, _)| *id).collect();
    let missing: Vec<&JobId> = told.enqueued.difference(&ids).collect();
    assert_eq!(missing, Vec::<&JobId>::new(), "acknowledged jobs are gone");
    let ended: BTreeSet<JobId> =
        jobs.iter().filter(|(_, state)| *state == State::Completed).map(|(id, _)| *id).collect();
    let undone: Vec<&JobId> = told.completed.difference(&ended).collect();
    assert_eq!(undone, Vec::<&JobId>::new(), "acknowledged reports are gone");
    let mut known = told.enqueued.clone();
    for batch in &told.unsure {
        let there = batch.iter().filter(|id| ids.contains(id)).count();
        assert!(there == 0 || there == batch.len(), "half a batch is there: {there} of {}", batch.len());
        known.extend(batch);
    }
    assert!(ids.is_subset(&known), "there are jobs that nobody enqueued");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_that_is_killed_under_load_loses_nothing_it_acknowledged() {
    // Whoever set the server up did not care for the last few commits. We do.
    let careless = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let settings = careless.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let cluster = Options { settings, ..Options::default() }.start().unwrap();
    let store = connect(&cluster.fresh_database()).await;
    for _ in 0..2 {
        let load = Load::start(&store);
        load.acknowledged(50).await;
        tokio::task::block_in_place(|| cluster.kill());
        let told = load.refused().await;
        let refusal = store.check().await.unwrap_err();
        assert!(matches!(refusal, StoreError::Unavailable(_)), "{refusal}");
        tokio::task::block_in_place(|| cluster.restart()).unwrap();
        comes_back(&store).await;
        check_kept(&store, &told).await;
        // What the next round enqueues is new.
        let ids: Vec<JobId> = stored(&store).await.into_iter().map(|(id, _)| id).collect();
        remove(&store, ids).await;
    }
}

/// Makes room for another round: ends what has not ended, and purges all.
async fn remove(store: &PostgresStore, ids: Vec<JobId>) {
    for answer in store.cancel(ids).await.unwrap() {
        if let Cancelled::Asked { hold, holder } = answer {
            let report = Report { hold, outcome: Outcome::HandedBack };
            store.finish(&holder, vec![report]).await.unwrap();
        }
    }
    let nothing_kept = store::Retention { completed: Duration::ZERO, dead: Duration::ZERO };
    store.purge(nothing_kept, 1_000_000).await.unwrap();
    assert_eq!(stored(store).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_that_hangs_is_an_error_in_time_and_comes_back() {
    let cluster = Cluster::start().unwrap();
    let store = connect(&cluster.fresh_database()).await;
    let load = Load::start(&store);
    load.acknowledged(20).await;
    cluster.freeze();
    let begun = Instant::now();
    let told = load.refused().await;
    assert!(begun.elapsed() < Duration::from_secs(30), "callers waited for {:?}", begun.elapsed());
    cluster.thaw();
    comes_back(&store).await;
    check_kept(&store, &told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn store_that_finds_no_connection_says_so_and_gets_one_later() {
    let cluster = Cluster::start().unwrap();
    let superuser = cluster.fresh_database();
    let name = superuser.rsplit('/').next().unwrap().to_owned();
    cluster.psql(&name, &format!("CREATE ROLE app LOGIN; ALTER DATABASE {name} OWNER TO app")).unwrap();
    let url = cluster.socket_url(&name).replace("//tenure@", "//app@");
    let store = connect(&url).await;
    store.check().await.unwrap();

    cluster.psql(&name, "ALTER ROLE app CONNECTION LIMIT 0").unwrap();
    let begun = Instant::now();
    loop {
        // From now on nobody gets in; whoever was on the way in when the limit came is put out with the others.
        let put_out = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'";
        cluster.psql(&name, put_out).unwrap();
        match store.check().await {
            Err(refusal) if refusal.to_string().contains("no connection left") => break,
            answer => assert!(begun.elapsed() < PATIENCE, "the reason must become known: {answer:?}"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let refusal = PostgresStore::connect(PostgresOptions::new(&url)).await.unwrap_err().to_string();
    assert!(refusal.contains("no connection left"), "{refusal}");

    cluster.psql(&name, "ALTER ROLE app CONNECTION LIMIT -1").unwrap();
    comes_back(&store).await;
    store.enqueue(batch(1, 3)).await.unwrap();
    assert_eq!(stored(&store).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn store_follows_its_database_to_a_standby_that_was_promoted() {
    let primary = Cluster::start().unwrap();
    let first = primary.fresh_database();
    let name = first.rsplit('/').next().unwrap();
    let standby = tokio::task::block_in_place(|| {
        let standby = primary.standby("beside")?;
        primary.make_synchronous("beside")?;
        Ok::<_, pg_cluster::ClusterError>(standby)
    })
    .unwrap();

    // A standby alone is no place to write to.
    let refusal = PostgresStore::connect(PostgresOptions::new(standby.url(name))).await.unwrap_err();
    assert!(refusal.to_string().contains("read-only"), "{refusal}");

    // The standby comes first in the URL, and is passed over.
    let (one, other) = (standby.port(), primary.port());
    let url = format!("postgresql://{}@127.0.0.1:{one},127.0.0.1:{other}/{name}", primary.login());
    let store = connect(&url).await;
    let load = Load::start(&store);
    load.acknowledged(20).await;
    tokio::task::block_in_place(|| primary.kill());
    let told = load.refused().await;
    tokio::task::block_in_place(|| standby.promote()).unwrap();
    comes_back(&store).await;
    check_kept(&store, &told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_that_turns_read_only_is_an_error_and_not_a_wrong_answer() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database();
    let store = connect(&url).await;
    store.enqueue(batch(1, 2)).await.unwrap();
    tokio::task::block_in_place(|| cluster.configure("default_transaction_read_only", "on")).unwrap();
    let begun = Instant::now();
    // The setting reaches each connection on its own.
    let refusal = loop {
        if let Err(error) = store.check().await {
            break error;
        }
        assert!(begun.elapsed() < PATIENCE, "a write must be refused");
        tokio::time::sleep(LOOK_EVERY).await;
    };
    assert!(refusal.to_string().contains("read-only"), "{refusal}");
    tokio::task::block_in_place(|| {
        cluster.psql(
            "postgres",
            "SET default_transaction_read_only = off; ALTER SYSTEM RESET ALL; SELECT pg_reload_conf()",
        )
    })
    .unwrap();
    comes_back(&store).await;
    store.enqueue(batch(10, 2)).await.unwrap();
    assert_eq!(stored(&store).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn verb_that_is_the_victim_of_a_deadlock_is_run_again() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.fresh_database();
    let store = connect(&url).await;
    store.enqueue(batch(1, 2)).await.unwrap();
    let (other, watch) = (raw(&url).await, raw(&url).await);
    // The other one never looks for deadlocks, so the store is the one that is chosen.
    other.batch_execute("SET deadlock_timeout = '1h'; BEGIN").await.unwrap();
    let lock = "SELECT 1 FROM tenure.jobs WHERE id = (SELECT id FROM tenure.jobs ORDER BY id LIMIT 1 OFFSET $1) FOR UPDATE";
    other.query(lock, &[&1i64]).await.unwrap();
    let cancel = tokio::spawn({
        let store = store.clone();
        async move { store.cancel(vec![job_id(1), job_id(2)]).await }
    });
    waits_for_a_lock(&watch).await;
    other.query(lock, &[&0i64]).await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(cancel.await.unwrap().unwrap(), [Cancelled::Now, Cancelled::Now]);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let begun = Instant::now();
    while watch.query_one(deadlocks, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(begun.elapsed() < PATIENCE, "there must have been a deadlock");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until someone else waits for a lock.
async fn waits_for_a_lock(watch: &Client) {
    let begun = Instant::now();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(begun.elapsed() < PATIENCE, "someone must come to wait");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_happens_although_its_caller_went_away() {
    let cluster = Cluster::start().unwrap();
    let store = connect(&cluster.fresh_database()).await;
    let request_id = Some(RequestId::new("r").unwrap());
    let mut request = store.enqueue(EnqueueBatch { request_id: request_id.clone(), ..batch(1, 3) });
    let waker = std::task::Waker::noop();
    let _ = request.as_mut().poll(&mut std::task::Context::from_waker(waker));
    drop(request);
    let again = store.enqueue(EnqueueBatch { request_id, ..batch(1, 3) }).await.unwrap();
    assert!(again.repeated, "the first request was in the inbox from its first poll on");
    assert_eq!(stored(&store).await.len(), 3);
}
