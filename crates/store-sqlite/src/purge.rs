//! Removing what is past retention.

use rusqlite::params;
use store::Retention;

use crate::blob;
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// ?1 and ?2: completed and cancelled jobs, and dead ones, that ended up to then.
const PURGE_JOBS: &str = "
    DELETE FROM jobs
    WHERE no IN (
        SELECT no FROM (
            SELECT * FROM (SELECT 0 AS turn, no, finished_at, id FROM jobs INDEXED BY jobs_ended
                WHERE state = 3 AND state >= 3 AND finished_at <= ?1 ORDER BY finished_at LIMIT ?3)
            UNION ALL
            SELECT * FROM (SELECT 0 AS turn, no, finished_at, id FROM jobs INDEXED BY jobs_ended
                WHERE state = 4 AND state >= 3 AND finished_at <= ?1 ORDER BY finished_at LIMIT ?3)
            UNION ALL
            SELECT * FROM (SELECT 1 AS turn, no, finished_at, id FROM jobs INDEXED BY jobs_ended
                WHERE state = 5 AND state >= 3 AND finished_at <= ?2 ORDER BY finished_at LIMIT ?3))
        ORDER BY turn, finished_at, id LIMIT ?3)
    RETURNING queue, state,
        CASE typeof(payload) WHEN 'integer' THEN payload END,
        CASE typeof(checkpoint) WHEN 'integer' THEN checkpoint END";

const PURGE_REQUESTS: &str = "
    DELETE FROM requests
    WHERE no IN (SELECT no FROM requests WHERE answered_at <= ?1 ORDER BY answered_at LIMIT ?2)";

pub(crate) const STATEMENTS: &[&str] = &[PURGE_JOBS, PURGE_REQUESTS];

/// See [`store::JobStore::purge`].
pub(crate) struct Purge {
    pub(crate) retention: Retention,
    pub(crate) limit: usize,
}

impl Verb for Purge {
    type Answer = u64;

    fn jobs(&self) -> usize {
        self.limit
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Trouble> {
        let (db, now) = (tx.db, tx.now.wall);
        let limit = row::limit(self.limit);
        let completed = (now - self.retention.completed).as_millis();
        let dead = (now - self.retention.dead).as_millis();
        let mut purged = 0;
        let mut delete = db.prepare(PURGE_JOBS)?;
        let mut rows = delete.query(params![completed, dead, limit])?;
        while let Some(row) = rows.next()? {
            tx.books.moves.leave(row.get(0)?, row::state(row, 1)?);
            for column in [2, 3] {
                if let Some(no) = row.get(column)? {
                    blob::remove(db, no)?;
                }
            }
            purged += 1;
        }
        let requests = (now - Retention::REQUEST_IDS).as_millis();
        let forgotten = db.prepare(PURGE_REQUESTS)?.execute([requests, limit])?;
        Ok(purged + forgotten as u64)
    }
}
