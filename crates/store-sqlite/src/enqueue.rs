//! How jobs come in: `enqueue`, and `promote` for those that waited for their time.

use std::collections::BTreeSet;

use model::{JobId, Limits, NewJob, QueueName, State, UniqueScope, WallTime, When};
use rusqlite::{CachedStatement, OptionalExtension, params};
use store::{EnqueueAnswer, EnqueueBatch, Enqueued, Promoted, decode_answer, encode_answer};

use crate::blob::{self, Stored};
use crate::db::Db;
use crate::error::Trouble;
use crate::row;
use crate::time::Now;
use crate::writer::{Tx, Verb};

const INSERT: &str = "
    INSERT INTO jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload,
                      content_type, heartbeat_us, timeout_us, retry, unique_key, unique_retained, traceparent)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT DO NOTHING";

const EXISTS: &str = "SELECT 1 FROM jobs WHERE id = ?1";

const KEY_OWNER: &str = "
    SELECT id FROM jobs
    WHERE queue = ?1 AND unique_key = ?2 AND unique_key IS NOT NULL AND (state < 3 OR unique_retained = 1)";

const FIRST_ANSWER: &str = "SELECT answer FROM requests WHERE id = ?1";

const REMEMBER: &str = "INSERT INTO requests (id, answered_at, answer) VALUES (?1, ?2, ?3)";

const PROMOTE: &str = "
    UPDATE jobs SET state = 1
    WHERE no IN (
        SELECT no FROM jobs INDEXED BY jobs_scheduled
        WHERE state = 0 AND run_at <= ?1
        ORDER BY run_at, id LIMIT ?2)
    RETURNING id, run_at, queue";

pub(crate) const STATEMENTS: &[&str] = &[INSERT, EXISTS, KEY_OWNER, FIRST_ANSWER, REMEMBER, PROMOTE];

/// See [`store::JobStore::enqueue`].
pub(crate) struct Enqueue(pub(crate) EnqueueBatch);

impl Verb for Enqueue {
    type Answer = EnqueueAnswer;

    fn jobs(&self) -> usize {
        self.0.jobs.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<EnqueueAnswer, Trouble> {
        let db = tx.db;
        if let Some(request) = &self.0.request_id {
            let first: Option<Vec<u8>> =
                db.prepare(FIRST_ANSWER)?.query_row([request.as_str()], |row| row.get(0)).optional()?;
            if let Some(first) = first {
                return Ok(EnqueueAnswer {
                    jobs: decode_answer(&first),
                    repeated: true,
                    ..EnqueueAnswer::default()
                });
            }
        }
        let mut answer =
            EnqueueAnswer { jobs: Vec::with_capacity(self.0.jobs.len()), ..EnqueueAnswer::default() };
        let mut ready = BTreeSet::new();
        let mut inserting = inserting(db)?;
        for new in &self.0.jobs {
            let run_at = run_at(new.when, tx.now);
            let state = if run_at > tx.now.wall { State::Scheduled } else { State::Available };
            let entry = enter(tx, &mut inserting, new, run_at, state)?;
            answer.jobs.push(entry);
            if entry.duplicate {
                continue;
            }
            if state == State::Available {
                note(&mut ready, &new.queue);
            } else {
                let due = run_at.since(tx.now.wall);
                answer.next_run_in = Some(answer.next_run_in.map_or(due, |earlier| earlier.min(due)));
            }
        }
        answer.ready = ready.into_iter().collect();
        if let Some(request) = &self.0.request_id {
            remember(db, tx.now, request.as_str(), &answer.jobs)?;
        }
        Ok(answer)
    }
}

/// Inserts one job unless it, or its unique key, is there already.
fn enter(
    tx: &mut Tx<'_>,
    inserting: &mut CachedStatement<'_>,
    new: &NewJob,
    run_at: WallTime,
    state: State,
) -> Result<Enqueued, Trouble> {
    let db = tx.db;
    let queue_no = match tx.books.queue_no(&new.queue) {
        Some(no) => no,
        // A duplicate must not create the queue it names.
        None if exists(db, new.id)? => return Ok(Enqueued { id: new.id, duplicate: true }),
        None => tx.books.create_queue(db, &new.queue)?,
    };
    let queue = tx.books.queue(queue_no)?;
    let max_attempts = new.max_attempts.or(queue.settings.max_attempts).unwrap_or(Limits::ATTEMPTS_DEFAULT);
    let place = Place { queue: queue_no, max_attempts, run_at, state };
    if insert(db, inserting, tx.now, new, place)?.is_some() {
        tx.books.moves.enter(queue_no, state);
        return Ok(Enqueued { id: new.id, duplicate: false });
    }
    if exists(db, new.id)? {
        return Ok(Enqueued { id: new.id, duplicate: true });
    }
    let key = new.unique_key.as_ref().map(model::UniqueKey::as_str);
    let owner: [u8; 16] = db.prepare(KEY_OWNER)?.query_row(params![queue_no, key], |row| row.get(0))?;
    Ok(Enqueued { id: JobId::from_bytes(owner), duplicate: true })
}

/// Where a new job goes, and what it has if it does not say otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// `queues.no`.
    pub(crate) queue: i64,
    pub(crate) max_attempts: u32,
    pub(crate) run_at: WallTime,
    pub(crate) state: State,
}

