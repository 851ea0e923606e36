//! The PostgreSQL store as a [`JobStore`]: each verb becomes a request to the lane it belongs to.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::{
    Backoff, Hold, HolderEnd, Invalid, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report,
    WorkerKey,
};
use store::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, News, Page, Peer, Progress, Promoted, QueueStats, Reaped,
    Redriven, Renewed, Retention, Selection, ServerInfo, StoreError, ToStop,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::cancel::Cancel;
use crate::claim::ClaimJobs;
use crate::counts::Fold;
use crate::db::{Mutations, Shared};
use crate::enqueue::{Enqueue, Promote};
use crate::error::OpenError;
use crate::finish::Finish;
use crate::lane::{Lane, MergingLane};
use crate::link::{Link, jittered};
use crate::migrate;
use crate::news::Newsroom;
use crate::open::{Connector, Habits, PostgresOptions};
use crate::purge::Purge;
use crate::queues::{QueueNames, SetQueue, Settings, Stats};
use crate::read::{FindCalledOff, FindExpired, FindToStop, Get, NextDeadlines};
use crate::reap::{ExtendLeases, Push, Reap, ReapHolder};
use crate::redrive::Redrive;
use crate::registries::{Beat, Found, Resign, TakeOver};
use crate::renew::{KeepProgress, Renew};
use crate::search::{FindEnded, List};
use crate::succeed::Succeed;
use crate::time::StoreClock;
use crate::vacuum::{Litter, keep_vacuuming};
use crate::workers::{EnlistWorkers, FindUnreaped, FindWorker, Readmit, Retire, Roster};

/// How often the counts are added up.
const FOLD_EVERY: Duration = Duration::from_secs(5);

/// Jobs in a PostgreSQL database, shared with other servers. It connects again by itself whenever it must.
pub struct PostgresStore {
    lanes: Lanes,
    news: Newsroom,
    litter: Arc<Litter>,
    /// What is done from time to time. They end with us.
    duties: JoinSet<()>,
    tasks: Vec<JoinHandle<()>>,
}

/// One connection each, so that commits overlap and nobody waits for what is slow.
struct Lanes {
    enqueue: MergingLane<Enqueue>,
    claim: MergingLane<ClaimJobs>,
    finish: MergingLane<Finish>,
    renew: MergingLane<Renew>,
    /// What else holders say, and what is said about holds that stand.
    holds: Lane,
    /// Our registry's beats, behind nothing else: a late one costs us our workers.
    beats: Lane,
    /// Everything else that writes.
    upkeep: Lane,
    /// What has a quick answer.
    read: Lane,
    /// What may take long, apart from the others, so that the reaper never waits for a dashboard.
    search: Lane,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date if the options say so.
    pub async fn connect(options: PostgresOptions) -> Result<Self, OpenError> {
        Self::connect_with(options, Mutations::default()).await
    }

    /// Connects with parts of the statements replaced, for the mutation check.
    ///
    /// # Panics
    ///
    /// If a part to be replaced occurs in no statement.
    #[doc(hidden)]
    pub async fn connect_mutated(
        options: PostgresOptions,
        replacements: &[(&str, &str)],
    ) -> Result<Self, OpenError> {
        Self::connect_with(options, Mutations::new(replacements)).await
    }

    async fn connect_with(options: PostgresOptions, mutations: Mutations) -> Result<Self, OpenError> {
        let connector = Arc::new(Connector::open(&options.url)?);
        settle_schema(&connector, &options).await?;
        let shared = Arc::new(Shared {
            clock: StoreClock::new(options.clock),
            mutations,
            queues: QueueNames::default(),
        });
        let link = |habits| Link::new(connector.clone(), shared.clone(), habits, options.on_commit.clone());
        let (enqueue, enqueuing) = MergingLane::start(link(Habits::AMONG_APPLICATIONS));
        let (claim, claiming) = MergingLane::start(link(Habits::USUAL));
        let (finish, finishing) = MergingLane::start(link(Habits::USUAL));
        let (renew, renewing) = MergingLane::start(link(Habits::USUAL));
        let (holds, holding) = Lane::start(link(Habits::USUAL));
        let (beats, beating) = Lane::start(link(Habits::PROMPT));
        let (upkeep, upkeeping) = Lane::start(link(Habits::USUAL));
        let (read, reading) = Lane::start(link(Habits::USUAL));
        let (search, searching) = Lane::start(link(Habits::SEARCHING));
        let mut duties = JoinSet::new();
        duties.spawn(keep_folding(upkeep.clone()));
        let litter = Arc::<Litter>::default();
        duties.spawn(keep_vacuuming(connector.clone(), read.clone(), litter.clone(), options.on_vacuum));
        Ok(PostgresStore {
            lanes: Lanes { enqueue, claim, finish, renew, holds, beats, upkeep, read, search },
            news: Newsroom::start(connector).await,
            litter,
            duties,
            tasks: vec![
                enqueuing, claiming, finishing, renewing, holding, beating, upkeeping, reading, searching,
            ],
        })
    }

