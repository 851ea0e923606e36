//! What servers ask of the store, as values: so that a call can wait, be done later, or be lost.

use std::time::Duration;

use model::{Hold, HolderEnd, JobId, Nonce, RegistryId, Report, WorkerKey};
use store::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobStore, KnownWorker, Peer, Progress, Promoted, Reaped, Redriven, Renewed, Retention,
    Selection, ServerInfo, StoreError,
};

/// What a server asks of the store.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Enqueue(EnqueueBatch),
    Promote(usize),
    Claim(Claim),
    Renew { key: WorkerKey, holds: Vec<Hold>, lease: Duration },
    Finish { key: WorkerKey, reports: Vec<Report> },
    Progress { key: WorkerKey, notes: Vec<Progress> },
    Expired(RegistryId, usize),
    Reap(Vec<Expired>),
    Push(Vec<Expired>, Duration),
    Enlist(Enlist),
    Roster(RegistryId),
    Worker(WorkerKey),
    Retire { key: WorkerKey, stranger: Option<Nonce>, end: HolderEnd, by: RegistryId },
    ReapHolder { key: WorkerKey, counted: bool },
    Succeed { former: WorkerKey, key: WorkerKey, holds: Vec<Hold> },
    Extend(RegistryId, Duration),
    Cancel(JobId),
    Redrive(JobId),
    Purge(usize),
    Deadlines(RegistryId),
    Found(ServerInfo),
    Beat(RegistryId),
    TakeOver { from: RegistryId, beats: u64, by: RegistryId },
    Resign(RegistryId),
}

/// What the store says to a call, by the call's name.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Enqueue(EnqueueAnswer),
    Promote(Promoted),
    Claim(Vec<Claimed>),
    Renew(Vec<Renewed>),
    Finish(Vec<Finished>),
    Progress(Vec<bool>),
    Expired(Vec<Expired>),
    Reap(Vec<Reaped>),
    Push(u64),
    Enlist(EnlistAnswer),
    Roster(Vec<Enlist>),
    Worker(Option<KnownWorker>),
    Retire(bool),
    Succeed(Vec<bool>),
    Extend,
    Cancel(Cancelled),
    Redrive(Redriven),
    Purge(u64),
    Deadlines(Deadlines),
    Found(RegistryId),
    Beat(Option<Vec<Peer>>),
    TakeOver(Option<Vec<Enlist>>),
    Resign,
}

impl Call {
    /// Has the store do it.
    pub(super) async fn run(self, store: &dyn JobStore) -> Result<Reply, StoreError> {
        Ok(match self {
            Call::Enqueue(batch) => Reply::Enqueue(store.enqueue(batch).await?),
            Call::Promote(limit) => Reply::Promote(store.promote(limit).await?),
            Call::Claim(claim) => Reply::Claim(store.claim(claim).await?),
            Call::Renew { key, holds, lease } => Reply::Renew(store.renew(&key, holds, lease).await?),
            Call::Finish { key, reports } => Reply::Finish(store.finish(&key, reports).await?),
            Call::Progress { key, notes } => Reply::Progress(store.progress(&key, notes).await?),
            Call::Expired(registry, limit) => Reply::Expired(store.expired(registry, limit).await?),
            Call::Reap(seen) => Reply::Reap(store.reap(seen).await?),
            Call::Push(seen, by) => Reply::Push(store.push(seen, by).await?),
            Call::Enlist(worker) => {
                let mut answers = store.enlist(vec![worker]).await?;
                Reply::Enlist(answers.pop().expect("one answer for one worker"))
            }
            Call::Roster(registry) => Reply::Roster(store.roster(registry).await?),
            Call::Worker(key) => Reply::Worker(store.worker(&key).await?),
            Call::Retire { key, stranger, end, by } => {
                let known = store.worker(&key).await?.filter(|known| known.ended.is_none());
                let is_anothers = |nonce| known.is_some_and(|known| known.worker.nonce != nonce);
                Reply::Retire(!stranger.is_some_and(is_anothers) && store.retire(&key, end, by).await?)
            }
            Call::ReapHolder { key, counted } => Reply::Reap(store.reap_holder(&key, counted).await?),
            Call::Succeed { former, key, holds } => {
                Reply::Succeed(store.succeed(&former, &key, holds).await?)
            }
            Call::Extend(registry, by) => {
                store.extend_leases(registry, by).await?;
                Reply::Extend
            }
            Call::Cancel(id) => {
                let mut answers = store.cancel(vec![id]).await?;
                Reply::Cancel(answers.pop().expect("one answer for one job"))
            }
            Call::Redrive(id) => {
                let mut answers = store.redrive(Selection::Ids(vec![id]), 1).await?;
                Reply::Redrive(answers.pop().expect("one answer for one job").1)
            }
            Call::Purge(limit) => Reply::Purge(store.purge(Retention::default(), limit).await?),
            Call::Deadlines(registry) => Reply::Deadlines(store.deadlines(registry).await?),
            Call::Found(server) => Reply::Found(store.found(server).await?),
            Call::Beat(registry) => Reply::Beat(store.beat(registry).await?),
            Call::TakeOver { from, beats, by } => Reply::TakeOver(store.take_over(from, beats, by).await?),
            Call::Resign(registry) => {
                store.resign(registry).await?;
                Reply::Resign
            }
        })
    }
}
