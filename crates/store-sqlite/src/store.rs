//! The SQLite store as a [`JobStore`]: each verb becomes a request to the writer or a question to the reader.

use std::fmt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use model::{
    Clock, Hold, HolderEnd, Job, JobId, QueueName, QueuePatch, QueueSettings, RegistryId, Report, WorkerKey,
};
use store::{
    Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, JobFilter, JobStore, KnownWorker, Page, Progress, Promoted, QueueStats, Reaped, Redriven,
    Renewed, Retention, Selection, StoreError, ToStop,
};
use tokio::sync::mpsc;

use crate::cancel::Cancel;
use crate::check::Check;
use crate::claim::ClaimJobs;
use crate::db::Mutations;
use crate::enqueue::{Enqueue, Promote};
use crate::error::{OpenError, stopped};
use crate::finish::Finish;
use crate::lock::DirLock;
use crate::open::{self, SqliteOptions};
use crate::purge::Purge;
use crate::queues::SetQueue;
use crate::read::{FindExpired, FindToStop, Get, NextDeadlines, Stats};
use crate::reader::{self, INBOX_QUESTIONS_MAX, Query, Question, Reader};
use crate::reap::{ExtendLeases, Push, Reap, ReapHolder};
use crate::redrive::Redrive;
use crate::renew::{KeepProgress, Renew};
use crate::search::{FindEnded, List};
use crate::succeed::Succeed;
use crate::workers::{EnlistWorkers, FindWorker, Readmit, Retire, Roster};
use crate::writer::{self, INBOX_REQUESTS_MAX, Request, Verb, Writer};

/// Jobs in one SQLite file. Dropping it answers what was asked, moves the log into the file and lets the directory go.
pub struct SqliteStore {
    writes: Option<mpsc::Sender<Request>>,
    reads: Option<mpsc::Sender<Question>>,
    searches: Option<mpsc::Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
    /// Released last.
    _lock: DirLock,
}

impl SqliteStore {
    /// Opens a data directory, creating what is missing. Every running job gets its full lease from now on,
    /// and a short-leased one a little more, because nobody could renew while the store was closed.
    pub fn open(options: SqliteOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::open_with(options, clock, Mutations::default())
    }

    /// Opens with parts of the statements replaced, for the mutation check.
    ///
    /// # Panics
    ///
    /// If a part to be replaced occurs in no statement.
    #[doc(hidden)]
    pub fn open_mutated(
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        replacements: &[(&str, &str)],
    ) -> Result<Self, OpenError> {
        Self::open_with(options, clock, Mutations::new(replacements))
    }

    fn open_with(
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        mutations: Mutations,
    ) -> Result<Self, OpenError> {
        let opened = open::open(&options, clock, mutations)?;
        let (writes, requests) = mpsc::channel(INBOX_REQUESTS_MAX);
        let (reads, questions) = mpsc::channel(INBOX_QUESTIONS_MAX);
        let (searches, long_questions) = mpsc::channel(INBOX_QUESTIONS_MAX);
        let dir = options.path;
        let reader = |db| Reader { db, dir: dir.clone(), clock: opened.clock.clone() };
        let (reader, searcher) = (reader(opened.reader), reader(opened.searcher));
        let writer = Writer {
            db: opened.writer,
            dir: dir.clone(),
            files: opened.files,
            clock: opened.clock,
            books: Some(opened.books),
            on_commit: options.on_commit,
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|error| OpenError::NotWritable { path: dir.clone(), error })
        };
        // The writer last: it is joined when the readers are gone, so that it closes the last connection and can empty
        // the log.
        let threads = vec![
            spawn("store-reader", Box::new(move || reader.run(questions)))?,
            spawn("store-searcher", Box::new(move || searcher.run(long_questions)))?,
            spawn("store-writer", Box::new(move || writer.run(requests)))?,
        ];
        let (writes, reads, searches) = (Some(writes), Some(reads), Some(searches));
        Ok(SqliteStore { writes, reads, searches, threads, _lock: opened.lock })
    }

    /// Answers what was asked, moves the log into the file and lets the directory go.
    pub fn close(self) {
        drop(self);
    }

    /// Gives a verb to the writer. Once it is in the inbox it happens, whether or not the caller stays to hear of it.
    async fn write<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let (request, answer) = writer::request(verb);
        let inbox = self.writes.as_ref().expect("the inbox is open until the store is dropped");
        inbox.send(request).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Asks what has a quick answer.
    async fn read<Q: Query>(&self, query: Q) -> Result<Q::Answer, StoreError> {
        ask(self.reads.as_ref(), query).await
    }

    /// Asks what may take long, apart from the others, so that the reaper never waits for a dashboard.
    async fn search<Q: Query>(&self, query: Q) -> Result<Q::Answer, StoreError> {
        ask(self.searches.as_ref(), query).await
    }
}