    /// Answers what was asked and closes the connections.
    pub async fn close(self) {
        let PostgresStore { lanes, news, mut duties, tasks, .. } = self;
        duties.shutdown().await;
        drop((lanes, news));
        for task in tasks {
            if task.await.is_err() {
                tracing::error!("a task of the store had panicked");
            }
        }
    }
}

/// Waits for the database, as long as the options say, and sees to its schema.
async fn settle_schema(connector: &Connector, options: &PostgresOptions) -> Result<(), OpenError> {
    let (started, mut backoff) = (Instant::now(), Backoff::default());
    let mut client = loop {
        match connector.connect_plain().await {
            Err(OpenError::Unreachable(reason)) if started.elapsed() < options.patience => {
                tracing::warn!(%reason, "cannot connect to the database; trying again");
                sleep(jittered(backoff.next_delay())).await;
            }
            connected => break connected?,
        }
    };
    if options.migrate {
        return migrate::apply(&mut client).await;
    }
    let known = migrate::migrations().len() as u32;
    match migrate::pending(&client).await? {
        [] => Ok(()),
        missing => Err(OpenError::Older { found: known - missing.len() as u32, known }),
    }
}

async fn keep_folding(upkeep: Lane) {
    loop {
        sleep(jittered(FOLD_EVERY * 2)).await;
        // If it fails the lane has said so, and the counts are right all the same.
        while let Ok(true) = upkeep.run(Fold).await {}
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        self.lanes.enqueue.run(Enqueue::of(batch)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted, StoreError> {
        self.lanes.upkeep.run(Promote { limit }).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.lanes.claim.run(ClaimJobs(claim)).await
    }

    async fn renew(
        &self,
        holder: &WorkerKey,
        holds: Vec<Hold>,
        lease: Duration,
    ) -> Result<Vec<Renewed>, StoreError> {
        self.lanes.renew.run(Renew { holder: holder.clone(), holds, lease }).await
    }

    async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError> {
        self.litter.left_by(reports.len());
        self.lanes.finish.run(Finish { holder: holder.clone(), reports }).await
    }

    async fn progress(&self, holder: &WorkerKey, notes: Vec<Progress>) -> Result<Vec<bool>, StoreError> {
        self.lanes.holds.run(KeepProgress { holder: holder.clone(), notes }).await
    }

    async fn to_stop(&self, holder: &WorkerKey) -> Result<Vec<ToStop>, StoreError> {
        self.lanes.read.run(FindToStop(holder.clone())).await
    }

    async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError> {
        self.lanes.read.run(FindExpired { registry, limit }).await
    }

    async fn reap(&self, seen: Vec<Expired>) -> Result<Vec<Reaped>, StoreError> {
        self.lanes.upkeep.run(Reap(seen)).await
    }

    async fn push(&self, seen: Vec<Expired>, by: Duration) -> Result<u64, StoreError> {
        self.lanes.holds.run(Push { seen, by }).await
    }

    async fn enlist(&self, workers: Vec<Enlist>) -> Result<Vec<EnlistAnswer>, StoreError> {
        self.lanes.upkeep.run(EnlistWorkers(workers)).await
    }

    async fn roster(&self, registry: RegistryId) -> Result<Vec<Enlist>, StoreError> {
        self.lanes.read.run(Roster(registry)).await
    }

    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError> {
        self.lanes.read.run(FindWorker(key.clone())).await
    }

    async fn retire(&self, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> Result<bool, StoreError> {
        self.lanes.upkeep.run(Retire { holder: holder.clone(), end, by }).await
    }

    async fn readmit(&self, holder: &WorkerKey, registry: RegistryId) -> Result<(), StoreError> {
        self.lanes.upkeep.run(Readmit { holder: holder.clone(), registry }).await
    }

    async fn succeed(
        &self,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: Vec<Hold>,
    ) -> Result<Vec<bool>, StoreError> {
        let (former, successor) = (former.clone(), successor.clone());
        self.lanes.upkeep.run(Succeed { former, successor, holds }).await
    }

    async fn reap_holder(&self, holder: &WorkerKey, counted: bool) -> Result<Vec<Reaped>, StoreError> {
        self.lanes.upkeep.run(ReapHolder { holder: holder.clone(), counted }).await
    }

    async fn extend_leases(&self, registry: RegistryId, by: Duration) -> Result<u64, StoreError> {
        self.lanes.upkeep.run(ExtendLeases { registry, by }).await
    }

    async fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelled>, StoreError> {
        self.lanes.upkeep.run(Cancel(ids)).await
    }

    async fn redrive(
        &self,
        selection: Selection,
        limit: usize,
    ) -> Result<Vec<(JobId, Redriven)>, StoreError> {
        let ids = match selection {
            Selection::Ids(ids) => ids,
            // What a long search finds is checked again when it is written.
            Selection::Filter { filter, after } => {
                self.lanes.search.run(FindEnded { filter, after, limit }).await?
            }
        };
        // Beside the others that write: it may have to wait for an application's transaction that took a unique key.
        self.lanes.search.run(Redrive(ids)).await
    }

    async fn purge(&self, retention: Retention, limit: usize) -> Result<u64, StoreError> {
        self.lanes.upkeep.run(Purge { retention, limit }).await
    }

    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
        if patch.volatile == Some(true) {
            return Err(StoreError::Invalid(Invalid::new(
                "a volatile queue belongs to one server; on PostgreSQL several may serve it",
            )));
        }
        self.lanes.upkeep.run(SetQueue { queue: queue.clone(), patch }).await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.lanes.read.run(Get(id)).await
    }

    async fn list(&self, filter: JobFilter, page: Page) -> Result<Vec<Job>, StoreError> {
        self.lanes.search.run(List { filter, page }).await
    }

    async fn stats(&self) -> Result<Vec<QueueStats>, StoreError> {
        self.lanes.search.run(Stats).await
    }

    async fn queue_settings(&self) -> Result<Vec<(QueueName, QueueSettings)>, StoreError> {
        self.lanes.read.run(Settings).await
    }

    async fn deadlines(&self, registry: RegistryId) -> Result<Deadlines, StoreError> {
        self.lanes.read.run(NextDeadlines(registry)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.lanes.enqueue.run(Enqueue::probe()).await.map(drop)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn found(&self, server: ServerInfo) -> Result<RegistryId, StoreError> {
        self.lanes.upkeep.run(Found(server)).await
    }

    async fn beat(&self, registry: RegistryId) -> Result<Option<Vec<Peer>>, StoreError> {
        let peers = self.lanes.beats.run(Beat(registry)).await?;
        if let Some(peers) = &peers {
            self.news.note_peers(peers.iter().filter(|peer| peer.registry != registry).count());
        }
        Ok(peers)
    }

    async fn take_over(
        &self,
        from: RegistryId,
        beats_seen: u64,
        by: RegistryId,
    ) -> Result<Option<Vec<Enlist>>, StoreError> {
        self.lanes.upkeep.run(TakeOver { from, beats_seen, by }).await
    }

    async fn called_off(&self, registry: RegistryId) -> Result<Vec<(WorkerKey, Hold)>, StoreError> {
        self.lanes.read.run(FindCalledOff(registry)).await
    }

    async fn unreaped(&self, registry: RegistryId) -> Result<Vec<(WorkerKey, HolderEnd)>, StoreError> {
        self.lanes.read.run(FindUnreaped(registry)).await
    }

    async fn resign(&self, registry: RegistryId) -> Result<(), StoreError> {
        self.lanes.upkeep.run(Resign(registry)).await
    }

    fn tell(&self, news: News) {
        self.news.tell(news);
    }

    async fn next_news(&self) -> News {
        self.news.next().await
    }
}
