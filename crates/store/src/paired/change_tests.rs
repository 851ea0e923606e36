//! A queue that becomes volatile, or durable again, while jobs come in.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::{
    ClientId, Fence, Hold, HolderEnd, Job, JobId, Kind, NewJob, Outcome, QueueName, QueuePatch,
    QueueSettings, RegistryId, Report, WallTime, WorkerKey,
};

use super::Paired;
use crate::conformance::{TestClock, VOLATILE_BYTES, ready};
use crate::error::StoreError;
use crate::memory::MemoryStore;
use crate::port::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, Page, Progress, Promoted, QueueStats, Reaped, Redriven,
    Renewed, Retention, Selection, ToStop,
};

/// A durable store in which jobs and settings wait, each at a gate, before they are written.
struct Slow {
    inner: MemoryStore,
    jobs: Gate,
    settings: Gate,
    /// Settings that were written wait here.
    answers: Gate,
    /// No queue becomes durable.
    is_in_trouble: AtomicBool,
}

/// Those who wait are polled by the test; nobody wakes them.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
}

impl Gate {
    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    async fn pass(&self) {
        let is_open = || !self.is_closed.load(Ordering::SeqCst);
        std::future::poll_fn(|_| if is_open() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

macro_rules! slow {
    ($(fn $verb:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl JobStore for Slow {
            async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
                self.jobs.pass().await;
                self.inner.enqueue(batch).await
            }

            async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
                self.settings.pass().await;
                if self.is_in_trouble.load(Ordering::SeqCst) && patch.volatile == Some(false) {
                    return Err(StoreError::Unavailable("in trouble".to_owned()));
                }
                let settings = self.inner.set_queue(queue, patch).await;
                self.answers.pass().await;
                settings
            }

            $(async fn $verb(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                self.inner.$verb($($arg),*).await
            })*
        }
    };
}

slow! {
    fn promote(limit: usize) -> Promoted;
    fn claim(claim: Claim) -> Vec<Claimed>;
    fn renew(holder: &WorkerKey, holds: Vec<Hold>, lease: Duration) -> Vec<Renewed>;
    fn finish(holder: &WorkerKey, reports: Vec<Report>) -> Vec<Finished>;
    fn progress(holder: &WorkerKey, notes: Vec<Progress>) -> Vec<bool>;
    fn to_stop(holder: &WorkerKey) -> Vec<ToStop>;
    fn expired(registry: RegistryId, limit: usize) -> Vec<Expired>;
    fn reap(seen: Vec<Expired>) -> Vec<Reaped>;
    fn push(seen: Vec<Expired>, by: Duration) -> u64;
    fn enlist(workers: Vec<Enlist>) -> Vec<EnlistAnswer>;
    fn roster(registry: RegistryId) -> Vec<Enlist>;
    fn worker(key: &WorkerKey) -> Option<KnownWorker>;
    fn retire(holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> bool;
    fn readmit(holder: &WorkerKey, registry: RegistryId) -> ();
    fn succeed(former: &WorkerKey, successor: &WorkerKey, holds: Vec<Hold>) -> Vec<bool>;
    fn reap_holder(holder: &WorkerKey, counted: bool) -> Vec<Reaped>;
    fn extend_leases(registry: RegistryId, by: Duration) -> u64;
    fn cancel(ids: Vec<JobId>) -> Vec<Cancelled>;
    fn redrive(selection: Selection, limit: usize) -> Vec<(JobId, Redriven)>;
    fn purge(retention: Retention, limit: usize) -> u64;
    fn get(id: JobId) -> Option<Job>;
    fn list(filter: JobFilter, page: Page) -> Vec<Job>;
    fn stats() -> Vec<QueueStats>;
    fn deadlines(registry: RegistryId) -> Deadlines;
    fn check() -> ();
}

/// Queue `d` is durable, queue `v` volatile, and every gate open.
struct Desk {
    durable: Arc<Slow>,
    pair: Arc<Paired>,
}

impl Desk {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let inner = MemoryStore::new(clock.clone());
        let [jobs, settings, answers] = [(); 3].map(|()| Gate::default());
        let durable =
            Arc::new(Slow { inner, jobs, settings, answers, is_in_trouble: AtomicBool::new(false) });
        let pair = ready(Paired::open(durable.clone(), MemoryStore::volatile_within(clock, VOLATILE_BYTES)))
            .unwrap();
        let desk = Desk { durable, pair };
        ready(desk.set_volatile("v", true)).unwrap();
        desk
    }

    async fn set_volatile(&self, name: &str, volatile: bool) -> Result<QueueSettings, StoreError> {
        let patch = QueuePatch { volatile: Some(volatile), ..QueuePatch::default() };
        self.pair.set_queue(&queue(name), patch).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<EnqueueAnswer, StoreError> {
        self.pair.enqueue(EnqueueBatch { request_id: None, jobs }).await
    }

    fn claim(&self, name: &str) -> Vec<JobId> {
        let claim = Claim {
            holder: WorkerKey::new("w").unwrap(),
            queues: vec![queue(name)],
            limit: 10,
            bytes_max: usize::MAX,
            lease: Duration::from_secs(30),
            exclusive: true,
        };
        ready(self.pair.claim(claim)).unwrap().into_iter().map(|claimed| claimed.hold.job).collect()
    }

    /// Whether the queue is volatile now, and whether it will be after a restart.
    fn is_volatile(&self, name: &str) -> [bool; 2] {
        let written = ready(self.durable.queue_settings()).unwrap();
        let written = written.into_iter().find(|(other, _)| *other == queue(name));
        [self.pair.is_volatile(&queue(name)), written.is_some_and(|(_, settings)| settings.volatile)]
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn durable(name: &str, number: u8) -> NewJob {
    let id = JobId::v7(WallTime::from_millis(i64::from(number)), [number; 10]);
    NewJob::new(id, queue(name), Kind::new("k").unwrap(), Bytes::new())
}

fn volatile(name: &str, number: u8) -> NewJob {
    let id = ClientId::new(WallTime::from_millis(1), 0).job(u64::from(number));
    NewJob { id, ..durable(name, number) }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn is_unavailable<T>(outcome: Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(_)))
}

fn is_refused<T>(outcome: Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Refused(why)) if why.contains("1 jobs that have not ended"))
}

#[test]
fn queue_stays_durable_if_a_job_was_on_its_way_in() {
    let desk = Desk::new();
    desk.durable.jobs.close();
    desk.durable.settings.close();
    let mut entering = pin!(desk.enqueue(vec![durable("d", 1)]));
    assert!(poll(entering.as_mut()).is_pending());
    let mut changing = pin!(desk.set_volatile("d", true));
    assert!(poll(changing.as_mut()).is_pending());
    desk.durable.jobs.open();
    ready(entering).unwrap();
    desk.durable.settings.open();
    assert!(is_refused(ready(changing)));
    assert_eq!(desk.is_volatile("d"), [false; 2]);
    ready(desk.enqueue(vec![durable("d", 2)])).unwrap();
    assert_eq!(desk.claim("d"), [durable("d", 1).id, durable("d", 2).id]);
}

#[test]
fn queue_whose_change_cannot_be_undone_takes_no_jobs_until_it_is() {
    let desk = Desk::new();
    desk.durable.jobs.close();
    desk.durable.settings.close();
    let mut entering = pin!(desk.enqueue(vec![durable("d", 1)]));
    assert!(poll(entering.as_mut()).is_pending());
    let mut changing = pin!(desk.set_volatile("d", true));
    assert!(poll(changing.as_mut()).is_pending());
    desk.durable.jobs.open();
    ready(entering).unwrap();
    desk.durable.settings.open();
    desk.durable.is_in_trouble.store(true, Ordering::SeqCst);
    assert!(is_unavailable(ready(changing)));
    assert_eq!(desk.is_volatile("d"), [false, true], "it would change sides with a restart");
    assert!(is_unavailable(ready(desk.enqueue(vec![durable("d", 2)]))));
    assert!(is_unavailable(ready(desk.enqueue(vec![volatile("d", 2)]))));
    assert!(is_unavailable(ready(desk.set_volatile("d", true))));
    ready(desk.enqueue(vec![durable("other", 1), volatile("v", 1)])).unwrap();
    assert_eq!(desk.claim("d"), [durable("d", 1).id], "what it has is run");

    // Whoever gives up on settling it leaves that to the next.
    desk.durable.settings.close();
    let mut given_up = Box::pin(desk.enqueue(vec![durable("d", 2)]));
    assert!(poll(given_up.as_mut()).is_pending());
    drop(given_up);
    desk.durable.settings.open();
    desk.durable.is_in_trouble.store(false, Ordering::SeqCst);
    ready(desk.enqueue(vec![durable("d", 2)])).unwrap();
    assert_eq!(desk.is_volatile("d"), [false; 2]);
    assert_eq!(desk.claim("d"), [durable("d", 2).id]);
}

#[test]
fn queue_stays_volatile_while_workers_know_of_jobs_that_are_not_here() {
    let desk = Desk::new();
    let (worker, job) = (WorkerKey::new("w").unwrap(), volatile("v", 1));
    let hold = Hold { job: job.id, fence: Fence::new(7_000) };
    let renewed = ready(desk.pair.renew(&worker, vec![hold], Duration::from_secs(30))).unwrap();
    assert!(matches!(renewed[..], [Renewed::Held { .. }]));
    let why = |outcome| match outcome {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let refused = why(ready(desk.set_volatile("v", false)));
    assert!(refused.contains("1 volatile jobs that have not been submitted again"), "{refused}");
    assert_eq!(desk.is_volatile("v"), [true; 2]);
    ready(desk.set_volatile("d", true)).unwrap();
    ready(desk.enqueue(vec![job])).unwrap();
    assert!(why(ready(desk.set_volatile("v", false))).contains("1 jobs that have not ended"));
    let report = Report { hold, outcome: Outcome::Completed { result: Bytes::new() } };
    ready(desk.pair.finish(&worker, vec![report])).unwrap();
    ready(desk.set_volatile("v", false)).unwrap();
    assert_eq!(desk.is_volatile("v"), [false; 2]);
}

#[test]
fn queue_takes_no_jobs_while_it_changes() {
    let desk = Desk::new();
    for (name, becomes_volatile) in [("d", true), ("v", false)] {
        desk.durable.settings.close();
        let mut changing = pin!(desk.set_volatile(name, becomes_volatile));
        assert!(poll(changing.as_mut()).is_pending());
        assert_eq!(
            desk.pair.is_volatile(&queue(name)),
            !becomes_volatile,
            "what it was, until it has changed"
        );
        assert!(is_unavailable(ready(desk.enqueue(vec![durable(name, 1)]))));
        assert!(is_unavailable(ready(desk.enqueue(vec![volatile(name, 1)]))));
        assert!(is_unavailable(ready(desk.enqueue(vec![durable("other", 1), volatile(name, 1)]))));
        assert!(is_unavailable(ready(desk.set_volatile(name, becomes_volatile))), "one change at a time");
        ready(desk.enqueue(vec![durable("other", 1)])).unwrap();
        desk.durable.settings.open();
        ready(changing).unwrap();
        assert_eq!(desk.is_volatile(name), [becomes_volatile; 2]);
        let job = if becomes_volatile { volatile(name, 2) } else { durable(name, 2) };
        ready(desk.enqueue(vec![job.clone()])).unwrap();
        assert_eq!(desk.claim(name), [job.id]);
    }
}

#[test]
fn change_that_is_given_up_is_undone_before_the_next_job_comes_in() {
    for (name, becomes_volatile) in [("d", true), ("v", false)] {
        for is_written in [false, true] {
            let desk = Desk::new();
            let gate = if is_written { &desk.durable.answers } else { &desk.durable.settings };
            gate.close();
            let mut changing = Box::pin(desk.set_volatile(name, becomes_volatile));
            assert!(poll(changing.as_mut()).is_pending());
            drop(changing);
            assert_eq!(desk.is_volatile(name), [!becomes_volatile, becomes_volatile == is_written]);
            gate.open();
            ready(desk.enqueue(vec![durable("d", 1), volatile("v", 1)])).unwrap();
            assert_eq!(desk.is_volatile(name), [!becomes_volatile; 2]);
            assert_eq!((desk.claim("d").len(), desk.claim("v").len()), (1, 1));
        }
    }
}

#[test]
fn volatile_part_of_a_batch_does_not_come_into_a_queue_that_changed_meanwhile() {
    for is_done in [false, true] {
        let desk = Desk::new();
        desk.durable.jobs.close();
        let mut entering = pin!(desk.enqueue(vec![durable("d", 1), volatile("v", 1)]));
        assert!(poll(entering.as_mut()).is_pending());
        if !is_done {
            desk.durable.settings.close();
        }
        let mut changing = pin!(desk.set_volatile("v", false));
        let changed = poll(changing.as_mut());
        desk.durable.jobs.open();
        // In the volatile store nobody would ever claim it.
        let refused = ready(entering);
        assert_eq!((changed.is_ready(), is_unavailable(refused)), (is_done, !is_done));
        assert_eq!(ready(desk.pair.get(volatile("v", 1).id)).unwrap(), None);
        if !is_done {
            desk.durable.settings.open();
            ready(changing).unwrap();
        }
        assert_eq!(desk.is_volatile("v"), [false; 2]);
    }
}

#[test]
fn no_half_of_a_batch_is_left_out_for_lack_of_room() {
    let desk = Desk::new();
    let large =
        |number| NewJob { payload: Bytes::from(vec![7; VOLATILE_BYTES / 3 * 2]), ..volatile("v", number) };
    let is_here = |job: NewJob| ready(desk.pair.get(job.id)).unwrap().is_some();
    desk.durable.jobs.close();
    let mut entering = pin!(desk.enqueue(vec![durable("d", 1), large(1)]));
    assert!(poll(entering.as_mut()).is_pending());
    ready(desk.enqueue(vec![large(2)])).unwrap();
    desk.durable.jobs.open();
    ready(entering).expect("there was room when it came");
    assert!(is_here(durable("d", 1)) && is_here(large(1)) && is_here(large(2)));
    let refused = ready(desk.enqueue(vec![durable("d", 2), large(3)]));
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert!(!is_here(durable("d", 2)) && !is_here(large(3)));
}
