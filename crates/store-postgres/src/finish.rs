//! How attempts end by their holder's word.
//!
//! Those that are done are a matter of their own. Where a failure leads depends on the job: it is locked and looked at first,
//! and the same guards are in the statement that writes. What nothing was written for is looked up to explain the refusal.

use std::collections::HashMap;
use std::time::Duration;

use model::{
    Ending, Fence, Hold, JobId, Outcome, Report, Retry, RetryPolicy, State, WallTime, WorkerKey,
    after_failure,
};
use store::{Finished, error_tail};
use tokio_postgres::Row;

use crate::complete::complete;
use crate::counts::Moves;
use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Merge;
use crate::row::{self, Id};

/// Those of the jobs whose holds stand, locked.
const LOCK: &str = "
    SELECT j.id, j.queue, j.fence, j.attempt, j.max_attempts, coalesce(j.retry, q.retry), j.cancel_requested,
        j.started_at, WALL_NOW
    FROM (SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS r (id, fence, holder) ORDER BY id) AS r
    JOIN tenure.jobs j
        ON j.id = ANY (ARRAY[r.id]) AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, r.holder, r.fence)
    JOIN tenure.queues q ON q.no = j.queue
    FOR UPDATE OF j";

/// $4 errors (NULL: handed back), $5 when it runs again (NULL: as before), $6 the state it goes to.
const GIVE_BACK: &str = "
    UPDATE tenure.jobs j
    SET state = r.state, run_at = coalesce(r.run_at, j.run_at), last_error = coalesce(r.error, j.last_error),
        lost = CASE WHEN r.error IS NULL THEN j.lost ELSE 0 END,
        attempt = CASE WHEN r.error IS NULL THEN greatest(j.attempt - 1, 0) ELSE j.attempt END,
        reported_fence = j.fence, holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = false
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::smallint[])
        AS r (id, fence, holder, error, run_at, state)
    WHERE j.id = ANY (ARRAY[r.id])
          AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, r.holder, r.fence)
    RETURNING j.id";

/// $4 errors (NULL: handed back), $5 when it ended, $6 the state it goes to.
const END: &str = "
    WITH gone AS (
        DELETE FROM tenure.jobs j
        USING unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::smallint[])
            AS r (id, fence, holder, error, finished_at, next)
        WHERE j.id = ANY (ARRAY[r.id])
          AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, r.holder, r.fence)
        RETURNING j.*, r.error, r.finished_at, r.next),
    kept AS (
        INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,
            timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,
            unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload)
        SELECT id, fence, fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us, timeout_us, queue,
            CASE WHEN error IS NULL THEN greatest(attempt - 1, 0) ELSE attempt END, max_attempts,
            CASE WHEN error IS NULL THEN lost ELSE 0 END, max_lost, next, priority, cancel_requested, unique_retained,
            unique_key, retry, kind, content_type, traceparent, coalesce(error, last_error), progress, checkpoint, payload
        FROM gone),
    freed AS (
        DELETE FROM tenure.unique_keys k USING gone
        WHERE gone.unique_key IS NOT NULL AND NOT gone.unique_retained
          AND k.queue = ANY (ARRAY[gone.queue]) AND k.unique_key = gone.unique_key AND k.job = gone.id)
    SELECT id FROM gone";

const LOOK: &str = "
    SELECT n.id, j.fence, j.reported_fence FROM unnest($1::uuid[]) AS n (id) JOIN tenure.jobs j ON j.id = ANY (ARRAY[n.id])
    UNION ALL
    SELECT n.id, e.fence, e.reported_fence FROM unnest($1::uuid[]) AS n (id) JOIN tenure.ended e ON e.id = ANY (ARRAY[n.id])";

pub(crate) const STATEMENTS: &[&str] = &[LOCK, GIVE_BACK, END, LOOK];

/// See [`store::JobStore::finish`].
pub(crate) struct Finish {
    pub(crate) holder: WorkerKey,
    pub(crate) reports: Vec<Report>,
}

impl Merge for Finish {
    type Answer = Vec<Finished>;

    fn jobs(&self) -> usize {
        self.reports.len()
    }

    fn bytes(&self) -> usize {
        let said = self.reports.iter().map(|report| match &report.outcome {
            Outcome::Completed { result } => result.len(),
            Outcome::Failed { error, .. } => error.len(),
            Outcome::HandedBack => 0,
        });
        said.sum()
    }

