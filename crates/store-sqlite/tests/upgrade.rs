//! Data of earlier schemas is opened and goes on where it was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Fence, Hold, HolderEnd, JobId, LeaseTime, Outcome, QueueName, QueuePatch, QueueSettings, RegistryId,
    Report, State, WallTime, WorkerKey,
};
use rusqlite::Connection;
use store::conformance::TestClock;
use store::{Claim, Enlist, EnlistAnswer, Finished, JobStore, Renewed};
use store_sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore, migrations, schema_version};

const SECS: i64 = 1_000_000;
/// What marks a file as ours.
const APPLICATION_ID: i32 = 0x7465_6e75;

/// An empty file of this schema.
fn create(dir: &Path, version: u32) -> Connection {
    let database = Connection::open(dir.join(DATABASE_FILE)).unwrap();
    for step in &migrations()[..version as usize] {
        database.execute_batch(step.sql).unwrap();
    }
    database.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    database.pragma_update(None, "user_version", version).unwrap();
    database
}

/// Writes a file of the first schema: of its three jobs 1 and 2 run on `alive` (2 with a lease of its own of 70 s), and 3
/// is available in a queue whose lease is 50 s. `left` was retired. The lease clock stands an hour past the wall clock.
fn write_first_schema(dir: &Path) {
    let database = create(dir, 1);
    let clock = lease_clock().as_micros();
    database
        .execute_batch(&format!(
            "UPDATE meta SET value = {clock} WHERE name = 'lease_clock';
             INSERT INTO queues (no, name, running, available, lease_us, max_attempts)
             VALUES (1, 'q', 2, 0, NULL, NULL), (2, 'set', 0, 1, {queue_lease}, 4);
             INSERT INTO holders (no, key, retired_at) VALUES (1, 'left', 77), (3, 'alive', NULL), (4, 'idle', NULL);
             INSERT INTO jobs (id, state, queue, priority, run_at, attempt, max_attempts, max_lost, fence, holder,
                 lease_until, granted_us, enqueued_at, started_at, lease_us, kind, payload)
             VALUES ({one}, 2, 1, 0, 5, 1, 5, 5, 11, 3, 30, {short}, 5, 6, NULL, 'k', x'01'),
                    ({two}, 2, 1, 0, 5, 1, 5, 5, 12, 3, 40, {long}, 5, 6, {long}, 'k', x'02'),
                    ({three}, 1, 2, 0, 5, 0, 5, 5, 0, NULL, NULL, NULL, 5, NULL, NULL, 'k', x'03')",
            queue_lease = 50 * SECS,
            short = 30 * SECS,
            long = 70 * SECS,
            one = blob(1),
            two = blob(2),
            three = blob(3),
        ))
        .unwrap();
}

/// Writes a file of the second schema: jobs 1 and 2 run on `alive`, 3 is available, 4 completed, 5 was cancelled and 6 is
/// dead. `kicked` and `silent` were retired.
fn write_second_schema(dir: &Path) {
    let database = create(dir, 2);
    let clock = lease_clock().as_micros();
    database
        .execute_batch(&format!(
            "UPDATE meta SET value = {clock} WHERE name = 'lease_clock';
             INSERT INTO queues (no, name, paused, heartbeat_us, running, available, completed, cancelled, dead)
             VALUES (1, 'q', 0, {timeout}, 2, 1, 1, 1, 1);
             INSERT INTO holders (no, key, nonce, registry, grant_us, name, retired_at, ended)
             VALUES (2, 'kicked', 7, 1, {grant}, 'host', 77, 2), (5, 'alive', 7, 1, {grant}, 'host', NULL, NULL),
                    (6, 'silent', 7, NULL, 0, '', 78, 4), (7, 'plain', NULL, NULL, NULL, NULL, NULL, NULL);
             INSERT INTO jobs (id, state, queue, priority, run_at, attempt, max_attempts, max_lost, fence, holder,
                 lease_until, granted_us, enqueued_at, started_at, finished_at, kind, payload)
             VALUES ({one}, 2, 1, 0, 5, 1, 5, 5, 11, 5, 30, {timeout}, 5, 6, NULL, 'k', x'01'),
                    ({two}, 2, 1, 0, 5, 1, 5, 5, 12, 5, 40, {timeout}, 5, 6, NULL, 'k', x'02'),
                    ({three}, 1, 1, 0, 5, 0, 5, 5, 0, NULL, NULL, NULL, 5, NULL, NULL, 'k', x'03'),
                    ({four}, 3, 1, 0, 5, 1, 5, 5, 13, NULL, NULL, NULL, 5, 6, 7, 'k', x'04'),
                    ({five}, 4, 1, 0, 5, 0, 5, 5, 0, NULL, NULL, NULL, 5, NULL, 7, 'k', x'05'),
                    ({six}, 5, 1, 0, 5, 5, 5, 5, 14, NULL, NULL, NULL, 5, 6, 7, 'k', x'06')",
            timeout = 30 * SECS,
            grant = 20 * SECS,
            one = blob(1),
            two = blob(2),
            three = blob(3),
            four = blob(4),
            five = blob(5),
            six = blob(6),
        ))
        .unwrap();
}

