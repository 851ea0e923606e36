//! What may have to look at many jobs: `list`, and the choice of jobs to re-drive. A thread of its own runs these.
//!
//! No index serves every filter; one more would cost every claim and finish. Jobs in a state that few are in are found
//! by the index of that state and then sorted. Otherwise we go through all jobs in the order of their ids and stop when
//! the page is full, which is soon when many match.

use model::{Job, JobId, Kind, QueueName, State};
use rusqlite::params;
use store::{JobFilter, Page};

use crate::db::Db;
use crate::error::Trouble;
use crate::reader::Query;
use crate::row;
use crate::time::Now;

/// ?1 ids below, ?2 queue, ?3 kind, ?4 states, ?5 limit.
pub(crate) const LIST_BY_ID: &str = "
    SELECT {columns} FROM {tables}
    WHERE (?1 IS NULL OR jobs.id < ?1) AND (?2 IS NULL OR q.name = ?2) AND (?3 IS NULL OR jobs.kind = ?3)
      AND ?4 >> jobs.state & 1
    ORDER BY jobs.id DESC LIMIT ?5";

/// Only numbers, so that only these are sorted and not all that the jobs carry.
pub(crate) const LIST_BY_STATE: &str = "SELECT no FROM ({of_states}) ORDER BY id DESC LIMIT ?5";

pub(crate) const BY_NUMBER: &str = "SELECT {columns} FROM {tables} WHERE jobs.no = ?1";

/// Dead and cancelled jobs, oldest first. ?6 ids above.
pub(crate) const ENDED: &str = "
    SELECT id FROM ({of_states}) WHERE ?6 IS NULL OR id > ?6 ORDER BY id LIMIT ?5";

const OF_STATE: &str = "
        SELECT no, id FROM jobs INDEXED BY {index}
        WHERE ?4 >> {state} & 1 AND state = {state} AND {implied} AND (?1 IS NULL OR id < ?1)
          AND (?2 IS NULL OR queue = (SELECT q.no FROM queues q WHERE q.name = ?2)) AND (?3 IS NULL OR kind = ?3)";

const TOTALS: &str = "
    SELECT sum(scheduled), sum(available), sum(running), sum(completed), sum(cancelled), sum(dead) FROM queues";

pub(crate) const STATEMENTS: &[&str] = &[LIST_BY_ID, LIST_BY_STATE, BY_NUMBER, ENDED, OF_STATE, TOTALS];

/// Up to this many jobs are sorted for a page; where more are in the wanted states, a page fills up soon anyway.
const SORTED_JOBS_MAX: i64 = 10_000;

/// The states that a re-drive starts from.
const REDRIVABLE: [State; 2] = [State::Cancelled, State::Dead];

/// See [`store::JobStore::list`].
pub(crate) struct List {
    pub(crate) filter: JobFilter,
    pub(crate) page: Page,
}

impl Query for List {
    type Answer = Vec<Job>;

    fn run(&self, db: &Db, _: Now) -> Result<Vec<Job>, Trouble> {
        let states = states(&self.filter);
        let is_rare = states.len() < State::ALL.len() && total(db, &states)? <= SORTED_JOBS_MAX;
        let sql = if is_rare { of_states(LIST_BY_STATE, &states) } else { row::with_columns(LIST_BY_ID) };
        // What is read in several steps is read as of one moment.
        let _moment = db.connection.unchecked_transaction()?;
        let mut select = db.prepare(&sql)?;
        let before = self.page.before.map(JobId::to_bytes);
        let (queue, kind) = (self.filter.queue.as_ref(), self.filter.kind.as_ref());
        let mut rows = select.query(params![
            before,
            queue.map(QueueName::as_str),
            kind.map(Kind::as_str),
            bits(&states),
            row::limit(self.page.limit)
        ])?;
        let mut bytes = 0;
        let mut jobs = Vec::new();
        while bytes < self.page.bytes_max
            && let Some(row) = rows.next()?
        {
            let job = if is_rare { by_number(db, row.get(0)?)? } else { row::job(db, row)? };
            bytes += Page::bytes_of(&job);
            jobs.push(job);
        }
        Ok(jobs)
    }
}

fn by_number(db: &Db, no: i64) -> Result<Job, Trouble> {
    let mut select = db.prepare(&row::with_columns(BY_NUMBER))?;
    let mut rows = select.query([no])?;
    match rows.next()? {
        Some(row) => row::job(db, row),
        None => Err(Trouble::Damaged(format!("there is no job number {no}"))),
    }
}

/// Which jobs a filter chooses for a re-drive.
pub(crate) struct FindEnded {
    pub(crate) filter: JobFilter,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: usize,
}

impl Query for FindEnded {
    type Answer = Vec<JobId>;

    fn run(&self, db: &Db, _: Now) -> Result<Vec<JobId>, Trouble> {
        let mut states = states(&self.filter);
        states.retain(|state| REDRIVABLE.contains(state));
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let mut select = db.prepare(&of_states(ENDED, &states))?;
        let (queue, kind) = (self.filter.queue.as_ref(), self.filter.kind.as_ref());
        let mut rows = select.query(params![
            None::<i64>,
            queue.map(QueueName::as_str),
            kind.map(Kind::as_str),
            bits(&states),
            row::limit(self.limit),
            self.after.map(JobId::to_bytes)
        ])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            ids.push(row::job_id(row, 0)?);
        }
        Ok(ids)
    }
}

/// The states a filter wants, in order, each once.
fn states(filter: &JobFilter) -> Vec<State> {
    State::ALL.into_iter().filter(|state| filter.states.is_empty() || filter.states.contains(state)).collect()
}

fn bits(states: &[State]) -> u8 {
    states.iter().fold(0, |bits, state| bits | 1 << *state as u8)
}

/// How many jobs are in these states.
fn total(db: &Db, states: &[State]) -> Result<i64, Trouble> {
    let mut select = db.prepare(TOTALS)?;
    let mut rows = select.query([])?;
    let row = rows.next()?.ok_or_else(|| Trouble::Damaged("a sum has one row".to_owned()))?;
    let mut total = 0;
    for state in states {
        total += row.get::<_, Option<i64>>(*state as usize)?.unwrap_or(0);
    }
    Ok(total)
}

/// The statement with a part for each state, which uses the index of that state.
pub(crate) fn of_states(sql: &str, states: &[State]) -> String {
    let parts: Vec<String> = states
        .iter()
        .map(|state| {
            let (index, implied) = match state {
                State::Scheduled => ("jobs_scheduled", "1"),
                State::Available => ("jobs_available", "1"),
                State::Running => ("jobs_running", "1"),
                // SQLite does not see by itself that 3 is at least 3.
                State::Completed | State::Cancelled | State::Dead => ("jobs_ended", "state >= 3"),
            };
            OF_STATE
                .replace("{index}", index)
                .replace("{implied}", implied)
                .replace("{state}", &(*state as u8).to_string())
        })
        .collect();
    sql.replace("{of_states}", &parts.join(" UNION ALL "))
}
