//! The memory store as a [`JobStore`].

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ClientId, Clock, Hold, HolderEnd, Job, JobId, Outcome, QueueName, QueuePatch, QueueSettings, RegistryId,
    Report, WorkerKey,
};

use super::clock::{Now, StoreClock};
use super::mutation::Mutation;
use super::news::Listener;
use super::own::{own, own_all};
use super::tables::Tables;
use crate::error::StoreError;
use crate::port::{
    Alarm, Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, Inheritance, JobFilter, JobStore, KnownWorker, News, Page, Past, Peer, Progress, Promoted,
    QueueStats, Reaped, Redriven, Renewed, Retention, Selection, ServerInfo, ToStop, Usage,
};

/// Jobs in memory. Keeps every promise of [`JobStore`] but durability.
///
/// Its futures are ready at their first poll, but for [`next_news`](JobStore::next_news), and its answers depend on nothing
/// but the calls and the clock.
pub struct MemoryStore {
    state: Arc<State>,
    /// Hears from the other handles, if it is shared.
    listener: Option<Listener>,
    is_volatile: bool,
}

/// What all handles of one store have in common.
struct State {
    clock: StoreClock,
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// What the jobs of volatile queues may take in memory if nobody chooses: over a million jobs of a hundred bytes, on a machine
    /// that has anything to spare.
    pub const VOLATILE_BYTES_DEFAULT: usize = 1 << 30;

