//! A store that stands still must not make its workers look dead: signs of life do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clock::SystemClock;
use model::{
    Hold, HolderEnd, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report, WorkerKey,
};
use rpc::wire::{self, WorkerFrame};
use store::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, MemoryStore, Page, Progress, Promoted, QueueStats, Reaped,
    Redriven, Renewed, Retention, Selection, StoreError,
};
use tokio::sync::Semaphore;

use crate::frames::{Stream, completed, enqueue};
use crate::support::Server;

/// A store in which reports wait at a gate.
struct Gated {
    inner: MemoryStore,
    gate: Semaphore,
    /// So many reports fail before one is taken.
    failures: AtomicU32,
}

impl Gated {
    fn new(open: usize, failures: u32) -> Arc<Gated> {
        let inner = MemoryStore::new(Arc::new(SystemClock));
        Arc::new(Gated { inner, gate: Semaphore::new(open), failures: AtomicU32::new(failures) })
    }
}

macro_rules! gated {
    ($(fn $verb:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl JobStore for Gated {
            async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError> {
                if self.failures.load(Ordering::SeqCst) > 0 {
                    self.failures.fetch_sub(1, Ordering::SeqCst);
                    return Err(StoreError::Unavailable("the disk is full".to_owned()));
                }
                self.gate.acquire().await.expect("the gate is never closed for good").forget();
                self.inner.finish(holder, reports).await
            }

            $(async fn $verb(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                self.inner.$verb($($arg),*).await
            })*
        }
    };
}

gated! {
    fn enqueue(batch: EnqueueBatch) -> EnqueueAnswer;
    fn promote(limit: usize) -> Promoted;
    fn claim(claim: Claim) -> Vec<Claimed>;
    fn renew(holder: &WorkerKey, holds: Vec<Hold>, lease: Duration) -> Vec<Renewed>;
    fn progress(holder: &WorkerKey, notes: Vec<Progress>) -> Vec<bool>;
    fn expired(limit: usize) -> Vec<Expired>;
    fn reap(seen: Vec<Expired>) -> Vec<Reaped>;
    fn push(seen: Vec<Expired>, by: Duration) -> u64;
    fn enlist(workers: Vec<Enlist>) -> Vec<EnlistAnswer>;
    fn roster(registry: Option<RegistryId>) -> Vec<Enlist>;
    fn worker(key: &WorkerKey) -> Option<KnownWorker>;
    fn retire(holder: &WorkerKey, end: HolderEnd) -> ();
    fn readmit(holder: &WorkerKey) -> ();
    fn succeed(former: &WorkerKey, successor: &WorkerKey, holds: Vec<Hold>) -> Vec<bool>;
    fn reap_holder(holder: &WorkerKey, counted: bool) -> Vec<Reaped>;
    fn extend_leases(by: Duration) -> u64;
    fn cancel(ids: Vec<JobId>) -> Vec<Cancelled>;
    fn redrive(selection: Selection, limit: usize) -> Vec<(JobId, Redriven)>;
    fn purge(retention: Retention, limit: usize) -> u64;
    fn set_queue(queue: &QueueName, patch: QueuePatch) -> QueueSettings;
    fn get(id: JobId) -> Option<Job>;
    fn list(filter: JobFilter, page: Page) -> Vec<Job>;
    fn stats() -> Vec<QueueStats>;
    fn deadlines() -> Deadlines;
    fn check() -> ();
}

#[tokio::test]
async fn heartbeats_are_answered_while_the_store_keeps_reports_waiting() {
    let store = Gated::new(0, 0);
    let server = Server::start_on(store.clone()).await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 0).await;
    let mut token = beat(&mut stream, 1, String::new()).await;
    stream.frames.send(WorkerFrame { credits: 1, ..Default::default() }).await.expect("the stream is open");
    let job = stream.assignment().await;
    let reports = vec![completed(&job, 0)];
    stream.frames.send(WorkerFrame { reports, ..Default::default() }).await.expect("the stream is open");

    // The report is stuck in the store; the worker is as alive as ever. Each answer is the first thing to come back.
    for number in 2..10 {
        token = beat(&mut stream, number, token).await;
    }
    store.gate.add_permits(1);
    let answered = stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answered.answer, "done");
    server.stop().await;
}

#[tokio::test]
async fn a_store_in_trouble_ends_no_session_and_takes_the_report_later() {
    let store = Gated::new(1, 3);
    let server = Server::start_on(store.clone()).await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 1).await;
    let job = stream.assignment().await;
    let reports = vec![completed(&job, 0)];
    stream.frames.send(WorkerFrame { reports, ..Default::default() }).await.expect("the stream is open");
    let answered = stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answered.answer, "done", "on the same stream, without being asked again");
    assert_eq!(store.failures.load(Ordering::SeqCst), 0);
    server.stop().await;
}

/// Sends a heartbeat; its answer must be the next frame, and must be ok.
async fn beat(stream: &mut Stream, number: u64, token: String) -> String {
    let heartbeat = Some(wire::Heartbeat { number, token, ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    let answer = stream
        .hear(|frame| {
            assert!(frame.reports.is_empty(), "the report cannot be answered yet");
            frame.heartbeat
        })
        .await;
    assert_eq!((answer.number, answer.answer.as_str()), (number, "ok"), "{answer:?}");
    answer.token
}
