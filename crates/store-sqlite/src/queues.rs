//! Queue settings.

use model::{QueueName, QueuePatch, QueueSettings};
use rusqlite::params;

use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

const SET: &str = "
    UPDATE queues SET paused = ?2, exclusive = ?3, heartbeat_us = ?4, max_attempts = ?5, retry = ?6,
        volatile = ?7
    WHERE no = ?1";

pub(crate) const STATEMENTS: &[&str] = &[SET];

/// See [`store::JobStore::set_queue`].
pub(crate) struct SetQueue {
    pub(crate) queue: QueueName,
    pub(crate) patch: QueuePatch,
}

impl Verb for SetQueue {
    type Answer = QueueSettings;

    fn run(&self, tx: &mut Tx<'_>) -> Result<QueueSettings, Trouble> {
        let no = match tx.books.queue_no(&self.queue) {
            Some(no) => no,
            None => tx.books.create_queue(tx.db, &self.queue)?,
        };
        let settings = self.patch.apply(&tx.books.queue(no)?.settings);
        tx.db.prepare(SET)?.execute(params![
            no,
            settings.paused,
            settings.exclusive,
            settings.heartbeat_timeout.map(row::micros),
            settings.max_attempts,
            settings.retry.map(|policy| policy.to_string()),
            settings.volatile
        ])?;
        tx.books.note_queue(no, self.queue.clone(), settings.clone());
        Ok(settings)
    }
}
