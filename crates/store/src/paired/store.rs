//! The pair as a [`JobStore`]. Where both are asked the durable one is first: if it cannot answer, nothing has happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ClientId, Hold, HolderEnd, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report,
    WorkerKey,
};

use super::merge::{self, Split};
use super::routes::Routes;
use crate::error::StoreError;
use crate::memory::MemoryStore;
use crate::port::{
    Alarm, Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, Inheritance, JobFilter, JobStore, KnownWorker, News, Page, Past, Peer, Progress, Promoted,
    QueueStats, Reaped, Redriven, Renewed, Retention, Selection, ServerInfo, ToStop, Usage,
};

/// A durable store, with volatile queues in memory beside it.
pub struct Paired {
    pub(super) durable: Arc<dyn JobStore>,
    pub(super) volatile: MemoryStore,
    pub(super) routes: Routes,
    /// Whose turn it is to be asked first where both could use up what is asked for.
    volatile_first: AtomicBool,
}

impl Paired {
    /// Pairs this store with a volatile one that is empty, for those of its queues that are volatile.
    pub async fn open(durable: Arc<dyn JobStore>, volatile: MemoryStore) -> Result<Arc<Paired>, StoreError> {
        let queues = durable.queue_settings().await?;
        let volatile_queues: Vec<_> = queues.into_iter().filter(|(_, settings)| settings.volatile).collect();
        for (queue, settings) in &volatile_queues {
            volatile.set_queue(queue, patch_of(settings)).await?;
        }
        let routes = Routes::new(volatile_queues.into_iter().map(|(queue, _)| queue));
        Ok(Arc::new(Paired { durable, volatile, routes, volatile_first: AtomicBool::new(true) }))
    }

    /// Whether the volatile store is asked first this time.
    fn is_volatiles_turn(&self) -> bool {
        self.volatile_first.fetch_xor(true, Ordering::Relaxed)
    }
}

#[async_trait]
impl JobStore for Paired {
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        self.put(batch).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted, StoreError> {
        let (mut first, second) = if self.is_volatiles_turn() {
            let first = self.volatile.promote(limit).await?;
            let left = limit - first.jobs.len();
            // What was promoted must be told; what was not is due still.
            let second = self.durable.promote(left).await;
            (first, second.or_else(|error| if left == limit { Err(error) } else { Ok(Promoted::default()) })?)
        } else {
            let first = self.durable.promote(limit).await?;
            let left = limit - first.jobs.len();
            (first, self.volatile.promote(left).await?)
        };
        first.jobs.extend(second.jobs);
        first.ready.extend(second.ready);
        first.ready.sort_unstable();
        Ok(first)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let volatile = claim.queues.iter().filter(|queue| self.routes.is_volatile(queue)).count();
        if volatile == 0 {
            return self.durable.claim(claim).await;
        }
        if volatile == claim.queues.len() {
            return self.volatile.claim(claim).await;
        }
        let (queues, rest): (Vec<QueueName>, Vec<QueueName>) =
            claim.queues.iter().cloned().partition(|queue| self.routes.is_volatile(queue));
        let volatile = Claim { queues, ..claim.clone() };
        let durable = Claim { queues: rest, ..claim };
        if self.is_volatiles_turn() {
            let claimed = self.volatile.claim(volatile).await?;
            match what_is_left(durable, &claimed) {
                None => Ok(claimed),
                Some(rest) => either(claimed, self.durable.claim(rest).await),
            }
        } else {
            let claimed = self.durable.claim(durable).await;
            match what_is_left(volatile, claimed.as_deref().unwrap_or_default()) {
                None => claimed,
                // A durable store in trouble does not keep volatile jobs from running.
                Some(rest) => either(self.volatile.claim(rest).await?, claimed),
            }
        }
    }

    async fn renew(
        &self,
        holder: &WorkerKey,
        holds: Vec<Hold>,
        lease: Duration,
    ) -> Result<Vec<Renewed>, StoreError> {
        match Split::by_id(holds, |hold| hold.job) {
            Split::Durable(holds) => self.durable.renew(holder, holds, lease).await,
            Split::Volatile(holds) => self.volatile.renew(holder, holds, lease).await,
            Split::Both { durable, volatile, order } => {
                let first = self.durable.renew(holder, durable, lease).await?;
                Ok(order.merge(first, self.volatile.renew(holder, volatile, lease).await?))
            }
        }
    }