/// Writes a file of the third schema: jobs 1 to 4 run on `alive`, `pings`, `plain` and `left`, the last of which was retired
/// without ever being enlisted. `silent` pinged and was retired, `kicked` was a worker.
fn write_third_schema(dir: &Path) {
    let database = create(dir, 3);
    let clock = lease_clock().as_micros();
    let running = (1..=4).map(|number| {
        let (id, holder, fence) = (blob(number), number + 4, number + 10);
        let lease = 30 * SECS;
        format!("({id}, 2, 1, 0, 5, 1, 5, 5, {fence}, {holder}, 30, {lease}, 5, 6, 'k', x'01')")
    });
    database
        .execute_batch(&format!(
            "UPDATE meta SET value = {clock} WHERE name = 'lease_clock';
             INSERT INTO queues (no, name, running) VALUES (1, 'q', 4);
             INSERT INTO holders (no, key, nonce, registry, grant_us, name, retired_at, ended)
             VALUES (2, 'kicked', 7, 1, {grant}, 'host', 77, 2), (3, 'silent', 7, NULL, 0, 'curl', 78, 4),
                    (5, 'alive', 7, 1, {grant}, 'host', NULL, NULL), (6, 'pings', 7, NULL, 0, 'curl', NULL, NULL),
                    (7, 'plain', NULL, NULL, NULL, NULL, NULL, NULL), (8, 'left', NULL, NULL, NULL, NULL, 79, 1);
             INSERT INTO jobs (id, state, queue, priority, run_at, attempt, max_attempts, max_lost, fence, holder,
                 lease_until, granted_us, enqueued_at, started_at, kind, payload)
             VALUES {running}",
            grant = 20 * SECS,
            running = running.collect::<Vec<_>>().join(", "),
        ))
        .unwrap();
}

/// Writes a file of the fourth schema: queue `q` is exclusive and paused, `set` has an available job and a limit.
fn write_fourth_schema(dir: &Path) {
    let database = create(dir, 4);
    database
        .execute_batch(&format!(
            "INSERT INTO queues (no, name, paused, exclusive, max_attempts, available)
             VALUES (1, 'q', 1, 1, NULL, 0), (2, 'set', 0, 0, 4, 1);
             INSERT INTO jobs (id, state, queue, priority, run_at, attempt, max_attempts, max_lost, fence,
                 enqueued_at, kind, payload)
             VALUES ({one}, 1, 2, 0, 5, 0, 5, 5, 0, 5, 'k', x'01')",
            one = blob(1),
        ))
        .unwrap();
}

fn lease_clock() -> LeaseTime {
    LeaseTime::from_micros((TestClock::START.as_millis() + 3_600_000) * 1_000)
}