    /// An empty store for one server. Its lease clock starts at the wall clock's date and then follows monotonic time only.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::over(clock, Tables::new(None))
    }

    /// An empty store for several servers. Each needs a handle of its own: the first has this one, the others a
    /// [`seat`](Self::seat).
    pub fn shared(clock: Arc<dyn Clock>) -> Self {
        Self::over(clock, Tables::shared(None))
    }

    /// An empty store for one server with a deliberate bug, for the mutation check.
    pub fn broken(clock: Arc<dyn Clock>, mutation: Mutation) -> Self {
        Self::over(clock, Tables::new(Some(mutation)))
    }

    /// An empty store for several servers with a deliberate bug, for the mutation check.
    pub fn shared_broken(clock: Arc<dyn Clock>, mutation: Mutation) -> Self {
        Self::over(clock, Tables::shared(Some(mutation)))
    }

    /// An empty store for volatile queues, whose jobs take [`VOLATILE_BYTES_DEFAULT`](Self::VOLATILE_BYTES_DEFAULT) at most. What workers say of claims that a former life of the server made is believed, and
    /// what clients know is not run again. Every queue is volatile and exclusive, and every id one of
    /// [`ClientId::job`].
    pub fn volatile(clock: Arc<dyn Clock>) -> Self {
        Self::volatile_within(clock, Self::VOLATILE_BYTES_DEFAULT)
    }

    /// The same, with another bound on what its jobs take. A batch that is larger than that never fits.
    pub fn volatile_within(clock: Arc<dyn Clock>, bytes_max: usize) -> Self {
        Self::over(clock, Tables::volatile(bytes_max, None))
    }

    /// The same with a deliberate bug, for the mutation check.
    pub fn volatile_broken(clock: Arc<dyn Clock>, bytes_max: usize, mutation: Mutation) -> Self {
        Self::over(clock, Tables::volatile(bytes_max, Some(mutation)))
    }

    fn over(clock: Arc<dyn Clock>, tables: Tables) -> Self {
        let is_volatile = tables.inherited.is_some();
        let listener = tables.registries.is_some().then(Listener::alone);
        let state = State { clock: StoreClock::new(clock), tables: Mutex::new(tables) };
        MemoryStore { state: Arc::new(state), listener, is_volatile }
    }

    /// Another handle on the same jobs, for another server: news told by one handle reach all others and not itself.
    ///
    /// # Panics
    ///
    /// If the store is not shared: two servers would then be one registry, each judging the other's workers.
    pub fn seat(&self) -> Self {
        let listener = self.listener.as_ref().expect("only a shared store has a seat for another server");
        MemoryStore {
            state: self.state.clone(),
            listener: Some(listener.beside()),
            is_volatile: self.is_volatile,
        }
    }

    /// Purges as [`JobStore::purge`] does, for a store whose workers are only copies of another's: they do not count.
    pub(crate) fn purge_copy(&self, retention: Retention, limit: usize) -> u64 {
        let (mut tables, now) = self.lock();
        tables.purge(now, retention, limit).1
    }

    /// Enqueues as [`JobStore::enqueue`] does, at once; `has_room` if there was [room](Self::find_room) for it already.
    pub(crate) fn put(&self, mut batch: EnqueueBatch, has_room: bool) -> Result<EnqueueAnswer, StoreError> {
        own_all(&mut batch.jobs, |job| Some(&mut job.payload));
        let (mut tables, now) = self.lock();
        tables.check_ids(&batch)?;
        if !has_room {
            tables.find_room(now, &batch)?;
        }
        Ok(tables.enqueue(now, batch))
    }

    /// Refuses a batch for which there is no room.
    pub(crate) fn find_room(&self, batch: &EnqueueBatch) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        tables.find_room(now, batch)
    }

    /// The state and the time. The clock is read under the lock, so that time never runs backwards between verbs.
    fn lock(&self) -> (MutexGuard<'_, Tables>, Now) {
        let tables = self.state.tables.lock().expect("a verb that panicked has left the tables half changed");
        let now = tables.reads(self.state.clock.now());
        (tables, now)
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        self.put(batch, false)
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

    async fn finish(
        &self,
        holder: &WorkerKey,
        mut reports: Vec<Report>,
    ) -> Result<Vec<Finished>, StoreError> {
        own_all(&mut reports, |report| match &mut report.outcome {
            Outcome::Completed { result } => Some(result),
            Outcome::Failed { .. } | Outcome::HandedBack => None,
        });
        let (mut tables, now) = self.lock();
        let answers = reports.into_iter().map(|report| tables.finish(now, holder, report)).collect();
        tables.trim_ended();
        Ok(answers)
    }

    async fn progress(&self, holder: &WorkerKey, mut notes: Vec<Progress>) -> Result<Vec<bool>, StoreError> {
        for note in &mut notes {
            [&mut note.note, &mut note.checkpoint].into_iter().flatten().for_each(own);
        }
        let (mut tables, _) = self.lock();
        Ok(notes.into_iter().map(|note| tables.progress(holder, note)).collect())
    }

    async fn to_stop(&self, holder: &WorkerKey) -> Result<Vec<ToStop>, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.to_stop(now, holder))
    }

    async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.expired(now, registry, limit))
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

    async fn roster(&self, registry: RegistryId) -> Result<Vec<Enlist>, StoreError> {
        Ok(self.lock().0.roster(registry))
    }

    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError> {
        Ok(self.lock().0.workers.get(key))
    }

    async fn retire(&self, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> Result<bool, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.retire(now, holder, end, by))
    }

    async fn readmit(&self, holder: &WorkerKey, registry: RegistryId) -> Result<(), StoreError> {
        self.lock().0.readmit(holder, registry);
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

    async fn extend_leases(&self, registry: RegistryId, by: Duration) -> Result<u64, StoreError> {
        Ok(self.lock().0.extend_leases(registry, by))
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
        let (workers, others) = tables.purge(now, retention, limit);
        Ok(workers + others)
    }

    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
        let mut tables = self.lock().0;
        tables.check_patch(&patch)?;
        Ok(tables.set_queue(queue, &patch))
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

    async fn deadlines(&self, registry: RegistryId) -> Result<Deadlines, StoreError> {
        let (tables, now) = self.lock();
        Ok(tables.deadlines(now, registry))
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn is_volatile(&self, _queue: &QueueName) -> bool {
        self.is_volatile
    }

    fn has_volatile(&self) -> bool {
        self.is_volatile
    }

    fn is_durable(&self) -> bool {
        !self.is_volatile
    }

    async fn acknowledge(
        &self,
        ids: Vec<JobId>,
        lowest: Option<JobId>,
    ) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.acknowledge(now, ids, lowest))
    }

    async fn past_of(&self, client: ClientId) -> Result<Past, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(tables.past_of(now, client))
    }

    fn usage(&self) -> Usage {
        let tables = self.lock().0;
        Usage { bytes: tables.bytes as u64, bytes_max: tables.bytes_max() as u64 }
    }

    fn inheritance(&self) -> Inheritance {
        self.lock().0.inherited.as_ref().map(|inherited| inherited.counts()).unwrap_or_default()
    }

    fn take_alarms(&self) -> Vec<Alarm> {
        self.lock().0.inherited.as_mut().map(|inherited| inherited.take_alarms()).unwrap_or_default()
    }

    fn is_shared(&self) -> bool {
        self.listener.is_some()
    }

    async fn found(&self, server: ServerInfo) -> Result<RegistryId, StoreError> {
        Ok(self.lock().0.found(server))
    }

    async fn beat(&self, registry: RegistryId) -> Result<Option<Vec<Peer>>, StoreError> {
        Ok(self.lock().0.beat(registry))
    }

    async fn take_over(
        &self,
        from: RegistryId,
        beats_seen: u64,
        by: RegistryId,
    ) -> Result<Option<Vec<Enlist>>, StoreError> {
        Ok(self.lock().0.take_over(from, beats_seen, by))
    }

    async fn called_off(&self, registry: RegistryId) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        Ok(self.lock().0.called_off(registry))
    }

    async fn unreaped(&self, registry: RegistryId) -> Result<Vec<(WorkerKey, HolderEnd)>, StoreError> {
        Ok(self.lock().0.unreaped(registry))
    }

    async fn resign(&self, registry: RegistryId) -> Result<(), StoreError> {
        self.lock().0.resign(registry);
        Ok(())
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &self.listener {
            listener.tell(&news, self.lock().0.has(Mutation::NewsComeBack));
        }
    }

    async fn next_news(&self) -> News {
        match &self.listener {
            Some(listener) => listener.next().await,
            None => std::future::pending().await,
        }
    }
}
