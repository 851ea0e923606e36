//! Storage trouble: a refusal to the caller, nothing half done, and back to work by itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clock::SystemClock;
use model::{JobId, Kind, NewJob, QueueName, RequestId};
use store::{EnqueueBatch, JobFilter, JobStore, Page, StoreError};
use store_sqlite::{OnCommit, SqliteOptions, SqliteStore};
use tokio::task::JoinSet;

/// Much longer than the store needs to notice what happened to its files.
const PATIENCE: Duration = Duration::from_secs(20);

fn batch(first: u64, count: u64, payload_bytes: usize) -> EnqueueBatch {
    let job = |number: u64| {
        let mut id = [7; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let (queue, kind) = (QueueName::new("q").unwrap(), Kind::new("k").unwrap());
        NewJob::new(JobId::from_bytes(id), queue, kind, Bytes::from(vec![1; payload_bytes]))
    };
    EnqueueBatch { request_id: None, jobs: (first..first + count).map(job).collect() }
}

async fn jobs_stored(store: &SqliteStore) -> usize {
    let page = Page { before: None, limit: 1_000_000, bytes_max: usize::MAX };
    let listed = store.list(JobFilter::default(), page).await.unwrap().len();
    let counted: u64 = store.stats().await.unwrap().iter().flat_map(|stats| stats.counts).sum();
    assert_eq!(listed as u64, counted, "the counts must be those of the jobs");
    listed
}

/// Enqueues until the disk is full; answers how many jobs were acknowledged.
async fn fill(store: &SqliteStore, dir: &Path) -> usize {
    for number in 0..10_000 {
        match store.enqueue(batch(number * 10, 10, 4_000)).await {
            Ok(_) => {}
            Err(error) => {
                let expected = format!("disk is full; free space in {}", dir.display());
                assert_eq!(error, StoreError::Unavailable(expected));
                return number as usize * 10;
            }
        }
    }
    panic!("the disk must become full");
}

#[tokio::test]
async fn full_database_refuses_whole_batches_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions { pages_max: Some(500), ..SqliteOptions::new(dir.path()) };
    let store = SqliteStore::open(options, Arc::new(SystemClock)).unwrap();
    // Asked before, so that it cannot do with the room that it took then.
    store.check().await.unwrap();
    let acknowledged = fill(&store, dir.path()).await;
    assert_eq!(jobs_stored(&store).await, acknowledged, "nothing of the refused batch is there");

    assert!(store.check().await.is_err(), "a store that takes no batch is not ready");
    // Old jobs can still be called off and purged to make room.
    let ids = batch(0, 100, 0).jobs.iter().map(|job| job.id).collect();
    store.cancel(ids).await.unwrap();
    let nothing_kept = store::Retention { completed: Duration::ZERO, dead: Duration::ZERO };
    assert_eq!(store.purge(nothing_kept, 1_000).await.unwrap(), 100);
    store.check().await.unwrap();
    store.enqueue(batch(1_000_000, 50, 4_000)).await.unwrap();
    assert_eq!(jobs_stored(&store).await, acknowledged - 50);
}

#[tokio::test]
async fn full_disk_refuses_whole_batches_and_recovers_when_space_returns() {
    let Some(disk) = SmallDisk::mount("8m") else {
        eprintln!("skipped: this user may not mount a small disk");
        return;
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 5 << 20]).unwrap();
    let dir = disk.path().join("data");
    let store = SqliteStore::open(SqliteOptions::new(&dir), Arc::new(SystemClock)).unwrap();
    store.check().await.unwrap();
    let acknowledged = fill(&store, &dir).await;
    assert!(store.check().await.is_err(), "a store that takes no batch is not ready");
    assert_eq!(jobs_stored(&store).await, acknowledged, "reading goes on, and nothing is half done");

    fs::remove_file(&ballast).unwrap();
    store.check().await.unwrap();
    store.enqueue(batch(1_000_000, 10, 4_000)).await.unwrap();
    assert_eq!(jobs_stored(&store).await, acknowledged + 10);
    store.close();

    let store = SqliteStore::open(SqliteOptions::new(&dir), Arc::new(SystemClock)).unwrap();
    assert_eq!(jobs_stored(&store).await, acknowledged + 10, "all that was acknowledged is there");
}

#[tokio::test]
async fn each_check_reaches_the_disk_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), Arc::new(SystemClock)).unwrap();
    store.enqueue(batch(1, 1, 10)).await.unwrap();
    let log_bytes = || fs::metadata(dir.path().join("tenure.db-wal")).unwrap().len();
    let mut log = log_bytes();
    for _ in 0..5 {
        store.check().await.unwrap();
        assert!(log_bytes() >= log + (64 << 10), "the log has {} bytes, before {log}", log_bytes());
        log = log_bytes();
    }
    assert_eq!(jobs_stored(&store).await, 1);
    let queues = store.stats().await.unwrap();
    assert_eq!(queues.len(), 1, "no queue was made");
    let file = rusqlite::Connection::open(dir.path().join("tenure.db")).unwrap();
    let rows =
        "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM requests), (SELECT count(*) FROM blobs)";
    let rows: (i64, i64, i64) =
        file.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(rows, (1, 0, 1), "the blob is that of no job, written over each time");
}

/// Whatever it is that enqueues fail on: here somebody else has put a trigger on the table.
#[tokio::test]
async fn what_refuses_an_enqueue_refuses_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), Arc::new(SystemClock)).unwrap();
    store.check().await.unwrap();
    let file = rusqlite::Connection::open(dir.path().join("tenure.db")).unwrap();
    for table in ["jobs", "requests"] {
        let trigger = "BEFORE INSERT ON {} BEGIN SELECT RAISE(ABORT, 'not now'); END".replace("{}", table);
        file.execute_batch(&format!("CREATE TRIGGER refuse {trigger}")).unwrap();
        let request_id = Some(RequestId::new("r").unwrap());
        assert!(store.enqueue(EnqueueBatch { request_id, ..batch(1, 1, 10) }).await.is_err());
        assert!(store.check().await.is_err(), "{table}");
        file.execute_batch("DROP TRIGGER refuse").unwrap();
        store.check().await.unwrap();
    }
}