fn id(number: u8) -> JobId {
    JobId::from_bytes([number; 16])
}

fn blob(number: u8) -> String {
    format!("x'{}'", format!("{number:02x}").repeat(16))
}

fn worker(key: &str) -> WorkerKey {
    WorkerKey::new(key).unwrap()
}

fn claim(holder: &str) -> Claim {
    let queues = ["q", "set"].map(|name| QueueName::new(name).unwrap()).to_vec();
    let lease = Duration::from_secs(30);
    Claim { holder: worker(holder), queues, limit: 10, bytes_max: usize::MAX, lease, exclusive: false }
}

#[tokio::test]
async fn running_jobs_of_the_first_schema_go_on() {
    let dir = tempfile::tempdir().unwrap();
    write_first_schema(dir.path());
    assert_eq!(schema_version(dir.path()).unwrap(), Some(1));
    let clock = Arc::new(TestClock::new());
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), clock.clone()).unwrap();
    assert_eq!(schema_version(dir.path()).unwrap(), Some(migrations().len() as u32));

    // What was called a lease is the heartbeat timeout, of jobs and of queues.
    let job = store.get(id(2)).await.unwrap().unwrap();
    assert_eq!((job.state, job.holder), (State::Running, Some(worker("alive"))));
    assert_eq!(job.heartbeat_timeout, Some(Duration::from_secs(70)));
    let stats = store.stats().await.unwrap();
    let timeouts: Vec<_> = stats.iter().map(|queue| queue.settings.heartbeat_timeout).collect();
    assert_eq!(timeouts, [None, Some(Duration::from_secs(50))]);

    // Their holder renews, is enlisted, and finishes.
    let holds = [(1, 11), (2, 12)].map(|(job, fence)| Hold { job: id(job), fence: Fence::new(fence) });
    let renewed = store.renew(&worker("alive"), holds.to_vec(), Duration::from_secs(30)).await.unwrap();
    let leases = [30, 70].map(|secs| Renewed::Held {
        lease: Duration::from_secs(secs),
        cancel: false,
        exclusive: false,
    });
    assert_eq!(renewed, leases);
    let enlist = Enlist {
        key: worker("alive"),
        nonce: model::Nonce::new(7),
        registry: RegistryId::ONLY,
        pings: false,
        grant: Duration::from_secs(20),
        name: "host".to_owned(),
    };
    assert_eq!(store.enlist(vec![enlist.clone()]).await.unwrap(), [EnlistAnswer::Known]);
    assert_eq!(store.roster(RegistryId::ONLY).await.unwrap(), [enlist]);
    clock.advance(Duration::from_secs(60));
    let expired = store.expired(RegistryId::ONLY, 10).await.unwrap();
    let expired: Vec<_> = expired.iter().map(|expired| (expired.hold, expired.registry)).collect();
    assert_eq!(expired, [(holds[0], Some(RegistryId::ONLY))]);
    let report = Report { hold: holds[1], outcome: Outcome::Completed { result: Bytes::new() } };
    let finished = store.finish(&worker("alive"), vec![report]).await.unwrap();
    assert!(matches!(finished[..], [Finished::Done { state: State::Completed, .. }]), "{finished:?}");

    // Who had left stays gone, and who had not may claim.
    assert_eq!(store.claim(claim("left")).await.unwrap(), []);
    let left = store.worker(&worker("left")).await.unwrap().unwrap();
    assert_eq!(left.ended, Some((HolderEnd::Left, WallTime::from_millis(77))));
    assert_eq!(store.worker(&worker("idle")).await.unwrap(), None, "it only ever claimed");
    let claimed = store.claim(claim("idle")).await.unwrap();
    assert_eq!((claimed[0].hold.job, claimed[0].lease), (id(3), Duration::from_secs(50)));
    assert!(claimed[0].hold.fence.get() >= lease_clock().as_micros(), "the lease clock goes on too");
}

