//! Removing what is past retention. What another server is about to remove is left to it.

use model::State;
use store::Retention;

use crate::counts::Moves;
use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row;

/// $1 state, $2 how long it is kept in milliseconds, $3 limit.
const PURGE_JOBS: &str = "
    WITH old AS (
        SELECT id FROM tenure.ended WHERE state = $1 AND finished_at <= WALL_NOW - $2::bigint
        ORDER BY finished_at LIMIT $3 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM tenure.ended e USING old WHERE e.id = ANY (ARRAY[old.id])
        RETURNING e.id, e.queue, e.unique_key, e.unique_retained
    ), freed AS (
        DELETE FROM tenure.unique_keys u USING gone
        WHERE u.queue = ANY (ARRAY[gone.queue]) AND u.unique_key = gone.unique_key
          AND u.job = gone.id AND gone.unique_retained
    )
    SELECT queue, count(*) FROM gone GROUP BY queue";

/// $1 how long they are remembered in milliseconds, $2 limit.
const PURGE_WORKERS: &str = "
    WITH old AS (
        SELECT h.key FROM tenure.holders h
        WHERE h.retired_at <= WALL_NOW - $1::bigint
          AND (SELECT j.id FROM tenure.jobs j WHERE j.state = 2 AND j.holder = h.key LIMIT 1) IS NULL
        ORDER BY h.retired_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM tenure.holders h USING old WHERE h.key = ANY (ARRAY[old.key])";

/// $1 how long they are remembered in milliseconds, $2 limit.
const PURGE_REQUESTS: &str = "
    WITH old AS (
        SELECT id FROM tenure.requests WHERE answered_at <= WALL_NOW - $1::bigint
        ORDER BY answered_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM tenure.requests r USING old WHERE r.id = ANY (ARRAY[old.id])";

pub(crate) const STATEMENTS: &[&str] = &[PURGE_JOBS, PURGE_WORKERS, PURGE_REQUESTS];

/// See [`store::JobStore::purge`].
pub(crate) struct Purge {
    pub(crate) retention: Retention,
    pub(crate) limit: usize,
}

impl Verb for Purge {
    type Answer = u64;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<u64, Trouble> {
        let Retention { completed, dead } = self.retention;
        let mut moves = Moves::default();
        let mut jobs = 0;
        for (state, kept) in
            [(State::Completed, completed), (State::Cancelled, completed), (State::Dead, dead)]
        {
            let room = row::limit(self.limit) - jobs;
            for row in tx.query(PURGE_JOBS, &[&(state as i16), &row::millis(kept), &room]).await? {
                let gone: i64 = row.try_get(1)?;
                moves.leave(row.try_get(0)?, state, gone);
                jobs += gone;
            }
        }
        moves.write(tx).await?;
        let limit = row::limit(self.limit);
        let workers = tx.execute(PURGE_WORKERS, &[&row::millis(Retention::WORKERS), &limit]).await?;
        let requests = tx.execute(PURGE_REQUESTS, &[&row::millis(Retention::REQUEST_IDS), &limit]).await?;
        Ok(jobs as u64 + workers + requests)
    }
}
