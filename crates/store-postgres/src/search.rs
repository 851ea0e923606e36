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

/// Jobs that match. $1 ids below, $2 queue, $3 kind, $4 states, $5 limit.
const MATCHING: &str = "
    WHERE ($1::uuid IS NULL OR j.id < $1) AND ($2::text IS NULL OR q.name = $2) AND ($3::text IS NULL OR j.kind = $3)
      AND j.state = ANY ($4::smallint[])
    ORDER BY j.id DESC LIMIT $5";

/// What jobs carry, by [`Page::bytes_of`]. The lengths are known without reading what they are of.
const SIZED_LIVE: &str = "
    SELECT j.id, octet_length(j.payload) + coalesce(octet_length(j.progress), 0) + coalesce(octet_length(j.checkpoint), 0) AS bytes
    FROM tenure.jobs j JOIN tenure.queues q ON q.no = j.queue {matching}";

const SIZED_ENDED: &str = "
    SELECT j.id, octet_length(j.payload) + coalesce(octet_length(j.progress), 0) + coalesce(octet_length(j.checkpoint), 0)
        + coalesce(octet_length(j.result), 0) AS bytes
    FROM tenure.ended j JOIN tenure.queues q ON q.no = j.queue {matching}";

/// Those of a page. $6 its bytes: it ends with the job with which it has so many.
const FITTING: &str = "
    WITH sized AS MATERIALIZED ({sized}),
    summed AS (SELECT id, sum(bytes) OVER (ORDER BY id DESC) - bytes AS before FROM sized),
    fitting AS MATERIALIZED (SELECT id FROM summed WHERE before < $6)";

const LIST_LIVE: &str =
    "{fitting} SELECT {live} WHERE j.id = ANY (ARRAY(SELECT id FROM fitting)) ORDER BY j.id DESC";

const LIST_ENDED: &str =
    "{fitting} SELECT {ended} WHERE j.id = ANY (ARRAY(SELECT id FROM fitting)) ORDER BY j.id DESC";

/// One statement, so that a job which moves from one table to the other at this moment is listed once.
const LIST_ALL: &str = "{fitting}
    (SELECT {live} WHERE j.id = ANY (ARRAY(SELECT id FROM fitting))) UNION ALL
    (SELECT {ended} WHERE j.id = ANY (ARRAY(SELECT id FROM fitting))) ORDER BY 1 DESC";

const SIZED_ALL: &str = "({sized_live}) UNION ALL ({sized_ended}) ORDER BY 1 DESC LIMIT $5";

/// Dead and cancelled jobs, oldest first. $1 ids above, $2 queue, $3 kind, $4 states, $5 limit.
const ENDED: &str = "
    SELECT j.id FROM tenure.ended j JOIN tenure.queues q ON q.no = j.queue
    WHERE j.state > 3 AND j.state = ANY ($4::smallint[]) AND ($1::uuid IS NULL OR j.id > $1)
      AND ($2::text IS NULL OR q.name = $2)
      AND ($3::text IS NULL OR j.kind = $3)
    ORDER BY j.id LIMIT $5";

pub(crate) const STATEMENTS: &[&str] =
    &[MATCHING, SIZED_LIVE, SIZED_ENDED, SIZED_ALL, FITTING, LIST_LIVE, LIST_ENDED, LIST_ALL, ENDED];

static LISTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    let sized_all = SIZED_ALL.replace("{sized_live}", SIZED_LIVE).replace("{sized_ended}", SIZED_ENDED);
    [(LIST_LIVE, SIZED_LIVE), (LIST_ENDED, SIZED_ENDED), (LIST_ALL, &*sized_all)].map(|(list, sized)| {
        let list = list.replace("{fitting}", FITTING).replace("{sized}", sized);
        row::with_columns(&list.replace("{matching}", MATCHING))
    })
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
        let bytes = row::limit(self.page.bytes_max);
        let rows =
            tx.query(sql.as_str(), &[&before, &queue, &kind, &numbers(&states), &limit, &bytes]).await?;
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