#[tokio::test]
async fn data_of_the_second_schema_is_ordinary_and_can_be_made_exclusive() {
    let dir = tempfile::tempdir().unwrap();
    write_second_schema(dir.path());
    let clock = Arc::new(TestClock::new());
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), clock.clone()).unwrap();
    assert_eq!(schema_version(dir.path()).unwrap(), Some(migrations().len() as u32));

    let stats = store.stats().await.unwrap();
    let settings =
        QueueSettings { heartbeat_timeout: Some(Duration::from_secs(30)), ..QueueSettings::default() };
    assert_eq!((&stats[0].settings, stats[0].counts), (&settings, [0, 1, 2, 1, 1, 1]));
    let alive = Enlist {
        key: worker("alive"),
        nonce: model::Nonce::new(7),
        registry: RegistryId::ONLY,
        pings: false,
        grant: Duration::from_secs(20),
        name: "host".to_owned(),
    };
    assert_eq!(store.roster(RegistryId::ONLY).await.unwrap(), [alive], "workers are as they were");
    for (key, end, at) in [("kicked", HolderEnd::Kicked, 77), ("silent", HolderEnd::Silent, 78)] {
        let ended = store.worker(&worker(key)).await.unwrap().unwrap().ended;
        assert_eq!(ended, Some((end, WallTime::from_millis(at))));
    }

    // What runs was claimed as ordinary and stays so, also when its queue is made exclusive.
    let patch = QueuePatch { exclusive: Some(true), ..QueuePatch::default() };
    store.set_queue(&QueueName::new("q").unwrap(), patch).await.unwrap();
    let holds = [(1, 11), (2, 12)].map(|(job, fence)| Hold { job: id(job), fence: Fence::new(fence) });
    let renewed = store.renew(&worker("alive"), holds.to_vec(), Duration::from_secs(30)).await.unwrap();
    assert_eq!(
        renewed,
        [Renewed::Held { lease: Duration::from_secs(30), cancel: false, exclusive: false }; 2]
    );
    let report = Report { hold: holds[0], outcome: Outcome::Completed { result: Bytes::new() } };
    let finished = store.finish(&worker("alive"), vec![report]).await.unwrap();
    assert!(matches!(finished[..], [Finished::Done { state: State::Completed, .. }]), "{finished:?}");
    clock.advance(Duration::from_secs(31));
    let seen = store.expired(RegistryId::ONLY, 10).await.unwrap();
    assert_eq!((seen.len(), seen[0].hold, seen[0].exclusive), (1, holds[1], false));
    let reaped = store.reap(seen).await.unwrap();
    assert_eq!((reaped.len(), reaped[0].exclusive), (1, false));

    // Claims from now on are exclusive, and a crash is an end.
    assert_eq!(store.claim(claim("plain")).await.unwrap(), []);
    let claimed = store.claim(Claim { exclusive: true, ..claim("alive") }).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|claimed| (claimed.hold.job, claimed.exclusive)).collect();
    assert_eq!(claimed, [(id(2), true), (id(3), true)]);
    assert!(store.retire(&worker("alive"), HolderEnd::Crashed, RegistryId::ONLY).await.unwrap());
    let reaped = store.reap_holder(&worker("alive"), true).await.unwrap();
    assert!(reaped.len() == 2 && reaped.iter().all(|reaped| reaped.exclusive), "{reaped:?}");
    let ended = store.worker(&worker("alive")).await.unwrap().unwrap().ended;
    assert_eq!(ended.map(|(end, _)| end), Some(HolderEnd::Crashed));
}

