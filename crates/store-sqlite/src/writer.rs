//! The writer thread: takes all requests that wait, runs them in one transaction, commits, answers.
//!
//! A group that fails as a whole (full disk) is refused as a whole. A group that fails because of one of its members
//! is rolled back and run again one by one. Either way nothing is half done and the next group starts afresh.

use std::path::PathBuf;
use std::time::Instant;

use store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::books::Books;
use crate::db::Db;
use crate::error::Trouble;
use crate::files::Files;
use crate::open::OnCommit;
use crate::time::{Now, StoreClock, keep_lease_clock};

/// Requests that may wait for the writer; further callers wait for a place.
pub(crate) const INBOX_REQUESTS_MAX: usize = 4096;
/// Requests in one transaction; the others wait for the next.
const GROUP_REQUESTS_MAX: usize = 1024;
/// A transaction takes no further request once it has this many jobs, so that no caller waits too long for its commit.
const GROUP_JOBS_MAX: usize = 8192;

/// Something that changes the store. It can be run more than once; only the last run counts.
pub(crate) trait Verb: Send + 'static {
    /// What the caller wants to know.
    type Answer: Send + 'static;

    /// How many jobs it is about.
    fn jobs(&self) -> usize {
        1
    }

    /// Runs inside a transaction that someone else commits or rolls back.
    fn run(&self, tx: &mut Tx<'_>) -> Result<Self::Answer, Trouble>;
}

/// A transaction under way.
pub(crate) struct Tx<'a> {
    pub(crate) db: &'a Db,
    pub(crate) now: Now,
    pub(crate) books: &'a mut Books,
}

/// A verb with someone waiting for it.
pub(crate) type Request = Box<dyn AnyRequest>;

pub(crate) trait AnyRequest: Send {
    fn jobs(&self) -> usize;
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Trouble>;
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Pending<V: Verb> {
    verb: V,
    answer: Option<V::Answer>,
    reply: oneshot::Sender<Result<V::Answer, StoreError>>,
}

impl<V: Verb> AnyRequest for Pending<V> {
    fn jobs(&self) -> usize {
        self.verb.jobs()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Trouble> {
        self.answer = Some(self.verb.run(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Pending { answer, reply, .. } = *self;
        // A caller that went away does not want its answer; what it asked for is done all the same.
        let _ = reply.send(committed.map(|()| answer.expect("a committed verb was run")));
    }
}

/// A request for the writer and the place where its answer will be.
pub(crate) fn request<V: Verb>(verb: V) -> (Request, oneshot::Receiver<Result<V::Answer, StoreError>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Pending { verb, answer: None, reply }), answer)
}

/// The thread's state.
pub(crate) struct Writer {
    pub(crate) db: Db,
    pub(crate) dir: PathBuf,
    pub(crate) files: Files,
    pub(crate) clock: StoreClock,
    /// `None` after a rollback, until they are read again.
    pub(crate) books: Option<Books>,
    pub(crate) on_commit: Option<OnCommit>,
}

impl Writer {
    /// Serves until every sender is gone and everything sent is answered.
    pub(crate) fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        let mut group = Vec::new();
        while let Some(first) = inbox.blocking_recv() {
            let mut jobs = first.jobs();
            group.push(first);
            while group.len() < GROUP_REQUESTS_MAX
                && jobs < GROUP_JOBS_MAX
                && let Ok(next) = inbox.try_recv()
            {
                jobs += next.jobs();
                group.push(next);
            }
            self.serve(&mut group);
        }
        if let Err(error) = self.db.connection.pragma_update(None, "wal_checkpoint", "TRUNCATE") {
            tracing::warn!(%error, "could not move the log into the database on closing; the next start will");
        }
    }

    /// Runs the group and answers all of it.
    fn serve(&mut self, group: &mut Vec<Request>) {
        match self.commit(group) {
            Err(trouble) if group.len() > 1 && !trouble.is_outage() => {
                tracing::warn!(error = %trouble, "a group of requests failed; running them one by one");
                for mut request in group.drain(..) {
                    let committed = self.commit(std::slice::from_mut(&mut request));
                    request.answer(committed.map_err(|trouble| self.explain(&trouble)));
                }
            }
            committed => {
                let committed = committed.map_err(|trouble| self.explain(&trouble));
                for request in group.drain(..) {
                    request.answer(committed.clone());
                }
            }
        }
    }

    /// One transaction for all of these, or none of them.
    fn commit(&mut self, group: &mut [Request]) -> Result<(), Trouble> {
        let mut books = match self.books.take() {
            Some(books) => books,
            None => Books::load(&self.db)?,
        };
        let committed = self.try_commit(group, &mut books);
        if committed.is_ok() {
            self.books = Some(books);
        } else if !self.db.connection.is_autocommit()
            && let Err(error) = self.db.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "could not roll back");
        }
        committed
    }

    fn try_commit(&mut self, group: &mut [Request], books: &mut Books) -> Result<(), Trouble> {
        let db = &self.db;
        db.prepare("BEGIN IMMEDIATE")?.execute([])?;
        for request in group.iter_mut() {
            request.run(&mut Tx { db, now: self.clock.now(), books })?;
        }
        books.moves.write(db)?;
        if std::mem::take(&mut books.stamped) {
            keep_lease_clock(db, self.clock.now().lease)?;
        }
        if let Some(path) = self.files.first_gone() {
            return Err(Trouble::FileGone(path.to_owned()));
        }
        let started = Instant::now();
        db.prepare("COMMIT")?.execute([])?;
        if let Some(on_commit) = &self.on_commit {
            on_commit(started.elapsed(), group.len());
        }
        Ok(())
    }

    fn explain(&self, trouble: &Trouble) -> StoreError {
        let error = trouble.to_store_error(&self.dir);
        tracing::warn!(%error, cause = %trouble, "a commit failed");
        error
    }
}
