//! A store whose calls a test can hold up, fail and count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clock::SystemClock;
use model::{
    Hold, HolderEnd, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report, WorkerKey,
};
use store::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, MemoryStore, News, Page, Peer, Progress, Promoted,
    QueueStats, Reaped, Redriven, Renewed, Retention, Selection, ServerInfo, StoreError, ToStop,
};
use tokio::sync::Semaphore;

/// A store in which some calls wait at gates, which let so many through.
pub(crate) struct Gated {
    pub(crate) inner: MemoryStore,
    /// Reports wait here.
    pub(crate) reports: Semaphore,
    /// Answers to claims wait here, when the claims are made and their leases run.
    pub(crate) claims: Semaphore,
    /// Ends of holders wait here.
    pub(crate) ends: Semaphore,
    /// So many reports fail before one is taken.
    pub(crate) failures: AtomicU32,
    /// How often it was asked whether it can take jobs.
    pub(crate) probes: AtomicU32,
    /// The answers wait here.
    pub(crate) checks: Semaphore,
    /// How often rows were looked for whose lease is over.
    pub(crate) looks: AtomicU32,
    /// So many take-overs happen, but are answered with an error.
    pub(crate) take_overs_unheard: AtomicU32,
    /// Take-overs wait here.
    pub(crate) take_overs: Semaphore,
    /// How many registries were founded.
    pub(crate) founded: AtomicU32,
    /// All beats fail.
    pub(crate) is_cut_off: AtomicBool,
    /// How many have.
    pub(crate) beats_failed: AtomicU32,
    /// How many resignations have come.
    pub(crate) resigning: AtomicU32,
    /// They wait here.
    pub(crate) resignations: Semaphore,
}

impl Gated {
    /// All gates wide open.
    pub(crate) fn new() -> Gated {
        Gated::on(MemoryStore::new(Arc::new(SystemClock)))
    }

    /// All gates wide open, before this store.
    pub(crate) fn on(inner: MemoryStore) -> Gated {
        Gated {
            inner,
            reports: Semaphore::new(Semaphore::MAX_PERMITS),
            claims: Semaphore::new(Semaphore::MAX_PERMITS),
            ends: Semaphore::new(Semaphore::MAX_PERMITS),
            failures: AtomicU32::new(0),
            probes: AtomicU32::new(0),
            checks: Semaphore::new(Semaphore::MAX_PERMITS),
            looks: AtomicU32::new(0),
            take_overs_unheard: AtomicU32::new(0),
            take_overs: Semaphore::new(Semaphore::MAX_PERMITS),
            founded: AtomicU32::new(0),
            is_cut_off: AtomicBool::new(false),
            beats_failed: AtomicU32::new(0),
            resigning: AtomicU32::new(0),
            resignations: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

async fn pass(gate: &Semaphore) {
    gate.acquire().await.expect("no gate is closed for good").forget();
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
                pass(&self.reports).await;
                self.inner.finish(holder, reports).await
            }

            async fn retire(
                &self,
                holder: &WorkerKey,
                end: HolderEnd,
                by: RegistryId,
            ) -> Result<bool, StoreError> {
                pass(&self.ends).await;
                self.inner.retire(holder, end, by).await
            }

            async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError> {
                self.looks.fetch_add(1, Ordering::SeqCst);
                self.inner.expired(registry, limit).await
            }

            async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
                let claimed = self.inner.claim(claim).await;
                pass(&self.claims).await;
                claimed
            }

            async fn check(&self) -> Result<(), StoreError> {
                self.probes.fetch_add(1, Ordering::SeqCst);
                pass(&self.checks).await;
                self.inner.check().await
            }

            fn is_shared(&self) -> bool {
                self.inner.is_shared()
            }

            async fn take_over(
                &self,
                from: RegistryId,
                beats_seen: u64,
                by: RegistryId,
            ) -> Result<Option<Vec<Enlist>>, StoreError> {
                pass(&self.take_overs).await;
                let answer = self.inner.take_over(from, beats_seen, by).await;
                if self.take_overs_unheard.load(Ordering::SeqCst) > 0 {
                    self.take_overs_unheard.fetch_sub(1, Ordering::SeqCst);
                    return Err(StoreError::Unavailable("the connection broke".to_owned()));
                }
                answer
            }

            async fn found(&self, server: ServerInfo) -> Result<RegistryId, StoreError> {
                self.founded.fetch_add(1, Ordering::SeqCst);
                self.inner.found(server).await
            }

            async fn beat(&self, registry: RegistryId) -> Result<Option<Vec<Peer>>, StoreError> {
                if self.is_cut_off.load(Ordering::SeqCst) {
                    self.beats_failed.fetch_add(1, Ordering::SeqCst);
                    return Err(StoreError::Unavailable("no route to the database".to_owned()));
                }
                self.inner.beat(registry).await
            }

            async fn resign(&self, registry: RegistryId) -> Result<(), StoreError> {
                self.resigning.fetch_add(1, Ordering::SeqCst);
                pass(&self.resignations).await;
                self.inner.resign(registry).await
            }

            fn tell(&self, news: News) {
                self.inner.tell(news);
            }

            async fn next_news(&self) -> News {
                self.inner.next_news().await
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
    fn renew(holder: &WorkerKey, holds: Vec<Hold>, lease: Duration) -> Vec<Renewed>;
    fn progress(holder: &WorkerKey, notes: Vec<Progress>) -> Vec<bool>;
    fn to_stop(holder: &WorkerKey) -> Vec<ToStop>;
    fn reap(seen: Vec<Expired>) -> Vec<Reaped>;
    fn push(seen: Vec<Expired>, by: Duration) -> u64;
    fn enlist(workers: Vec<Enlist>) -> Vec<EnlistAnswer>;
    fn roster(registry: RegistryId) -> Vec<Enlist>;
    fn worker(key: &WorkerKey) -> Option<KnownWorker>;
    fn readmit(holder: &WorkerKey, registry: RegistryId) -> ();
    fn succeed(former: &WorkerKey, successor: &WorkerKey, holds: Vec<Hold>) -> Vec<bool>;
    fn reap_holder(holder: &WorkerKey, counted: bool) -> Vec<Reaped>;
    fn extend_leases(registry: RegistryId, by: Duration) -> u64;
    fn cancel(ids: Vec<JobId>) -> Vec<Cancelled>;
    fn redrive(selection: Selection, limit: usize) -> Vec<(JobId, Redriven)>;
    fn purge(retention: Retention, limit: usize) -> u64;
    fn set_queue(queue: &QueueName, patch: QueuePatch) -> QueueSettings;
    fn get(id: JobId) -> Option<Job>;
    fn list(filter: JobFilter, page: Page) -> Vec<Job>;
    fn stats() -> Vec<QueueStats>;
    fn queue_settings() -> Vec<(QueueName, QueueSettings)>;
    fn called_off(registry: RegistryId) -> Vec<(WorkerKey, Hold)>;
    fn deadlines(registry: RegistryId) -> Deadlines;
}