    async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError> {
        match Split::by_id(reports, |report| report.hold.job) {
            Split::Durable(reports) => self.durable.finish(holder, reports).await,
            Split::Volatile(reports) => self.volatile.finish(holder, reports).await,
            Split::Both { durable, volatile, order } => {
                let first = self.durable.finish(holder, durable).await?;
                Ok(order.merge(first, self.volatile.finish(holder, volatile).await?))
            }
        }
    }

    async fn progress(&self, holder: &WorkerKey, notes: Vec<Progress>) -> Result<Vec<bool>, StoreError> {
        match Split::by_id(notes, |note| note.hold.job) {
            Split::Durable(notes) => self.durable.progress(holder, notes).await,
            Split::Volatile(notes) => self.volatile.progress(holder, notes).await,
            Split::Both { durable, volatile, order } => {
                let first = self.durable.progress(holder, durable).await?;
                Ok(order.merge(first, self.volatile.progress(holder, volatile).await?))
            }
        }
    }

    async fn to_stop(&self, holder: &WorkerKey) -> Result<Vec<ToStop>, StoreError> {
        let mut to_stop = self.durable.to_stop(holder).await?;
        to_stop.extend(self.volatile.to_stop(holder).await?);
        to_stop.sort_unstable_by_key(|job| job.hold);
        Ok(to_stop)
    }

    async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError> {
        let mut durable = self.durable.expired(registry, limit).await?;
        let volatile = self.volatile.expired(registry, limit).await?;
        if self.is_volatiles_turn() {
            durable.truncate(limit.saturating_sub(volatile.len()));
        }
        durable.extend(volatile);
        durable.truncate(limit);
        Ok(durable)
    }

    async fn reap(&self, seen: Vec<Expired>) -> Result<Vec<Reaped>, StoreError> {
        match Split::by_id(seen, |seen| seen.hold.job) {
            Split::Durable(seen) => self.durable.reap(seen).await,
            Split::Volatile(seen) => self.volatile.reap(seen).await,
            Split::Both { durable, volatile, .. } => {
                let mut reaped = self.durable.reap(durable).await?;
                reaped.extend(self.volatile.reap(volatile).await?);
                Ok(reaped)
            }
        }
    }

    async fn push(&self, seen: Vec<Expired>, by: Duration) -> Result<u64, StoreError> {
        match Split::by_id(seen, |seen| seen.hold.job) {
            Split::Durable(seen) => self.durable.push(seen, by).await,
            Split::Volatile(seen) => self.volatile.push(seen, by).await,
            Split::Both { durable, volatile, .. } => {
                Ok(self.durable.push(durable, by).await? + self.volatile.push(volatile, by).await?)
            }
        }
    }

    async fn enlist(&self, workers: Vec<Enlist>) -> Result<Vec<EnlistAnswer>, StoreError> {
        let answers = self.durable.enlist(workers.clone()).await?;
        let known = workers.into_iter().zip(&answers).filter(|(_, answer)| **answer == EnlistAnswer::Known);
        self.volatile.enlist(known.map(|(worker, _)| worker).collect()).await?;
        Ok(answers)
    }

    async fn roster(&self, registry: RegistryId) -> Result<Vec<Enlist>, StoreError> {
        self.durable.roster(registry).await
    }

    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError> {
        self.durable.worker(key).await
    }

