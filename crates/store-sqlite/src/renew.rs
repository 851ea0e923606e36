//! What a holder does while it holds: `renew` and `progress`.

use std::time::Duration;

use model::{Hold, WorkerKey};
use rusqlite::{OptionalExtension, params};
use store::{Progress, Renewed};

use crate::blob::{self, Stored};
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

const LOOK: &str = "SELECT no, queue, heartbeat_us, cancel_requested, exclusive FROM jobs WHERE id = ?1";

const RENEW: &str = "
    UPDATE jobs SET lease_until = ?4, granted_us = ?5, adopted = 0
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3";

const CHECKPOINT_APART: &str = "
    SELECT CASE typeof(checkpoint) WHEN 'integer' THEN checkpoint END FROM jobs WHERE id = ?1";

const PROGRESS: &str = "
    UPDATE jobs SET lost = 0, progress = coalesce(?4, progress), checkpoint = coalesce(?5, checkpoint)
    WHERE id = ?1 AND state = 2 AND holder = ?2 AND fence = ?3";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, RENEW, CHECKPOINT_APART, PROGRESS];

/// See [`store::JobStore::renew`].
pub(crate) struct Renew {
    pub(crate) holder: WorkerKey,
    pub(crate) holds: Vec<Hold>,
    pub(crate) lease: Duration,
}

impl Verb for Renew {
    type Answer = Vec<Renewed>;

    fn jobs(&self) -> usize {
        self.holds.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Renewed>, Trouble> {
        let db = tx.db;
        let holder = tx.books.holder_no(db, &self.holder)?;
        let mut look = db.prepare(LOOK)?;
        let mut renew = db.prepare(RENEW)?;
        let mut answers = Vec::with_capacity(self.holds.len());
        for hold in &self.holds {
            let mut rows = look.query(params![hold.job.to_bytes()])?;
            let Some(row) = rows.next()? else {
                answers.push(Renewed::Lost);
                continue;
            };
            let (no, queue): (i64, i64) = (row.get(0)?, row.get(1)?);
            let own = row.get::<_, Option<i64>>(2)?.map(row::duration);
            let (cancel, exclusive) = (row.get(3)?, row.get(4)?);
            drop(rows);
            let lease = own.or(tx.books.queue(queue)?.settings.heartbeat_timeout).unwrap_or(self.lease);
            let until = tx.now.lease + lease;
            let fence = hold.fence.get();
            let held = renew.execute(params![no, holder, fence, until.as_micros(), row::micros(lease)])? == 1;
            tx.books.stamped |= held;
            answers.push(if held { Renewed::Held { lease, cancel, exclusive } } else { Renewed::Lost });
        }
        Ok(answers)
    }
}

/// See [`store::JobStore::progress`].
pub(crate) struct KeepProgress {
    pub(crate) holder: WorkerKey,
    pub(crate) notes: Vec<Progress>,
}

impl Verb for KeepProgress {
    type Answer = Vec<bool>;

    fn jobs(&self) -> usize {
        self.notes.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<bool>, Trouble> {
        let holder = tx.books.holder_no(tx.db, &self.holder)?;
        self.notes.iter().map(|progress| keep(tx, holder, progress)).collect()
    }
}

fn keep(tx: &Tx<'_>, holder: i64, progress: &Progress) -> Result<bool, Trouble> {
    let db = tx.db;
    let job = progress.hold.job;
    let checkpoint = progress.checkpoint.as_ref().map(|bytes| blob::put(db, bytes)).transpose()?;
    // A large checkpoint that is replaced would stay behind.
    let replaced: Option<i64> = match checkpoint {
        Some(_) => db
            .prepare(CHECKPOINT_APART)?
            .query_row(params![job.to_bytes()], |row| row.get(0))
            .optional()?
            .flatten(),
        None => None,
    };
    let fence = progress.hold.fence.get();
    let note = progress.note.as_deref();
    let kept = db.prepare(PROGRESS)?.execute(params![job.to_bytes(), holder, fence, note, checkpoint])? == 1;
    let unused = if kept { replaced.map(Stored::Apart) } else { checkpoint };
    if let Some(unused) = unused {
        blob::take_back(db, unused)?;
    }
    Ok(kept)
}
