//! What may have to look at many jobs: `list`, and the choice of jobs to re-drive. A lane of its own runs these.
//!
//! No index serves every filter; one more would cost every claim and finish. The database chooses by what it knows about
//! the states: those that few jobs are in by the index of that state, otherwise by id, until the page is full.

use std::sync::LazyLock;

use model::{Job, JobId, Kind, QueueName, State};
use store::{JobFilter, Page};

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// A page of the jobs that match. $1 ids below, $2 queue, $3 kind, $4 states, $5 limit.
const MATCHING: &str = "
    WHERE ($1::uuid IS NULL OR j.id < $1) AND ($2::text IS NULL OR q.name = $2) AND ($3::text IS NULL OR j.kind = $3)
      AND j.state = ANY ($4::smallint[])
    ORDER BY j.id DESC LIMIT $5";

const LIST_LIVE: &str = "SELECT {live} {matching}";

const LIST_ENDED: &str = "SELECT {ended} {matching}";

/// One statement, so that a job which moves from one table to the other at this moment is listed once.
const LIST_ALL: &str = "
    (SELECT {live} {matching}) UNION ALL (SELECT {ended} {matching}) ORDER BY 1 DESC LIMIT $5";

/// Dead and cancelled jobs, oldest first. $1 ids above, $2 queue, $3 kind, $4 states, $5 limit.
const ENDED: &str = "
    SELECT j.id FROM tenure.ended j JOIN tenure.queues q ON q.no = j.queue
    WHERE j.state > 3 AND j.state = ANY ($4::smallint[]) AND ($1::uuid IS NULL OR j.id > $1)
      AND ($2::text IS NULL OR q.name = $2)
      AND ($3::text IS NULL OR j.kind = $3)
    ORDER BY j.id LIMIT $5";

pub(crate) const STATEMENTS: &[&str] = &[MATCHING, LIST_LIVE, LIST_ENDED, LIST_ALL, ENDED];

static LISTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    [LIST_LIVE, LIST_ENDED, LIST_ALL].map(|sql| row::with_columns(&sql.replace("{matching}", MATCHING)))
});

/// See [`store::JobStore::list`].
pub(crate) struct List {
    pub(crate) filter: JobFilter,
    pub(crate) page: Page,
}

impl Verb for List {
    type Answer = Vec<Job>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Job>, Trouble> {
        let states = states(&self.filter);
        let ended = states.iter().filter(|state| state.is_terminal()).count();
        let [list_live, list_ended, list_all] = &*LISTS;
        let sql = match ended {
            0 => list_live,
            _ if ended == states.len() => list_ended,
            _ => list_all,
        };
        let before = self.page.before.map(Id);
        let (queue, kind) = (self.filter.queue.as_ref(), self.filter.kind.as_ref());
        let (queue, kind) = (queue.map(QueueName::as_str), kind.map(Kind::as_str));
        let limit = row::limit(self.page.limit);
        let rows = tx.query(sql.as_str(), &[&before, &queue, &kind, &numbers(&states), &limit]).await?;
        rows.iter().map(row::job).collect()
    }
}

/// Which jobs a filter chooses for a re-drive.
pub(crate) struct FindEnded {
    pub(crate) filter: JobFilter,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: usize,
}

impl Verb for FindEnded {
    type Answer = Vec<JobId>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<JobId>, Trouble> {
        let after = self.after.map(Id);
        let (queue, kind) = (self.filter.queue.as_ref(), self.filter.kind.as_ref());
        let (queue, kind) = (queue.map(QueueName::as_str), kind.map(Kind::as_str));
        let (states, limit) = (numbers(&states(&self.filter)), row::limit(self.limit));
        let rows = tx.query(ENDED, &[&after, &queue, &kind, &states, &limit]).await?;
        rows.iter().map(|row| row::job_id(row, 0)).collect()
    }
}

/// The states a filter wants.
fn states(filter: &JobFilter) -> Vec<State> {
    if filter.states.is_empty() { State::ALL.to_vec() } else { filter.states.clone() }
}

fn numbers(states: &[State]) -> Vec<i16> {
    states.iter().map(|state| *state as i16).collect()
}