    /// What is done is moved by one statement, and a repeat finds it so. If we freeze after it, nobody waits for our locks.
    fn is_one_statement(group: &[Self]) -> bool {
        let mut reports = group.iter().flat_map(|finish| &finish.reports);
        reports.all(|report| matches!(report.outcome, Outcome::Completed { .. }))
    }

    async fn run<'a>(group: &'a [Self], tx: &'a Tx<'a>) -> Result<Vec<Vec<Finished>>, Trouble> {
        let mut said: Vec<Said<'_>> = Vec::with_capacity(group.iter().map(Self::jobs).sum());
        for (request, Finish { holder, reports }) in group.iter().enumerate() {
            said.extend(reports.iter().map(|report| Said { request, holder, report }));
        }
        let mut answers: Vec<Vec<Finished>> =
            group.iter().map(|finish| Vec::with_capacity(finish.reports.len())).collect();
        for (answer, said) in finish_in_turns(tx, &said).await?.into_iter().zip(&said) {
            answers[said.request].push(answer);
        }
        Ok(answers)
    }
}

/// One report of the group.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) request: usize,
    pub(crate) holder: &'a WorkerKey,
    pub(crate) report: &'a Report,
}

impl Said<'_> {
    fn job(&self) -> JobId {
        self.report.hold.job
    }
}

/// A statement writes each job once, so later reports about the same job wait for the next turn.
async fn finish_in_turns(tx: &Tx<'_>, said: &[Said<'_>]) -> Result<Vec<Finished>, Trouble> {
    let mut answers: Vec<Option<Finished>> = vec![None; said.len()];
    // Rows are locked in the order of their ids, as everywhere, so that nobody waits in a circle.
    let mut waiting: Vec<usize> = (0..said.len()).collect();
    waiting.sort_by_key(|place| said[*place].job());
    while !waiting.is_empty() {
        let (mut turn, mut later): (Vec<usize>, Vec<usize>) = (Vec::with_capacity(waiting.len()), Vec::new());
        for place in waiting {
            let is_again = turn.last().is_some_and(|last| said[*last].job() == said[place].job());
            if is_again { &mut later } else { &mut turn }.push(place);
        }
        finish(tx, said, &turn, &mut answers).await?;
        waiting = later;
    }
    Ok(answers.into_iter().map(|answer| answer.expect("every report is answered")).collect())
}

/// Ends attempts of different jobs, which are in the order of their ids.
async fn finish(
    tx: &Tx<'_>,
    said: &[Said<'_>],
    turn: &[usize],
    answers: &mut [Option<Finished>],
) -> Result<(), Trouble> {
    let (done, other): (Vec<usize>, Vec<usize>) =
        turn.iter().partition(|place| matches!(said[**place].report.outcome, Outcome::Completed { .. }));
    if !done.is_empty() {
        complete(tx, said, &done, answers).await?;
    }
    if !other.is_empty() {
        give_back_or_end(tx, said, &other, answers).await?;
    }
    let refused: Vec<usize> = turn.iter().copied().filter(|place| answers[*place].is_none()).collect();
    if !refused.is_empty() {
        refuse(tx, said, &refused, answers).await?;
    }
    Ok(())
}

/// The holds of these reports as three columns.
fn holds<'a>(said: &[Said<'a>], places: &[usize]) -> (Vec<Id>, Vec<i64>, Vec<&'a str>) {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for Said { holder, report, .. } in places.iter().map(|place| said[*place]) {
        columns.0.push(Id(report.hold.job));
        columns.1.push(report.hold.fence.get());
        columns.2.push(holder.as_str());
    }
    columns
}

/// A running job that is reported on.
struct Seen {
    queue: i32,
    fence: Fence,
    attempt: u32,
    max_attempts: u32,
    policy: RetryPolicy,
    cancel_requested: bool,
    started_at: Option<WallTime>,
    now: WallTime,
}

impl Seen {
    fn read(row: &Row) -> Result<Self, Trouble> {
        Ok(Seen {
            queue: row.try_get(1)?,
            fence: Fence::new(row.try_get(2)?),
            attempt: row::count(row, 3)?,
            max_attempts: row::count(row, 4)?,
            policy: row::retry(row, 5)?.unwrap_or_default(),
            cancel_requested: row.try_get(6)?,
            started_at: row.try_get::<_, Option<i64>>(7)?.map(row::wall_time),
            now: row::wall_time(row.try_get(8)?),
        })
    }

