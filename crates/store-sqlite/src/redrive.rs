//! Offering dead and cancelled jobs again.
//!
//! One guarded statement per job, in the order asked for: that order decides which of two jobs gets a unique key.

use model::{JobId, State};
use rusqlite::{OptionalExtension, params};
use store::{JobFilter, Redriven, Selection};

use crate::error::Trouble;
use crate::read::Filter;
use crate::row;
use crate::writer::{Tx, Verb};

const CHOOSE: &str = "
    SELECT jobs.id FROM jobs
    WHERE state IN (4, 5) AND (?1 IS NULL OR queue = (SELECT no FROM queues WHERE name = ?1))
      AND (?2 IS NULL OR kind = ?2) AND ?3 >> state & 1
    ORDER BY id LIMIT ?4";

const LOOK: &str = "SELECT state, queue FROM jobs WHERE id = ?1";

/// `OR IGNORE` skips a job whose unique key another one has.
const REDRIVE: &str = "
    UPDATE OR IGNORE jobs
    SET state = 1, run_at = ?2, finished_at = NULL, attempt = 0, lost = 0, cancel_requested = 0
    WHERE id = ?1 AND state IN (4, 5)";

pub(crate) const STATEMENTS: &[&str] = &[CHOOSE, LOOK, REDRIVE];

/// See [`store::JobStore::redrive`].
pub(crate) struct Redrive {
    pub(crate) selection: Selection,
    pub(crate) limit: usize,
}

impl Verb for Redrive {
    type Answer = Vec<(JobId, Redriven)>;

    fn jobs(&self) -> usize {
        self.limit
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<(JobId, Redriven)>, Trouble> {
        let chosen;
        let ids = match &self.selection {
            Selection::Ids(ids) => ids,
            Selection::Filter(filter) => {
                chosen = choose(tx, filter, self.limit)?;
                &chosen
            }
        };
        ids.iter().map(|id| Ok((*id, redrive(tx, *id)?))).collect()
    }
}

fn choose(tx: &Tx<'_>, filter: &JobFilter, limit: usize) -> Result<Vec<JobId>, Trouble> {
    let mut select = tx.db.prepare(CHOOSE)?;
    let Filter { queue, kind, states } = Filter::of(filter);
    let mut rows = select.query(params![queue, kind, states, row::limit(limit)])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(row::job_id(row, 0)?);
    }
    Ok(ids)
}

fn redrive(tx: &mut Tx<'_>, id: JobId) -> Result<Redriven, Trouble> {
    let db = tx.db;
    let seen: Option<(u8, i64)> = db
        .prepare(LOOK)?
        .query_row(params![id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, queue)) = seen else {
        return Ok(Redriven::Unknown);
    };
    let state =
        State::from_number(number).ok_or_else(|| Trouble::Damaged(format!("there is no state {number}")))?;
    let again = db.prepare(REDRIVE)?.execute(params![id.as_bytes(), tx.now.wall.as_millis()])? == 1;
    if again {
        tx.books.moves.shift(queue, state, State::Available);
        return Ok(Redriven::Again(tx.books.queue(queue)?.name.clone()));
    }
    Ok(match state {
        State::Cancelled | State::Dead => Redriven::KeyTaken,
        state => Redriven::NotEnded(state),
    })
}
