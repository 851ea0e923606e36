//! How attempts end by their holder's word.
//!
//! Each report is looked up once, for what the answer needs, and then written by one guarded statement. The guard alone
//! decides; what was looked up only explains a refusal.

use std::time::Duration;

use model::{Ending, Fence, Outcome, Report, RetryPolicy, State, WallTime, WorkerKey, after_failure};
use rusqlite::{Row, params};
use store::{Finished, error_tail};

use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

const LOOK: &str = "
    SELECT no, queue, fence, reported_fence, cancel_requested, started_at, attempt, max_attempts, retry
    FROM jobs WHERE id = ?1";

const COMPLETE: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE 3 END, finished_at = ?4, result = ?5,
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3";

/// ?4 wall clock, ?5 error, ?6 when it runs again (NULL: as before), ?7 the state it goes to.
const FAIL: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE ?7 END,
        finished_at = CASE WHEN cancel_requested OR ?7 = 5 THEN ?4 END,
        run_at = CASE WHEN cancel_requested THEN run_at ELSE coalesce(?6, run_at) END,
        last_error = ?5, lost = 0,
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3";

const HAND_BACK: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE 1 END,
        finished_at = CASE WHEN cancel_requested THEN ?4 END,
        attempt = max(attempt - 1, 0),
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, COMPLETE, FAIL, HAND_BACK];

/// See [`store::JobStore::finish`].
pub(crate) struct Finish {
    pub(crate) holder: WorkerKey,
    pub(crate) reports: Vec<Report>,
}

impl Verb for Finish {
    type Answer = Vec<Finished>;

    fn jobs(&self) -> usize {
        self.reports.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Finished>, Trouble> {
        let db = tx.db;
        let holder = tx.books.holder_no(db, &self.holder)?;
        let mut look = db.prepare(LOOK)?;
        let mut answers = Vec::with_capacity(self.reports.len());
        for report in &self.reports {
            let mut rows = look.query(params![report.hold.job.as_bytes()])?;
            let seen = rows.next()?.map(Seen::read).transpose()?;
            drop(rows);
            answers.push(match seen {
                Some(seen) => end(tx, holder, report, seen)?,
                None => Finished::Unknown,
            });
        }
        Ok(answers)
    }
}

/// A job as it was before the report.
struct Seen {
    no: i64,
    queue: i64,
    fence: Fence,
    reported_fence: Fence,
    cancel_requested: bool,
    started_at: Option<WallTime>,
    attempt: u32,
    max_attempts: u32,
    retry: Option<RetryPolicy>,
}

impl Seen {
    fn read(row: &Row<'_>) -> Result<Self, Trouble> {
        Ok(Seen {
            no: row.get(0)?,
            queue: row.get(1)?,
            fence: Fence::new(row.get(2)?),
            reported_fence: Fence::new(row.get(3)?),
            cancel_requested: row.get(4)?,
            started_at: row.get::<_, Option<i64>>(5)?.map(row::wall_time),
            attempt: row.get(6)?,
            max_attempts: row.get(7)?,
            retry: row::retry(row, 8)?,
        })
    }

    /// The answer to a report whose hold does not stand.
    fn refuse(&self, fence: Fence) -> Finished {
        // A job that was never claimed has reported nothing, whatever fence the caller made up.
        if self.reported_fence == fence && fence != Fence::NONE {
            return Finished::AlreadyDone;
        }
        Finished::Stale { current: self.fence }
    }
}

/// Ends one attempt, if the hold stands.
fn end(tx: &mut Tx<'_>, holder: i64, report: &Report, seen: Seen) -> Result<Finished, Trouble> {
    let (db, now) = (tx.db, tx.now.wall);
    let fence = report.hold.fence;
    let queue = tx.books.queue(seen.queue)?;
    let name = queue.name.clone();
    let (written, state, run_at) = match &report.outcome {
        Outcome::Completed { result } => {
            let written = db.prepare(COMPLETE)?.execute(params![
                seen.no,
                holder,
                fence.get(),
                now.as_millis(),
                &result[..]
            ])?;
            (written, State::Completed, None)
        }
        Outcome::Failed { error, retry } => {
            let policy = seen.retry.or(queue.settings.retry).unwrap_or_default();
            let (state, run_at) =
                match after_failure(seen.attempt, seen.max_attempts, *retry, policy, seen.fence) {
                    Ending::Bury => (State::Dead, None),
                    Ending::Again => (State::Available, None),
                    Ending::Later(delay) if now + delay > now => (State::Scheduled, Some(now + delay)),
                    Ending::Later(_) => (State::Available, Some(now)),
                };
            let written = db.prepare(FAIL)?.execute(params![
                seen.no,
                holder,
                fence.get(),
                now.as_millis(),
                error_tail(error.clone()),
                run_at.map(WallTime::as_millis),
                state as u8
            ])?;
            (written, state, run_at)
        }
        Outcome::HandedBack => {
            let written =
                db.prepare(HAND_BACK)?.execute(params![seen.no, holder, fence.get(), now.as_millis()])?;
            (written, State::Available, None)
        }
    };
    if written == 0 {
        return Ok(seen.refuse(fence));
    }
    let state = if seen.cancel_requested { State::Cancelled } else { state };
    tx.books.moves.shift(seen.queue, State::Running, state);
    let due_in = run_at.filter(|_| state == State::Scheduled).map(|run_at| run_at.since(now));
    let ran = seen.started_at.map_or(Duration::ZERO, |started| now.since(started));
    Ok(Finished::Done { state, queue: name, due_in, ran })
}