    /// Where it goes, and when it runs again if that changes.
    fn next(&self, outcome: &Outcome) -> (State, Option<WallTime>) {
        if self.cancel_requested {
            return (State::Cancelled, None);
        }
        match outcome {
            Outcome::Completed { .. } => (State::Completed, None),
            Outcome::HandedBack => (State::Available, None),
            Outcome::Failed { retry, .. } => self.after_failure(*retry),
        }
    }

    fn after_failure(&self, retry: Retry) -> (State, Option<WallTime>) {
        let now = self.now;
        match after_failure(self.attempt, self.max_attempts, retry, self.policy, self.fence) {
            Ending::Bury => (State::Dead, None),
            Ending::Again => (State::Available, None),
            Ending::Later(delay) if now + delay > now => (State::Scheduled, Some(now + delay)),
            Ending::Later(_) => (State::Available, Some(now)),
        }
    }
}

/// Rows to be written by [`GIVE_BACK`] or [`END`].
#[derive(Default)]
struct Writes {
    places: Vec<usize>,
    errors: Vec<Option<String>>,
    dates: Vec<Option<i64>>,
    states: Vec<i16>,
}

async fn give_back_or_end(
    tx: &Tx<'_>,
    said: &[Said<'_>],
    places: &[usize],
    answers: &mut [Option<Finished>],
) -> Result<(), Trouble> {
    let (ids, fences, holders) = holds(said, places);
    let mut seen = HashMap::with_capacity(places.len());
    for row in tx.query(LOCK, &[&ids, &fences, &holders]).await? {
        seen.insert(row::job_id(&row, 0)?, Seen::read(&row)?);
    }
    let (mut back, mut gone) = (Writes::default(), Writes::default());
    let mut moves = Moves::default();
    for place in places {
        let Said { report, .. } = said[*place];
        let Some(seen) = seen.get(&report.hold.job) else { continue };
        let (state, run_at) = seen.next(&report.outcome);
        let writes = if state.is_terminal() { &mut gone } else { &mut back };
        writes.places.push(*place);
        writes.states.push(state as i16);
        writes.errors.push(match &report.outcome {
            Outcome::Failed { error, .. } => Some(row::storable(&error_tail(error.clone())).into_owned()),
            _ => None,
        });
        let date = if state.is_terminal() { Some(seen.now) } else { run_at };
        writes.dates.push(date.map(WallTime::as_millis));
        moves.shift(seen.queue, State::Running, state);
        let finished = Finished::Done {
            state,
            queue: tx.queues().name(tx, seen.queue).await?,
            due_in: run_at.filter(|_| state == State::Scheduled).map(|run_at| run_at.since(seen.now)),
            ran: seen.started_at.map_or(Duration::ZERO, |started| seen.now.since(started)),
        };
        answers[*place] = Some(finished);
    }
    for (sql, writes) in [(GIVE_BACK, back), (END, gone)] {
        if writes.places.is_empty() {
            continue;
        }
        let (ids, fences, holders) = holds(said, &writes.places);
        let written =
            tx.query(sql, &[&ids, &fences, &holders, &writes.errors, &writes.dates, &writes.states]).await?;
        if written.len() != ids.len() {
            return Err(Trouble::Damaged("jobs that were locked were not written".to_owned()));
        }
    }
    moves.write(tx).await
}

/// Answers reports whose holds do not stand.
async fn refuse(
    tx: &Tx<'_>,
    said: &[Said<'_>],
    places: &[usize],
    answers: &mut [Option<Finished>],
) -> Result<(), Trouble> {
    let (ids, ..) = holds(said, places);
    let mut fences: HashMap<JobId, (Fence, Fence)> = HashMap::new();
    for row in tx.query(LOOK, &[&ids]).await? {
        fences.insert(row::job_id(&row, 0)?, (Fence::new(row.try_get(1)?), Fence::new(row.try_get(2)?)));
    }
    for place in places {
        let Hold { job, fence } = said[*place].report.hold;
        answers[*place] = Some(match fences.get(&job) {
            None => Finished::Unknown,
            // A job that was never claimed has reported nothing, whatever fence the caller made up.
            Some((_, reported)) if *reported == fence && fence != Fence::NONE => Finished::AlreadyDone,
            Some((current, _)) => Finished::Stale { current: *current },
        });
    }
    Ok(())
}
