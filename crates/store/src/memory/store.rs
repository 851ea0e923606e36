//! The memory store as a [`JobStore`].

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use model::{
    Clock, Hold, HolderEnd, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report, WorkerKey,
};

use super::clock::{Now, StoreClock};
use super::mutation::Mutation;
use super::tables::Tables;
use crate::error::StoreError;
use crate::port::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, Page, Progress, Promoted, QueueStats, Reaped, Redriven,
    Renewed, Retention, Selection,
};

/// Jobs in memory. Keeps every promise of [`JobStore`] but durability.
///
/// Its futures are ready at their first poll, and its answers depend on nothing but the calls and the clock.
pub struct MemoryStore {
    clock: StoreClock,
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// An empty store. Its lease clock starts at the wall clock's date and then follows monotonic time only.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryStore { clock: StoreClock::new(clock), tables: Mutex::new(Tables::new(None)) }
    }

    /// An empty store with a deliberate bug, for the mutation check.
    pub fn broken(clock: Arc<dyn Clock>, mutation: Mutation) -> Self {
        MemoryStore { clock: StoreClock::new(clock), tables: Mutex::new(Tables::new(Some(mutation))) }
    }

    /// The state and the time. The clock is read under the lock, so that time never runs backwards between verbs.
    fn lock(&self) -> (MutexGuard<'_, Tables>, Now) {
        let tables = self.tables.lock().expect("a verb that panicked has left the tables half changed");
        let now = tables.reads(self.clock.now());
        (tables, now)
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.enqueue(now, batch))
    }

    async fn promote(&self, limit: usize) -> Result<Promoted, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.promote(now, limit))
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.claim(now, &claim))
    }

    async fn renew(
        &self,
        holder: &WorkerKey,
        holds: Vec<Hold>,
        lease: Duration,
    ) -> Result<Vec<Renewed>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(holds.into_iter().map(|hold| tables.renew(now, holder, hold, lease)).collect())
    }

    async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(reports.into_iter().map(|report| tables.finish(now, holder, report)).collect())
    }

    async fn progress(&self, holder: &WorkerKey, notes: Vec<Progress>) -> Result<Vec<bool>, StoreError> {
        let (mut tables, _) = self.lock();
        Ok(notes.into_iter().map(|note| tables.progress(holder, note)).collect())
    }

    async fn expired(&self, limit: usize) -> Result<Vec<Expired>, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.expired(now, limit))
    }

    async fn reap(&self, seen: Vec<Expired>) -> Result<Vec<Reaped>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(seen.into_iter().filter_map(|seen| tables.reap(now, &seen)).collect())
    }

    async fn push(&self, seen: Vec<Expired>, by: Duration) -> Result<u64, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(seen.iter().map(|seen| u64::from(tables.push(now, seen, by))).sum())
    }

    async fn enlist(&self, workers: Vec<Enlist>) -> Result<Vec<EnlistAnswer>, StoreError> {
        let (mut tables, _) = self.lock();
        Ok(workers.into_iter().map(|worker| tables.enlist(worker)).collect())
    }

    async fn roster(&self, registry: Option<RegistryId>) -> Result<Vec<Enlist>, StoreError> {
        Ok(self.lock().0.roster(registry))
    }

    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError> {
        Ok(self.lock().0.workers.get(key))
    }

    async fn retire(&self, holder: &WorkerKey, end: HolderEnd) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        tables.retire(now, holder, end);
        Ok(())
    }

    async fn readmit(&self, holder: &WorkerKey) -> Result<(), StoreError> {
        self.lock().0.readmit(holder);
        Ok(())
    }

    async fn succeed(
        &self,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: Vec<Hold>,
    ) -> Result<Vec<bool>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.succeed(now, former, successor, &holds))
    }

    async fn reap_holder(&self, holder: &WorkerKey, counted: bool) -> Result<Vec<Reaped>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.reap_holder(now, holder, counted))
    }

    async fn extend_leases(&self, by: Duration) -> Result<u64, StoreError> {
        Ok(self.lock().0.extend_leases(by))
    }

    async fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelled>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(ids.into_iter().map(|id| tables.cancel(now, id)).collect())
    }

    async fn redrive(
        &self,
        selection: Selection,
        limit: usize,
    ) -> Result<Vec<(JobId, Redriven)>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.redrive(now, selection, limit))
    }

    async fn purge(&self, retention: Retention, limit: usize) -> Result<u64, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.purge(now, retention, limit))
    }

    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
        Ok(self.lock().0.set_queue(queue, &patch))
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.lock().0.get(id))
    }

    async fn list(&self, filter: JobFilter, page: Page) -> Result<Vec<Job>, StoreError> {
        Ok(self.lock().0.list(&filter, page))
    }

    async fn stats(&self) -> Result<Vec<QueueStats>, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.stats(now))
    }

    async fn deadlines(&self) -> Result<Deadlines, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.deadlines(now))
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
