//! Offering dead and cancelled jobs again.
//!
//! One guarded statement per job, in the order asked for: that order decides which of two jobs gets a unique key.

use model::{JobId, State};
use rusqlite::{OptionalExtension, params};
use store::Redriven;

use crate::error::Trouble;
use crate::writer::{Tx, Verb};

const LOOK: &str = "SELECT state, queue FROM jobs WHERE id = ?1";

/// `OR IGNORE` skips a job whose unique key another one has.
const REDRIVE: &str = "
    UPDATE OR IGNORE jobs
    SET state = 1, run_at = ?2, finished_at = NULL, attempt = 0, lost = 0, cancel_requested = 0
    WHERE id = ?1 AND state IN (4, 5)";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, REDRIVE];

/// See [`store::JobStore::redrive`]. Which jobs match a filter is asked of a reader beforehand.
pub(crate) struct Redrive(pub(crate) Vec<JobId>);

impl Verb for Redrive {
    type Answer = Vec<(JobId, Redriven)>;

    fn jobs(&self) -> usize {
        self.0.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<(JobId, Redriven)>, Trouble> {
        self.0.iter().map(|id| Ok((*id, redrive(tx, *id)?))).collect()
    }
}

fn redrive(tx: &mut Tx<'_>, id: JobId) -> Result<Redriven, Trouble> {
    let db = tx.db;
    let seen: Option<(u8, i64)> = db
        .prepare(LOOK)?
        .query_row(params![id.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, queue)) = seen else {
        return Ok(Redriven::Unknown);
    };
    let state =
        State::from_number(number).ok_or_else(|| Trouble::Damaged(format!("there is no state {number}")))?;
    let again = db.prepare(REDRIVE)?.execute(params![id.to_bytes(), tx.now.wall.as_millis()])? == 1;
    if again {
        tx.books.moves.shift(queue, state, State::Available);
        return Ok(Redriven::Again(tx.books.queue(queue)?.name.clone()));
    }
    Ok(match state {
        State::Cancelled | State::Dead => Redriven::KeyTaken,
        state => Redriven::NotEnded(state),
    })
}