async fn ask<Q: Query>(inbox: Option<&mpsc::Sender<Question>>, query: Q) -> Result<Q::Answer, StoreError> {
    let (question, answer) = reader::question(query);
    let inbox = inbox.expect("the inbox is open until the store is dropped");
    inbox.send(question).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.reads = None;
        self.searches = None;
        let writer = self.threads.pop();
        self.threads.drain(..).for_each(join);
        // Only now: of two connections that close at the same moment neither is the last, and the log would stay.
        self.writes = None;
        writer.into_iter().for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store had panicked");
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl JobStore for SqliteStore {
    async fn enqueue(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        self.write(Enqueue(batch)).await
    }

    async fn promote(&self, limit: usize) -> Result<Promoted, StoreError> {
        self.write(Promote { limit }).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.write(ClaimJobs(claim)).await
    }

    async fn renew(
        &self,
        holder: &WorkerKey,
        holds: Vec<Hold>,
        lease: Duration,
    ) -> Result<Vec<Renewed>, StoreError> {
        self.write(Renew { holder: holder.clone(), holds, lease }).await
    }

    async fn finish(&self, holder: &WorkerKey, reports: Vec<Report>) -> Result<Vec<Finished>, StoreError> {
        self.write(Finish { holder: holder.clone(), reports }).await
    }

    async fn progress(&self, holder: &WorkerKey, notes: Vec<Progress>) -> Result<Vec<bool>, StoreError> {
        self.write(KeepProgress { holder: holder.clone(), notes }).await
    }

    async fn to_stop(&self, holder: &WorkerKey) -> Result<Vec<ToStop>, StoreError> {
        self.read(FindToStop(holder.clone())).await
    }

    async fn expired(&self, registry: RegistryId, limit: usize) -> Result<Vec<Expired>, StoreError> {
        self.read(FindExpired { registry, limit }).await
    }

    async fn reap(&self, seen: Vec<Expired>) -> Result<Vec<Reaped>, StoreError> {
        self.write(Reap(seen)).await
    }

    async fn push(&self, seen: Vec<Expired>, by: Duration) -> Result<u64, StoreError> {
        self.write(Push { seen, by }).await
    }

    async fn enlist(&self, workers: Vec<Enlist>) -> Result<Vec<EnlistAnswer>, StoreError> {
        self.write(EnlistWorkers(workers)).await
    }

    async fn roster(&self, registry: RegistryId) -> Result<Vec<Enlist>, StoreError> {
        self.read(Roster(registry)).await
    }

    async fn worker(&self, key: &WorkerKey) -> Result<Option<KnownWorker>, StoreError> {
        self.read(FindWorker(key.clone())).await
    }

    async fn retire(&self, holder: &WorkerKey, end: HolderEnd, by: RegistryId) -> Result<bool, StoreError> {
        self.write(Retire { holder: holder.clone(), end, by }).await
    }

    async fn readmit(&self, holder: &WorkerKey, registry: RegistryId) -> Result<(), StoreError> {
        self.write(Readmit { holder: holder.clone(), registry }).await
    }

    async fn succeed(
        &self,
        former: &WorkerKey,
        successor: &WorkerKey,
        holds: Vec<Hold>,
    ) -> Result<Vec<bool>, StoreError> {
        let (former, successor) = (former.clone(), successor.clone());
        self.write(Succeed { former, successor, holds }).await
    }

    async fn reap_holder(&self, holder: &WorkerKey, counted: bool) -> Result<Vec<Reaped>, StoreError> {
        self.write(ReapHolder { holder: holder.clone(), counted }).await
    }

    async fn extend_leases(&self, registry: RegistryId, by: Duration) -> Result<u64, StoreError> {
        self.write(ExtendLeases { registry, by }).await
    }

    async fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelled>, StoreError> {
        self.write(Cancel(ids)).await
    }

    async fn redrive(
        &self,
        selection: Selection,
        limit: usize,
    ) -> Result<Vec<(JobId, Redriven)>, StoreError> {
        let ids = match selection {
            Selection::Ids(ids) => ids,
            // A long search must not hold up the writer; what it finds is checked again when it is written.
            Selection::Filter { filter, after } => self.search(FindEnded { filter, after, limit }).await?,
        };
        self.write(Redrive(ids)).await
    }

    async fn purge(&self, retention: Retention, limit: usize) -> Result<u64, StoreError> {
        self.write(Purge { retention, limit }).await
    }

    async fn set_queue(&self, queue: &QueueName, patch: QueuePatch) -> Result<QueueSettings, StoreError> {
        self.write(SetQueue { queue: queue.clone(), patch }).await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(Get(id)).await
    }

    async fn list(&self, filter: JobFilter, page: Page) -> Result<Vec<Job>, StoreError> {
        self.search(List { filter, page }).await
    }

    async fn stats(&self) -> Result<Vec<QueueStats>, StoreError> {
        self.read(Stats).await
    }

    async fn deadlines(&self, registry: RegistryId) -> Result<Deadlines, StoreError> {
        self.read(NextDeadlines(registry)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.write(Check).await
    }
}
