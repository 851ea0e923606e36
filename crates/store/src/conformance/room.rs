//! How much memory the jobs of volatile queues may take: a full store takes no more, loses nothing, and forgets no end that its
//! client has not had the time to hear of.

use bytes::Bytes;
use model::{ClientId, JobId, NewJob, Outcome, Retry};

use super::adopted::volatile_job;
use super::bench::{Bench, MANY, MILLI, completed, duplicate, failed_with, inserted, secs};
use super::clock::TestClock;
use crate::error::StoreError;
use crate::port::Retention;

/// What a volatile store on trial should take: more than any other case of the suite needs, and soon full.
pub const VOLATILE_BYTES: usize = 8 << 20;
const LARGE: usize = 256 << 10;

/// An end is kept so long, though there is no room.
const KEPT_SECS: u64 = 600;

fn large(id: JobId) -> NewJob {
    NewJob { payload: Bytes::from(vec![7; LARGE]), ..volatile_job(id) }
}

fn nobody() -> ClientId {
    ClientId::unattended(TestClock::START, 7)
}

/// Submits large jobs of this client until no more fit; how many did.
async fn fill(bench: &Bench, client: ClientId) -> u64 {
    let usage = bench.usage();
    for number in 0..=usage.bytes_max / LARGE as u64 {
        match bench.try_enqueue(vec![large(client.job(number))]).await {
            Ok(_) => assert!(bench.usage().bytes <= usage.bytes_max),
            Err(StoreError::Full(_)) => return number,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("{:?} has taken more than it may", bench.usage());
}

/// Has all that waits end like this, at one moment after the other.
async fn end_all(bench: &Bench, jobs: u64, outcome: &Outcome) {
    for _ in 0..jobs {
        bench.advance(MILLI);
        let hold = bench.start("w").await;
        bench.end("w", hold, outcome.clone()).await;
    }
}

async fn is_full(bench: &Bench, job: JobId) -> bool {
    let answer = bench.try_enqueue(vec![large(job)]).await;
    assert!(matches!(answer, Ok(_) | Err(StoreError::Full(_))), "{answer:?}");
    answer.is_err()
}

pub(super) async fn full_store_takes_no_more_and_loses_nothing(bench: &Bench) {
    let client = bench.attend().await;
    let once = || bench.enqueue_as("once", vec![large(client.job(1_000))]);
    once().await;
    let taken = fill(bench, client).await;
    assert!(taken > 10, "{taken}");
    assert!(is_full(bench, client.job(taken)).await);
    let known = [client.job(0), client.job(1)];
    assert_eq!(bench.enqueue(known.map(large).to_vec()).await.jobs, known.map(duplicate), "those are here");
    let both = vec![large(client.job(0)), large(client.job(taken))];
    assert!(matches!(bench.try_enqueue(both).await, Err(StoreError::Full(_))), "all of a batch or none");
    assert!(once().await.repeated);
    assert_eq!(bench.get(client.job(taken)).await, None);

    end_all(bench, 1, &completed()).await;
    assert!(is_full(bench, client.job(taken)).await, "its client does not know yet");
    let (first, _) = bench.ended_of(client).await[0];
    bench.acknowledge(&[first], None).await;
    assert!(!is_full(bench, client.job(taken)).await, "that was room for one");
    assert!(is_full(bench, client.job(taken + 1)).await);

    end_all(bench, taken, &completed()).await;
    bench.acknowledge(&[], Some(client.job(2_000))).await;
    assert_eq!((bench.all().await, bench.usage().bytes), (vec![], 0));
}

pub(super) async fn all_that_jobs_carry_is_counted(bench: &Bench) {
    let client = bench.attend().await;
    let mut before = bench.usage().bytes;
    let mut has_grown = |what: &str| {
        let bytes = bench.usage().bytes;
        assert!(bytes >= before + LARGE as u64, "{what}: {bytes} after {before}");
        before = bytes;
    };
    bench.add(large(client.job(1))).await;
    has_grown("payload");
    let hold = bench.start("w").await;
    let piece = || Some(Bytes::from(vec![7; LARGE]));
    bench.note("w", hold, piece(), None).await;
    has_grown("progress");
    bench.note("w", hold, None, piece()).await;
    has_grown("checkpoint");
    bench.end("w", hold, Outcome::Completed { result: Bytes::from(vec![7; LARGE]) }).await;
    has_grown("result");
    bench.acknowledge(&[client.job(1)], None).await;
    assert_eq!(bench.usage().bytes, 0);
}

pub(super) async fn ends_that_nobody_waits_for_make_room_at_once(bench: &Bench) {
    let client = bench.attend().await;
    let taken = fill(bench, nobody()).await;
    end_all(bench, 2, &completed()).await;
    assert!(!is_full(bench, client.job(1)).await);
    assert_eq!(bench.get(nobody().job(0)).await, None, "the oldest end went");
    assert!(bench.get(nobody().job(1)).await.is_some(), "and no more than had to");
    assert!(!is_full(bench, client.job(2)).await);
    assert!(is_full(bench, client.job(3)).await);
    end_all(bench, taken, &completed()).await;
}

pub(super) async fn ends_are_kept_for_their_client_though_there_is_no_room(bench: &Bench) {
    let (client, other) = (bench.attend().await, ClientId::new(TestClock::START, 2));
    let taken = fill(bench, client).await;
    let memory = [bench.memory_of(client).await, bench.memory_of(other).await];
    end_all(bench, 1, &failed_with(Retry::Never)).await;
    end_all(bench, 1, &completed()).await;
    bench.advance(secs(KEPT_SECS) - MILLI - MILLI);
    assert!(is_full(bench, other.job(1)).await, "for ten minutes");
    bench.advance(MILLI);
    assert!(!is_full(bench, other.job(1)).await);
    assert_eq!(bench.get(client.job(0)).await, None, "the oldest end went");
    assert!(bench.get(client.job(1)).await.is_some(), "and no more than had to");
    let later = [bench.memory_of(client).await, bench.memory_of(other).await];
    assert_ne!(later[0], memory[0], "it is told so");
    assert_eq!(later[1], memory[1], "and nobody else");
    assert_eq!(bench.memory_of(client).await, later[0], "as often as it asks");

    // So it submits again what it has not seen the end of.
    let answer = bench.enqueue(vec![large(client.job(1))]).await;
    assert_eq!(answer.jobs, [duplicate(client.job(1))]);
    bench.advance(MILLI);
    assert_eq!(bench.enqueue(vec![large(client.job(0))]).await.jobs, [inserted(client.job(0))]);
    end_all(bench, taken, &completed()).await;
}

pub(super) async fn client_is_told_when_ends_were_forgotten(bench: &Bench) {
    let client = bench.attend().await;
    let retention = Retention { completed: secs(60), dead: secs(60) };
    let first = bench.memory_of(client).await;
    for number in [1, 2] {
        bench.add(volatile_job(client.job(number))).await;
        end_all(bench, 1, &completed()).await;
    }
    bench.acknowledge(&[client.job(1)], None).await;
    bench.advance(secs(59));
    bench.purge(retention, MANY).await;
    assert_eq!(bench.memory_of(client).await, first, "it knows of the one that went");
    bench.advance(secs(1));
    bench.purge(retention, MANY).await;
    let second = bench.memory_of(client).await;
    assert_ne!(second, first);
    bench.advance(secs(25 * 3600));
    bench.purge(retention, MANY).await;
    assert!(![first, second].contains(&bench.memory_of(client).await), "all of it was forgotten");
}