#[tokio::test]
async fn everyone_of_the_third_schema_is_in_the_one_registry() {
    let dir = tempfile::tempdir().unwrap();
    write_third_schema(dir.path());
    let clock = Arc::new(TestClock::new());
    let store = SqliteStore::open(SqliteOptions::new(dir.path()), clock.clone()).unwrap();
    assert_eq!(schema_version(dir.path()).unwrap(), Some(migrations().len() as u32));

    let alive = Enlist {
        key: worker("alive"),
        nonce: model::Nonce::new(7),
        registry: RegistryId::ONLY,
        pings: false,
        grant: Duration::from_secs(20),
        name: "host".to_owned(),
    };
    let pings = Enlist {
        key: worker("pings"),
        pings: true,
        grant: Duration::ZERO,
        name: "curl".to_owned(),
        ..alive.clone()
    };
    let both = vec![alive, pings];
    assert_eq!(store.roster(RegistryId::ONLY).await.unwrap(), both);
    assert_eq!(store.enlist(both).await.unwrap(), [EnlistAnswer::Known, EnlistAnswer::Known]);
    assert_eq!(store.worker(&worker("plain")).await.unwrap(), None, "it only ever claimed");
    let ends =
        [("kicked", HolderEnd::Kicked, 77), ("silent", HolderEnd::Silent, 78), ("left", HolderEnd::Left, 79)];
    for (key, end, at) in ends {
        let known = store.worker(&worker(key)).await.unwrap().unwrap();
        assert_eq!((known.worker.registry, known.worker.pings), (RegistryId::ONLY, key == "silent"));
        assert_eq!(known.ended, Some((end, WallTime::from_millis(at))));
    }

    // What runs is judged by the one registry, or by anyone where its holder is in none.
    clock.advance(Duration::from_secs(61));
    let seen = store.expired(RegistryId::ONLY, 10).await.unwrap();
    let judged: Vec<_> =
        seen.iter().map(|seen| (seen.hold.job, seen.holder.as_str(), seen.registry)).collect();
    let only = Some(RegistryId::ONLY);
    let expected =
        [(id(1), "alive", only), (id(2), "pings", only), (id(3), "plain", None), (id(4), "left", only)];
    assert_eq!(judged, expected);
    let elsewhere = store.expired(RegistryId(2), 10).await.unwrap();
    assert_eq!(elsewhere, seen[2..3], "others see only the plain holder's");
    assert_eq!(store.reap(seen).await.unwrap().len(), 4);

    // Who pinged and fell silent may start over, who was kicked may not.
    for (key, is_back) in [("silent", true), ("kicked", false)] {
        store.readmit(&worker(key), RegistryId::ONLY).await.unwrap();
        let known = store.worker(&worker(key)).await.unwrap().unwrap();
        assert_eq!(known.ended.is_none(), is_back, "{key}");
    }
}

#[tokio::test]
async fn queues_of_the_fourth_schema_are_durable_and_can_be_made_volatile() {
    let dir = tempfile::tempdir().unwrap();
    write_fourth_schema(dir.path());
    let clock = Arc::new(TestClock::new());
    let open = || SqliteStore::open(SqliteOptions::new(dir.path()), clock.clone()).unwrap();
    let store = open();
    assert_eq!(schema_version(dir.path()).unwrap(), Some(migrations().len() as u32));

    let q = QueueSettings { paused: true, exclusive: true, ..QueueSettings::default() };
    let set = QueueSettings { max_attempts: Some(4), ..QueueSettings::default() };
    let stats = store.stats().await.unwrap();
    let seen: Vec<_> = stats.into_iter().map(|stats| (stats.settings, stats.counts)).collect();
    assert_eq!(seen, [(q.clone(), [0; 6]), (set.clone(), [0, 1, 0, 0, 0, 0])]);

    let patch = QueuePatch { volatile: Some(true), ..QueuePatch::default() };
    let volatile = QueueSettings { volatile: true, ..q };
    assert_eq!(store.set_queue(&QueueName::new("q").unwrap(), patch).await.unwrap(), volatile);
    drop(store);
    let store = open();
    let settings: Vec<_> =
        store.queue_settings().await.unwrap().into_iter().map(|(_, settings)| settings).collect();
    assert_eq!(settings, [volatile, set], "and stay so");
    let claimed = store.claim(claim("w")).await.unwrap();
    assert_eq!(claimed.iter().map(|claimed| claimed.hold.job).collect::<Vec<_>>(), [id(1)]);
}
