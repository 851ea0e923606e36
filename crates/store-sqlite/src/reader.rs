//! The reader threads: each answers questions from a read-only connection of its own, so that nobody waits for a commit.
//! One is for quick answers, one for searches.

use std::path::PathBuf;

use store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::db::Db;
use crate::error::Trouble;
use crate::time::{Now, StoreClock};

/// Questions that may wait for the reader; further callers wait for a place.
pub(crate) const INBOX_QUESTIONS_MAX: usize = 1024;

/// Something that only reads.
pub(crate) trait Query: Send + 'static {
    /// What the caller wants to know.
    type Answer: Send + 'static;

    fn run(&self, db: &Db, now: Now) -> Result<Self::Answer, Trouble>;
}

/// A query with someone waiting for it.
pub(crate) type Question = Box<dyn AnyQuestion>;

pub(crate) trait AnyQuestion: Send {
    fn answer(self: Box<Self>, reader: &Reader);
}

struct Pending<Q: Query> {
    query: Q,
    reply: oneshot::Sender<Result<Q::Answer, StoreError>>,
}

impl<Q: Query> AnyQuestion for Pending<Q> {
    fn answer(self: Box<Self>, reader: &Reader) {
        if self.reply.is_closed() {
            return;
        }
        let answer = self.query.run(&reader.db, reader.clock.now());
        let _ = self.reply.send(answer.map_err(|trouble| trouble.to_store_error(&reader.dir)));
    }
}

/// A question for the reader and the place where its answer will be.
pub(crate) fn question<Q: Query>(query: Q) -> (Question, oneshot::Receiver<Result<Q::Answer, StoreError>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Pending { query, reply }), answer)
}

/// The thread's state.
pub(crate) struct Reader {
    pub(crate) db: Db,
    pub(crate) dir: PathBuf,
    pub(crate) clock: StoreClock,
}

impl Reader {
    /// Serves until every sender is gone.
    pub(crate) fn run(self, mut inbox: mpsc::Receiver<Question>) {
        while let Some(question) = inbox.blocking_recv() {
            question.answer(&self);
        }
    }
}