/// The statement of [`insert`].
pub(crate) fn inserting(db: &Db) -> rusqlite::Result<CachedStatement<'_>> {
    db.prepare(INSERT)
}

/// Inserts the row of a job, and answers its payload as it is stored. `None` if its id or its unique key is there already.
pub(crate) fn insert<'j>(
    db: &Db,
    inserting: &mut CachedStatement<'_>,
    now: Now,
    new: &'j NewJob,
    place: Place,
) -> Result<Option<Stored<'j>>, Trouble> {
    let content_type = (new.content_type != NewJob::CONTENT_TYPE_DEFAULT).then_some(&new.content_type);
    let payload = blob::put(db, &new.payload)?;
    let inserted = inserting.execute(params![
        new.id.to_bytes(),
        place.state as u8,
        place.queue,
        new.priority,
        place.run_at.as_millis(),
        place.max_attempts,
        new.max_lost.unwrap_or(Limits::LOST_DEFAULT),
        now.wall.as_millis(),
        new.kind.as_str(),
        payload,
        content_type,
        new.heartbeat_timeout.map(row::micros),
        new.timeout.map(row::micros),
        new.retry.map(|policy| policy.to_string()),
        new.unique_key.as_ref().map(model::UniqueKey::as_str),
        new.unique_scope == UniqueScope::Retained,
        new.traceparent,
    ])?;
    if inserted == 1 {
        return Ok(Some(payload));
    }
    blob::take_back(db, payload)?;
    Ok(None)
}

/// Keeps the answer to a request, for when it is repeated.
pub(crate) fn remember(db: &Db, now: Now, request: &str, jobs: &[Enqueued]) -> Result<(), Trouble> {
    db.prepare(REMEMBER)?.execute(params![request, now.wall.as_millis(), encode_answer(jobs)])?;
    Ok(())
}

fn exists(db: &Db, id: JobId) -> Result<bool, Trouble> {
    Ok(db.prepare(EXISTS)?.exists(params![id.to_bytes()])?)
}

fn run_at(when: When, now: Now) -> WallTime {
    match when {
        When::Now => now.wall,
        When::After(delay) => now.wall + delay,
        // A past date is kept, so that jobs that should have run earlier are claimed earlier.
        When::At(date) => date,
    }
}

fn note(ready: &mut BTreeSet<QueueName>, queue: &QueueName) {
    if !ready.contains(queue) {
        ready.insert(queue.clone());
    }
}

/// See [`store::JobStore::promote`].
pub(crate) struct Promote {
    pub(crate) limit: usize,
}

impl Verb for Promote {
    type Answer = Promoted;

    fn jobs(&self) -> usize {
        self.limit
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Promoted, Trouble> {
        let mut update = tx.db.prepare(PROMOTE)?;
        let mut rows = update.query(params![tx.now.wall.as_millis(), row::limit(self.limit)])?;
        let mut due: Vec<(i64, JobId)> = Vec::new();
        let mut ready = BTreeSet::new();
        while let Some(row) = rows.next()? {
            let queue = row.get(2)?;
            tx.books.moves.shift(queue, State::Scheduled, State::Available);
            note(&mut ready, &tx.books.queue(queue)?.name);
            due.push((row.get(1)?, row::job_id(row, 0)?));
        }
        // An update returns its rows in whatever order it met them.
        due.sort_unstable();
        Ok(Promoted { jobs: due.into_iter().map(|(_, id)| id).collect(), ready: ready.into_iter().collect() })
    }
}
