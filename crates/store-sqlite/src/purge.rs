//! Removing what is past retention.

use model::WorkerKey;
use rusqlite::{Params, params};
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

/// Terminal workers that ended up to ?1.
const PURGE_WORKERS: &str = "
    DELETE FROM holders
    WHERE no IN (
        SELECT h.no FROM holders h INDEXED BY holders_ended
        WHERE h.retired_at <= ?1
          AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = h.no)
        ORDER BY h.retired_at, h.key LIMIT ?2)
    RETURNING key";

/// Those who claimed and were never heard of otherwise. Nobody can tell that they are gone: the next claim enters them
/// again.
const FORGET_PLAIN: &str = "
    DELETE FROM holders
    WHERE no IN (
        SELECT h.no FROM holders h INDEXED BY holders_plain
        WHERE h.nonce IS NULL AND h.retired_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = h.no)
        LIMIT ?1)
    RETURNING key";

const PURGE_REQUESTS: &str = "
    DELETE FROM requests
    WHERE no IN (SELECT no FROM requests WHERE answered_at <= ?1 ORDER BY answered_at LIMIT ?2)";

pub(crate) const STATEMENTS: &[&str] = &[PURGE_JOBS, PURGE_WORKERS, FORGET_PLAIN, PURGE_REQUESTS];

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
        let workers = (now - Retention::WORKERS).as_millis();
        purged += forget(tx, PURGE_WORKERS, params![workers, limit])?;
        forget(tx, FORGET_PLAIN, params![limit])?;
        let requests = (now - Retention::REQUEST_IDS).as_millis();
        let forgotten = db.prepare(PURGE_REQUESTS)?.execute([requests, limit])?;
        Ok(purged + forgotten as u64)
    }
}

/// Removes holders by one of the two statements above, and says how many.
fn forget(tx: &mut Tx<'_>, sql: &str, parameters: impl Params) -> Result<u64, Trouble> {
    let mut delete = tx.db.prepare(sql)?;
    let mut rows = delete.query(parameters)?;
    let mut forgotten = 0;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        tx.books.forget_holder(&row::valid(WorkerKey::new(key))?);
        forgotten += 1;
    }
    Ok(forgotten)
}
