//! How attempts end by their holder's word.
//!
//! Each report is written by one guarded statement, and the guard alone decides. What the answer needs besides is
//! remembered from the claim or looked up first; it also explains a refusal.

use std::time::Duration;

use model::{
    Ending, Fence, Hold, Outcome, Report, Retry, RetryPolicy, State, WallTime, WorkerKey, after_failure,
};
use rusqlite::{CachedStatement, Row, params};
use store::{Finished, error_tail};

use crate::db::Db;
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

const LOOK: &str = "
    SELECT no, queue, fence, reported_fence, cancel_requested, started_at, attempt, max_attempts, retry
    FROM jobs WHERE id = ?1";

/// ?4 wall clock, ?5 whether a cancel was seen, ?6 result.
const COMPLETE: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE 3 END, finished_at = ?4, result = ?6,
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = 0
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3 AND cancel_requested = ?5";

/// ?4 wall clock, ?5 whether a cancel was seen, ?6 error, ?7 when it runs again (NULL: as before), ?8 the state it goes
/// to.
const FAIL: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE ?8 END,
        finished_at = CASE WHEN cancel_requested OR ?8 = 5 THEN ?4 END,
        run_at = CASE WHEN cancel_requested THEN run_at ELSE coalesce(?7, run_at) END,
        last_error = ?6, lost = 0,
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = 0
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3 AND cancel_requested = ?5";

/// ?4 wall clock, ?5 whether a cancel was seen.
const HAND_BACK: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 ELSE 1 END,
        finished_at = CASE WHEN cancel_requested THEN ?4 END,
        attempt = max(attempt - 1, 0),
        reported_fence = fence, holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = 0
    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3 AND cancel_requested = ?5";

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
        let holder = tx.books.holder_no(tx.db, &self.holder)?;
        let mut statements = Statements::prepare(tx.db)?;
        self.reports.iter().map(|report| finish(tx, &mut statements, holder, report)).collect()
    }
}

/// Those that a batch runs many times.
struct Statements<'a> {
    look: CachedStatement<'a>,
    complete: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(db: &'a Db) -> Result<Self, Trouble> {
        Ok(Statements { look: db.prepare(LOOK)?, complete: db.prepare(COMPLETE)? })
    }
}

/// What is known of a job that is reported on.
struct Known {
    no: i64,
    queue: i64,
    started_at: Option<WallTime>,
    cancel_requested: bool,
}

/// Where its attempt ends.
enum Next<'a> {
    Completed { result: &'a [u8] },
    Failed { error: &'a str, state: State, run_at: Option<WallTime> },
    HandedBack,
}

fn finish(
    tx: &mut Tx<'_>,
    statements: &mut Statements<'_>,
    holder: i64,
    Report { hold, outcome }: &Report,
) -> Result<Finished, Trouble> {
    // Where a failure leads depends on more than is remembered.
    let plain = match outcome {
        Outcome::Completed { result } => Some(Next::Completed { result }),
        Outcome::HandedBack => Some(Next::HandedBack),
        Outcome::Failed { .. } => None,
    };
    if let (Some(next), Some(claim)) = (&plain, tx.books.claim(*hold)) {
        let known = Known {
            no: claim.no,
            queue: claim.queue,
            started_at: Some(claim.started_at),
            cancel_requested: false,
        };
        if let Some(done) = end(tx, statements, holder, *hold, &known, next)? {
            return Ok(done);
        }
    }
    let Some(seen) = Seen::look(&mut statements.look, *hold)? else {
        return Ok(Finished::Unknown);
    };
    let next = match (plain, outcome) {
        (None, Outcome::Failed { error, retry }) => {
            let policy = seen.retry.or(tx.books.queue(seen.known.queue)?.settings.retry).unwrap_or_default();
            let (state, run_at) = seen.after_failure(*retry, policy, tx.now.wall);
            Next::Failed { error, state, run_at }
        }
        (plain, _) => plain.expect("only a failure is not plain"),
    };
    Ok(match end(tx, statements, holder, *hold, &seen.known, &next)? {
        Some(done) => done,
        None => seen.refuse(hold.fence),
    })
}

/// Ends one attempt, if the hold stands and the job is as it is known.
fn end(
    tx: &mut Tx<'_>,
    statements: &mut Statements<'_>,
    holder: i64,
    Hold { job, fence }: Hold,
    known: &Known,
    next: &Next<'_>,
) -> Result<Option<Finished>, Trouble> {
    let now = tx.now.wall;
    let (no, fence, at, cancel) = (known.no, fence.get(), now.as_millis(), known.cancel_requested);
    let (written, state, run_at) = match *next {
        Next::Completed { result } => {
            let written = statements.complete.execute(params![no, holder, fence, at, cancel, result])?;
            (written, State::Completed, None)
        }
        Next::Failed { error, state, run_at } => {
            let error = error_tail(error.to_owned());
            let again_at = run_at.map(WallTime::as_millis);
            let parameters = params![no, holder, fence, at, cancel, error, again_at, state as u8];
            (tx.db.prepare(FAIL)?.execute(parameters)?, state, run_at)
        }
        Next::HandedBack => {
            let written = tx.db.prepare(HAND_BACK)?.execute(params![no, holder, fence, at, cancel])?;
            (written, State::Available, None)
        }
    };
    if written == 0 {
        return Ok(None);
    }
    let state = if known.cancel_requested { State::Cancelled } else { state };
    tx.books.moves.shift(known.queue, State::Running, state);
    tx.books.forget_claim(job);
    Ok(Some(Finished::Done {
        state,
        queue: tx.books.queue(known.queue)?.name.clone(),
        due_in: run_at.filter(|_| state == State::Scheduled).map(|run_at| run_at.since(now)),
        ran: known.started_at.map_or(Duration::ZERO, |started| now.since(started)),
    }))
}

/// A job as it was before the report.
struct Seen {
    known: Known,
    fence: Fence,
    reported_fence: Fence,
    attempt: u32,
    max_attempts: u32,
    retry: Option<RetryPolicy>,
}

impl Seen {
    fn look(look: &mut CachedStatement<'_>, hold: Hold) -> Result<Option<Self>, Trouble> {
        let mut rows = look.query(params![hold.job.to_bytes()])?;
        rows.next()?.map(Self::read).transpose()
    }

    fn read(row: &Row<'_>) -> Result<Self, Trouble> {
        Ok(Seen {
            known: Known {
                no: row.get(0)?,
                queue: row.get(1)?,
                started_at: row.get::<_, Option<i64>>(5)?.map(row::wall_time),
                cancel_requested: row.get(4)?,
            },
            fence: Fence::new(row.get(2)?),
            reported_fence: Fence::new(row.get(3)?),
            attempt: row.get(6)?,
            max_attempts: row.get(7)?,
            retry: row::retry(row, 8)?,
        })
    }

    /// Where it goes after a failure, and when it runs again if that changes.
    fn after_failure(&self, retry: Retry, policy: RetryPolicy, now: WallTime) -> (State, Option<WallTime>) {
        match after_failure(self.attempt, self.max_attempts, retry, policy, self.fence) {
            Ending::Bury => (State::Dead, None),
            Ending::Again => (State::Available, None),
            Ending::Later(delay) if now + delay > now => (State::Scheduled, Some(now + delay)),
            Ending::Later(_) => (State::Available, Some(now)),
        }
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