    async fn retire(&self, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> Result<bool, StoreError> {
        let is_retired = self.durable.retire(holder, end, by).await?;
        if is_retired {
            self.volatile.retire(holder, end, by).await?;
        }
        Ok(is_retired)
    }

    async fn readmit(&self, holder: &WorkerKey, registry: RegistryId) -> Result<(), StoreError> {
        self.durable.readmit(holder, registry).await?;
        self.volatile.readmit(holder, registry).await
    }

    async fn succeed(
        &self,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: Vec<Hold>,
    ) -> Result<Vec<bool>, StoreError> {
        // Volatile jobs stay with the former: nobody but who started one may go on with it.
        let (durable, volatile, order) = match Split::by_id(holds, |hold| hold.job) {
            Split::Durable(holds) => (holds, 0, None),
            Split::Volatile(holds) => (Vec::new(), holds.len(), None),
            Split::Both { durable, volatile, order } => (durable, volatile.len(), Some(order)),
        };
        let moved = self.durable.succeed(former, successor, durable).await?;
        let known = self.durable.worker(former).await?;
        if let Some(KnownWorker { worker, ended: Some((end, _)) }) = known {
            self.volatile.retire(former, end, worker.registry).await?;
        }
        Ok(match order {
            Some(order) => order.merge(moved, vec![false; volatile]),
            None if volatile > 0 => vec![false; volatile],
            None => moved,
        })
    }

    async fn reap_holder(&self, holder: &WorkerKey, counted: bool) -> Result<Vec<Reaped>, StoreError> {
        let mut reaped = self.durable.reap_holder(holder, counted).await?;
        reaped.extend(self.volatile.reap_holder(holder, counted).await?);
        Ok(reaped)
    }

    async fn extend_leases(&self, registry: RegistryId, by: Duration) -> Result<u64, StoreError> {
        Ok(self.durable.extend_leases(registry, by).await?
            + self.volatile.extend_leases(registry, by).await?)
    }

    async fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelled>, StoreError> {
        match Split::by_id(ids, |id| *id) {
            Split::Durable(ids) => self.durable.cancel(ids).await,
            Split::Volatile(ids) => self.volatile.cancel(ids).await,
            Split::Both { durable, volatile, order } => {
                let first = self.durable.cancel(durable).await?;
                Ok(order.merge(first, self.volatile.cancel(volatile).await?))
            }
        }
    }

    /// Without a queue the durable ones come first, then the volatile ones, each by id: whoever calls again with the last id
    /// answered goes on where it was.
    async fn redrive(
        &self,
        selection: Selection,
        limit: usize,
    ) -> Result<Vec<(JobId, Redriven)>, StoreError> {
        let (filter, after) = match selection {
            Selection::Filter { filter, after } => (filter, after),
            Selection::Ids(ids) => {
                return match Split::by_id(ids, |id| *id) {
                    Split::Durable(ids) => self.durable.redrive(Selection::Ids(ids), limit).await,
                    Split::Volatile(ids) => self.volatile.redrive(Selection::Ids(ids), limit).await,
                    Split::Both { durable, volatile, order } => {
                        let first = self.durable.redrive(Selection::Ids(durable), limit).await?;
                        let second = self.volatile.redrive(Selection::Ids(volatile), limit).await?;
                        Ok(order.merge(first, second))
                    }
                };
            }
        };
        let is_in_volatile = after.is_some_and(JobId::is_volatile);
        let durable = Selection::Filter { filter: filter.clone(), after };
        let after = after.filter(|_| is_in_volatile);
        let volatile = Selection::Filter { filter: filter.clone(), after };
        match filter.queue {
            Some(queue) if self.routes.is_volatile(&queue) => self.volatile.redrive(volatile, limit).await,
            Some(_) => self.durable.redrive(durable, limit).await,
            None if is_in_volatile => self.volatile.redrive(volatile, limit).await,
            None => {
                let mut redriven = self.durable.redrive(durable, limit).await?;
                let left = limit.saturating_sub(redriven.len());
                redriven.extend(self.volatile.redrive(volatile, left).await?);
                Ok(redriven)
            }
        }
    }

    async fn purge(&self, retention: Retention, limit: usize) -> Result<u64, StoreError> {
        Ok(self.durable.purge(retention, limit).await? + self.volatile.purge_copy(retention, limit))
    }

    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
        let is_volatile = self.routes.is_volatile(queue);
        if patch.volatile.is_some_and(|wanted| wanted != is_volatile) {
            return self.move_queue(queue, patch).await;
        }
        let settings = self.durable.set_queue(queue, patch).await?;
        if is_volatile { self.volatile.set_queue(queue, patch_of(&settings)).await } else { Ok(settings) }
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        if id.is_volatile() { self.volatile.get(id).await } else { self.durable.get(id).await }
    }

    async fn list(&self, filter: JobFilter, page: Page) -> Result<Vec<Job>, StoreError> {
        match &filter.queue {
            Some(queue) if self.routes.is_volatile(queue) => self.volatile.list(filter, page).await,
            Some(_) => self.durable.list(filter, page).await,
            None => {
                let durable = self.durable.list(filter.clone(), page).await?;
                Ok(merge::newest(durable, self.volatile.list(filter, page).await?, page))
            }
        }
    }