/// What is written to a file that nobody can open again is lost with the process.
#[tokio::test]
async fn nothing_is_acknowledged_once_a_file_was_removed_or_replaced() {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    // As a backup that is restored under a running server.
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::copy(path, &other).unwrap();
        fs::rename(other, path).unwrap();
    };
    type Fault<'f> = (&'f str, &'f dyn Fn(&Path));
    let faults: [Fault<'_>; 4] = [
        ("tenure.db", &remove),
        ("tenure.db", &replace),
        ("tenure.db-wal", &remove),
        ("tenure.db-shm", &remove),
    ];
    for (name, fault) in faults {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(dir.path()), Arc::new(SystemClock)).unwrap();
        store.enqueue(batch(0, 10, 10)).await.unwrap();
        fault(&dir.path().join(name));
        let begun = Instant::now();
        let mut acknowledged = 10;
        let refusal = loop {
            match store.enqueue(batch(acknowledged, 1, 10)).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
            assert!(begun.elapsed() < PATIENCE, "it is never noticed");
        };
        let StoreError::Unavailable(why) = &refusal else { panic!("{refusal}") };
        assert!(
            why.contains(name) && why.contains("removed or replaced") && why.contains("stop the server"),
            "{why}"
        );
        assert_eq!(store.check().await, Err(refusal.clone()), "it is not ready either");
        assert_eq!(store.enqueue(batch(acknowledged, 1, 10)).await, Err(refusal));
        assert_eq!(jobs_stored(&store).await as u64, acknowledged, "what was refused is not there");
    }
}

#[tokio::test]
async fn bad_request_does_not_fail_its_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let (resume, paused) = mpsc::channel::<()>();
    let paused = std::sync::Mutex::new(paused);
    let (report, groups) = mpsc::channel();
    // The writer waits after each commit until it is told to go on, so that we know what its next group is.
    let on_commit: OnCommit = Arc::new(move |_, requests| {
        report.send(requests).unwrap();
        paused.lock().unwrap().recv().unwrap();
    });
    let options = SqliteOptions { on_commit: Some(on_commit), ..SqliteOptions::new(dir.path()) };
    let broken = ("VALUES (?1, ?2, ?3,", "VALUES (iif(?9 = 'bad', NULL, ?1), ?2, ?3,");
    let store = Arc::new(SqliteStore::open_mutated(options, Arc::new(SystemClock), &[broken]).unwrap());

    let mut answers = JoinSet::new();
    let mut ask = |number: u64, batch: EnqueueBatch| {
        let store = store.clone();
        answers.spawn(async move { (number, store.enqueue(batch).await) });
    };
    ask(0, batch(0, 1, 10));
    tokio::task::yield_now().await;
    assert_eq!(groups.recv().unwrap(), 1, "the writer is busy with the first");
    for number in 1..10 {
        let mut batch = batch(number, 1, 10);
        if number == 5 {
            batch.jobs[0].kind = Kind::new("bad").unwrap();
        }
        ask(number, batch);
    }
    tokio::task::yield_now().await;
    for _ in 0..9 {
        resume.send(()).unwrap();
    }
    let mut refused = Vec::new();
    while let Some(answer) = answers.join_next().await {
        let (number, answer) = answer.unwrap();
        if let Err(error) = answer {
            assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
            refused.push(number);
        }
    }
    assert_eq!(refused, [5]);
    let later: Vec<usize> = groups.try_iter().collect();
    assert_eq!(later, [1; 8], "the group was taken apart");
    assert_eq!(jobs_stored(&store).await, 9);
    resume.send(()).unwrap();
}

#[tokio::test]
async fn request_happens_although_its_caller_went_away() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), Arc::new(SystemClock)).unwrap();
    let request_id = Some(RequestId::new("r").unwrap());
    let mut request = store.enqueue(EnqueueBatch { request_id: request_id.clone(), ..batch(1, 3, 10) });
    let waker = std::task::Waker::noop();
    let _ = request.as_mut().poll(&mut std::task::Context::from_waker(waker));
    drop(request);
    let again = store.enqueue(EnqueueBatch { request_id, ..batch(1, 3, 10) }).await.unwrap();
    assert!(again.repeated, "the first request was in the inbox from its first poll on");
    assert_eq!(jobs_stored(&store).await, 3);
}

#[tokio::test]
async fn concurrent_requests_share_commits() {
    let dir = tempfile::tempdir().unwrap();
    let (report, groups) = mpsc::channel();
    let on_commit: OnCommit = Arc::new(move |_, requests| report.send(requests).unwrap());
    let options = SqliteOptions { on_commit: Some(on_commit), ..SqliteOptions::new(dir.path()) };
    let store = Arc::new(SqliteStore::open(options, Arc::new(SystemClock)).unwrap());
    let mut asked = JoinSet::new();
    for number in 0..200 {
        let store = store.clone();
        asked.spawn(async move { store.enqueue(batch(number, 1, 10)).await.unwrap() });
    }
    asked.join_all().await;
    let groups: Vec<usize> = groups.try_iter().collect();
    assert_eq!(groups.iter().sum::<usize>(), 200);
    assert!(groups.len() < 100, "{} commits for 200 requests", groups.len());
}

/// A disk of a few megabytes, if this user may mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|output| output.status.success()).then(|| SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
