//! The shared memory store keeps every promise of the port but durability, with one handle and with several.

use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use model::{ClientId, JobId, Kind, NewJob, Outcome, QueueName, Report, Retry, State, WorkerKey};

use super::MemoryStore;
use crate::conformance::{BoxFuture, Case, Harness, TestClock, ready};
use crate::port::{Claim, EnqueueBatch, JobStore, News, Progress, Selection};

mod every {
    use super::check;

    crate::conformance_tests!(check);
}

mod shared {
    use super::check;

    crate::conformance_tests!(shared check);
}

fn check(case: Case) {
    ready(case.run(Shared::default()));
}

/// A shared store, made when it is opened.
#[derive(Default)]
struct Shared(OnceLock<MemoryStore>);

impl Shared {
    fn seat(&self, clock: Arc<TestClock>) -> Arc<dyn JobStore> {
        Arc::new(self.0.get_or_init(|| MemoryStore::shared(clock)).seat())
    }
}

impl Harness for Shared {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async { self.seat(clock) })
    }

    fn join(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async { self.seat(clock) })
    }
}

#[test]
fn news_that_nobody_reads_do_not_pile_up() {
    let store = MemoryStore::shared(Arc::new(TestClock::new()));
    let other = store.seat();
    // More than is kept: at some point all of them make room for a warning.
    (0..5_000).for_each(|_| store.tell(News::Scheduled));
    store.tell(News::Watching);
    let mut heard = vec![ready(other.next_news())];
    while heard.last() != Some(&News::Watching) {
        heard.push(ready(other.next_news()));
    }
    assert_eq!(heard[0], News::Missed);
    assert!(heard.len() < 2_000, "{} were kept", heard.len());
}

#[test]
fn whoever_waits_is_woken_by_news_of_others() {
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let store = MemoryStore::shared(Arc::new(TestClock::new()));
    let other = store.seat();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut waiting = pin!(other.next_news());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    other.tell(News::Watching);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0, "not by its own");
    store.tell(News::Scheduled);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(ready(waiting), News::Scheduled);
}

#[test]
#[should_panic(expected = "only a shared store has a seat for another server")]
fn store_for_one_server_has_no_second_seat() {
    let _ = MemoryStore::new(Arc::new(TestClock::new())).seat();
}

/// A small job must not keep the large message in memory that it came with.
#[test]
fn what_is_kept_is_no_piece_of_a_message() {
    let store = MemoryStore::new(Arc::new(TestClock::new()));
    let message = Bytes::from(vec![7; 1 << 20]);
    let piece = |at: usize| message.slice(at..at + 3);
    let (queue, kind, worker) =
        (QueueName::new("q").unwrap(), Kind::new("k").unwrap(), WorkerKey::new("w").unwrap());
    let id = JobId::from_bytes([1; 16]);
    let jobs = vec![NewJob::new(id, queue.clone(), kind, piece(0))];
    ready(store.enqueue(EnqueueBatch { request_id: None, jobs })).unwrap();
    let claim = Claim {
        holder: worker.clone(),
        queues: vec![queue],
        limit: 1,
        lease: Duration::from_secs(30),
        bytes_max: usize::MAX,
        exclusive: false,
    };
    let hold = ready(store.claim(claim)).unwrap()[0].hold;
    let progress = Progress { hold, note: Some(piece(3)), checkpoint: Some(piece(6)) };
    ready(store.progress(&worker, vec![progress])).unwrap();
    let report = Report { hold, outcome: Outcome::Completed { result: piece(9) } };
    ready(store.finish(&worker, vec![report])).unwrap();

    let job = ready(store.get(id)).unwrap().unwrap();
    for kept in [Some(job.payload), job.progress, job.checkpoint, job.result] {
        let kept = kept.expect("all of them are kept");
        assert_eq!(kept, &message[..3]);
        assert!(!message.as_ptr_range().contains(&kept.as_ptr()));
    }
}

/// Ended jobs that nobody comes back for are kept for people to see, so many of them.
const KEPT: u64 = 10_000;

/// Submits jobs with these numbers to an empty queue, and has all of them end like this.
fn run(store: &MemoryStore, queue: &str, client: ClientId, numbers: Range<u64>, outcome: &Outcome) {
    let (queue, kind, worker) =
        (QueueName::new(queue).unwrap(), Kind::new("k").unwrap(), WorkerKey::new("w").unwrap());
    let job = |number| NewJob::new(client.job(number), queue.clone(), kind.clone(), Bytes::new());
    let jobs: Vec<NewJob> = numbers.map(job).collect();
    let count = jobs.len();
    ready(store.enqueue(EnqueueBatch { request_id: None, jobs })).unwrap();
    let claim = Claim {
        holder: worker.clone(),
        queues: vec![queue.clone()],
        limit: count,
        lease: Duration::from_secs(30),
        bytes_max: usize::MAX,
        exclusive: true,
    };
    let claimed = ready(store.claim(claim)).unwrap();
    let reports = claimed.iter().map(|job| Report { hold: job.hold, outcome: outcome.clone() }).collect();
    assert_eq!(ready(store.finish(&worker, reports)).unwrap().len(), count);
}

/// What is kept for people is bounded while a backlog is drained, too.
#[test]
fn ended_jobs_do_not_pile_up_while_nothing_comes_in() {
    let store = MemoryStore::volatile(Arc::new(TestClock::new()));
    let client = ClientId::unattended(TestClock::START, 1);
    run(&store, "q", client, 0..KEPT + 500, &Outcome::Completed { result: Bytes::new() });
    let completed = ready(store.stats()).unwrap()[0].counts[State::Completed as usize];
    assert_eq!(completed, KEPT);
    assert_eq!(ready(store.get(client.job(499))).unwrap(), None, "the oldest go");
    assert!(ready(store.get(client.job(500))).unwrap().is_some());
}

#[test]
fn an_ended_job_that_was_called_back_makes_no_room_for_others() {
    let store = MemoryStore::volatile(Arc::new(TestClock::new()));
    let client = ClientId::unattended(TestClock::START, 1);
    let state = || ready(store.get(client.job(0))).unwrap().map(|job| job.state);
    let failed = Outcome::Failed { error: "no".to_owned(), retry: Retry::Never };
    run(&store, "failing", client, 0..1, &failed);
    assert_eq!(state(), Some(State::Dead));
    ready(store.redrive(Selection::Ids(vec![client.job(0)]), 1)).unwrap();
    run(&store, "q", client, 1..KEPT + 2, &Outcome::Completed { result: Bytes::new() });
    assert_eq!(state(), Some(State::Available));
}