    async fn stats(&self) -> Result<Vec<QueueStats>, StoreError> {
        let durable = self.durable.stats().await?;
        Ok(merge::stats(durable, self.volatile.stats().await?, |queue| self.routes.is_volatile(queue)))
    }

    async fn queue_settings(&self) -> Result<Vec<(QueueName, QueueSettings)>, StoreError> {
        let mut settings = self.durable.queue_settings().await?;
        for (_, settings) in settings.iter_mut().filter(|(queue, _)| self.routes.is_volatile(queue)) {
            (settings.volatile, settings.exclusive) = (true, true);
        }
        Ok(settings)
    }

    async fn deadlines(&self, registry: RegistryId) -> Result<Deadlines, StoreError> {
        let durable = self.durable.deadlines(registry).await?;
        Ok(merge::deadlines(durable, self.volatile.deadlines(registry).await?))
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.durable.check().await
    }

    fn is_volatile(&self, queue: &QueueName) -> bool {
        self.routes.is_volatile(queue)
    }

    fn has_volatile(&self) -> bool {
        self.routes.has_volatile()
    }

    fn is_durable(&self) -> bool {
        self.durable.is_durable()
    }

    async fn acknowledge(
        &self,
        ids: Vec<JobId>,
        lowest: Option<JobId>,
    ) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        self.volatile.acknowledge(ids, lowest).await
    }

    async fn past_of(&self, client: ClientId) -> Result<Past, StoreError> {
        self.volatile.past_of(client).await
    }

    fn usage(&self) -> Usage {
        self.volatile.usage()
    }

    fn inheritance(&self) -> Inheritance {
        self.volatile.inheritance()
    }

    fn take_alarms(&self) -> Vec<Alarm> {
        self.volatile.take_alarms()
    }

    fn is_shared(&self) -> bool {
        self.durable.is_shared()
    }

    async fn found(&self, server: ServerInfo) -> Result<RegistryId, StoreError> {
        self.durable.found(server).await
    }

    async fn beat(&self, registry: RegistryId) -> Result<Option<Vec<Peer>>, StoreError> {
        self.durable.beat(registry).await
    }

    async fn take_over(
        &self,
        from: RegistryId,
        beats_seen: u64,
        by: RegistryId,
    ) -> Result<Option<Vec<Enlist>>, StoreError> {
        self.durable.take_over(from, beats_seen, by).await
    }

    async fn called_off(&self, registry: RegistryId) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        let mut called_off = self.durable.called_off(registry).await?;
        called_off.extend(self.volatile.called_off(registry).await?);
        called_off.sort_unstable_by_key(|(_, hold)| *hold);
        Ok(called_off)
    }

    async fn resign(&self, registry: RegistryId) -> Result<(), StoreError> {
        self.durable.resign(registry).await
    }

    fn tell(&self, news: News) {
        self.durable.tell(news);
    }

    async fn next_news(&self) -> News {
        self.durable.next_news().await
    }
}

/// All that the volatile store must know of a queue's settings.
pub(super) fn patch_of(settings: &QueueSettings) -> QueuePatch {
    QueuePatch {
        paused: Some(settings.paused),
        exclusive: None,
        volatile: None,
        heartbeat_timeout: Some(settings.heartbeat_timeout),
        max_attempts: Some(settings.max_attempts),
        retry: Some(settings.retry),
    }
}

/// A wish after it was granted in part.
fn what_is_left(claim: Claim, claimed: &[Claimed]) -> Option<Claim> {
    let bytes: usize = claimed.iter().map(Claimed::bytes).sum();
    let limit = claim.limit - claimed.len();
    let is_filled = limit == 0 || (!claimed.is_empty() && bytes >= claim.bytes_max);
    (!is_filled).then(|| Claim { limit, bytes_max: claim.bytes_max.saturating_sub(bytes), ..claim })
}

/// What was claimed from one store must be given out, whatever the other says.
fn either(
    mut claimed: Vec<Claimed>,
    other: Result<Vec<Claimed>, StoreError>,
) -> Result<Vec<Claimed>, StoreError> {
    match other {
        Err(error) if claimed.is_empty() => Err(error),
        Err(_) => Ok(claimed),
        Ok(more) => {
            claimed.extend(more);
            Ok(claimed)
        }
    }
}
