//! What is done about leases that are over: `reap` and `reap_holder`, and `push` and `extend_leases` for holders that
//! live.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

use model::{
    Ending, Fence, Hold, JobId, LOST_REASON, LeaseTime, RegistryId, RetryPolicy, State, WallTime, WorkerKey,
    after_loss,
};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Params, params};
use store::{Expired, Reaped, poison_reason};

use crate::db::Db;
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// ?1 the jobs as they were seen, ?2 wall clock, ?3 lease clock.
const REAP: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 WHEN taken.delay IS NULL THEN 5 WHEN taken.delay > 0 THEN 0 ELSE 1 END,
        finished_at = CASE WHEN cancel_requested OR taken.delay IS NULL THEN ?2 END,
        run_at = CASE WHEN NOT cancel_requested AND taken.delay >= 0 THEN ?2 + taken.delay ELSE run_at END,
        attempt = max(attempt - 1, 0), lost = lost + taken.counted,
        last_error = loss_reason(taken.delay IS NULL AND NOT cancel_requested, lost + taken.counted),
        holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = 0
    FROM (
        SELECT no, counted,
            CASE WHEN counted THEN loss_delay(lost + 1, max_lost, retry, fence) ELSE -1 END AS delay
        FROM (
            SELECT j.no, j.lost, j.max_lost, j.fence, coalesce(j.retry, q.retry) AS retry,
                NOT j.adopted AS counted
            FROM json_each(?1) seen
            JOIN jobs j ON j.id = unhex(seen.value ->> 0)
            JOIN queues q ON q.no = j.queue
            JOIN holders h ON h.no = j.holder
            WHERE j.state = 2 AND j.fence = seen.value ->> 1 AND j.lease_until = seen.value ->> 2
              AND j.holder = seen.value ->> 3 AND h.registry IS seen.value ->> 4 AND j.lease_until <= ?3)
    ) AS taken
    WHERE jobs.no = taken.no
    RETURNING id, fence, queue, state, run_at";

const SEEN: &str = "
    SELECT j.id, j.lease_until, j.holder, j.exclusive, h.registry
    FROM json_each(?1) seen JOIN jobs j ON j.id = unhex(seen.value ->> 0) JOIN holders h ON h.no = j.holder
    WHERE j.state = 2";

const HELD: &str = "
    SELECT j.id, j.lease_until, j.holder, j.exclusive, h.registry
    FROM jobs j INDEXED BY jobs_running JOIN holders h ON h.no = j.holder WHERE j.state = 2 AND j.holder = ?1";

/// ?1 wall clock, ?2 holder, ?3 whether the losses count.
const REAP_HOLDER: &str = "
    UPDATE jobs
    SET state = CASE WHEN cancel_requested THEN 4 WHEN taken.delay IS NULL THEN 5 WHEN taken.delay > 0 THEN 0 ELSE 1 END,
        finished_at = CASE WHEN cancel_requested OR taken.delay IS NULL THEN ?1 END,
        run_at = CASE WHEN NOT cancel_requested AND taken.delay >= 0 THEN ?1 + taken.delay ELSE run_at END,
        attempt = max(attempt - 1, 0), lost = lost + ?3,
        last_error = loss_reason(taken.delay IS NULL AND NOT cancel_requested, lost + ?3),
        holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = 0
    FROM (
        SELECT j.no,
            CASE WHEN ?3 THEN loss_delay(j.lost + 1, j.max_lost, coalesce(j.retry, q.retry), j.fence) ELSE -1 END AS delay
        FROM jobs j INDEXED BY jobs_running JOIN queues q ON q.no = j.queue
        WHERE j.state = 2 AND j.holder = ?2
          AND EXISTS (SELECT 1 FROM holders h WHERE h.no = ?2 AND h.retired_at IS NOT NULL)
    ) AS taken
    WHERE jobs.no = taken.no
    RETURNING id, fence, queue, state, run_at";

/// ?1 the jobs as they were seen, ?2 until when.
const PUSH: &str = "
    UPDATE jobs SET lease_until = ?2
    WHERE no IN (
        SELECT j.no FROM json_each(?1) seen JOIN jobs j ON j.id = unhex(seen.value ->> 0)
        WHERE j.state = 2 AND j.fence = seen.value ->> 1 AND j.lease_until = seen.value ->> 2 AND j.lease_until < ?2)";

/// ?1 by how much, ?2 registry.
const EXTEND: &str = "
    UPDATE jobs SET lease_until = lease_until + ?1
    WHERE state = 2 AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.no = jobs.holder AND h.registry <> ?2)";

pub(crate) const STATEMENTS: &[&str] = &[REAP, SEEN, HELD, REAP_HOLDER, PUSH, EXTEND];

/// Makes the model's rules for losses callable from SQL, so that each lives in one place.
///
/// `loss_delay(lost, max_lost, policy, fence)` is NULL for a job to bury, -1 for one to offer at once, else the delay in
/// milliseconds. `loss_reason(buried, lost)` is the error text.
pub(crate) fn register_functions(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("loss_delay", 4, flags, loss_delay)?;
    connection.create_scalar_function("loss_reason", 2, flags, |context: &Context<'_>| {
        let (buried, lost) = (context.get(0)?, context.get(1)?);
        Ok(if buried { poison_reason(lost) } else { LOST_REASON.to_owned() })
    })
}

fn loss_delay(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    let text: Option<String> = context.get(2)?;
    let policy: Option<RetryPolicy> = text.map(|text| text.parse()).transpose().map_err(user_error)?;
    Ok(
        match after_loss(
            context.get(0)?,
            context.get(1)?,
            policy.unwrap_or_default(),
            Fence::new(context.get(3)?),
        ) {
            Ending::Bury => None,
            Ending::Again => Some(-1),
            Ending::Later(delay) => Some(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
        },
    )
}

fn user_error(invalid: model::Invalid) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(invalid))
}

/// See [`store::JobStore::reap`].
pub(crate) struct Reap(pub(crate) Vec<Expired>);

impl Verb for Reap {
    type Answer = Vec<Reaped>;

    fn jobs(&self) -> usize {
        self.0.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Reaped>, Trouble> {
        let seen = json(tx, &self.0)?;
        let held = held(tx.db, SEEN, params![seen])?;
        let mut taken = take(tx, REAP, params![seen, tx.now.wall.as_millis(), tx.now.lease.as_micros()])?;
        let mut reaped = Vec::with_capacity(taken.len());
        for seen in &self.0 {
            // A job may be named more than once, as it was seen at different times.
            let holder = tx.books.holder_no(tx.db, &seen.holder)?;
            if let Some(held) = held.get(&seen.hold.job)
                && (held.lease_until, held.holder, held.registry) == (seen.lease_until, holder, seen.registry)
                && let Some(taken) = taken.remove(&seen.hold)
            {
                reaped.push(taken.reaped(tx.now.lease, seen.holder.clone(), held));
            }
        }
        Ok(reaped)
    }
}

/// See [`store::JobStore::reap_holder`].
pub(crate) struct ReapHolder {
    pub(crate) holder: WorkerKey,
    pub(crate) counted: bool,
}

impl Verb for ReapHolder {
    type Answer = Vec<Reaped>;

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Reaped>, Trouble> {
        let db = tx.db;
        let holder = tx.books.holder_no(db, &self.holder)?;
        let held = held(db, HELD, [holder])?;
        let taken = take(tx, REAP_HOLDER, params![tx.now.wall.as_millis(), holder, self.counted])?;
        let reaped = taken.into_values().map(|taken| {
            let held = &held[&taken.hold.job];
            taken.reaped(tx.now.lease, self.holder.clone(), held)
        });
        Ok(reaped.collect())
    }
}

/// What the statement says about a job it took back.
struct Taken {
    hold: Hold,
    queue: model::QueueName,
    state: State,
    due_in: Option<Duration>,
}

impl Taken {
    fn reaped(self, now: LeaseTime, holder: WorkerKey, held: &Held) -> Reaped {
        let Taken { hold, queue, state, due_in } = self;
        let late = now.since(held.lease_until);
        Reaped { hold, holder, queue, state, due_in, late, exclusive: held.exclusive }
    }
}

/// What a running job loses when it is taken back.
struct Held {
    lease_until: LeaseTime,
    holder: i64,
    exclusive: bool,
    registry: Option<RegistryId>,
}

/// Running jobs before they are taken back, by one of the two queries above.
fn held(db: &Db, sql: &str, parameters: impl Params) -> Result<HashMap<JobId, Held>, Trouble> {
    let mut held = HashMap::new();
    let mut select = db.prepare(sql)?;
    let mut rows = select.query(parameters)?;
    while let Some(row) = rows.next()? {
        let lease_until = LeaseTime::from_micros(row.get(1)?);
        let registry = row.get::<_, Option<u32>>(4)?.map(RegistryId);
        let job = Held { lease_until, holder: row.get(2)?, exclusive: row.get(3)?, registry };
        held.insert(row::job_id(row, 0)?, job);
    }
    Ok(held)
}

/// Takes jobs back by one of the two statements above.
fn take(tx: &mut Tx<'_>, sql: &str, parameters: impl Params) -> Result<BTreeMap<Hold, Taken>, Trouble> {
    let mut taken = BTreeMap::new();
    let mut update = tx.db.prepare(sql)?;
    let mut rows = update.query(parameters)?;
    while let Some(row) = rows.next()? {
        let (queue_no, state) = (row.get(2)?, row::state(row, 3)?);
        let run_at: WallTime = row::wall_time(row.get(4)?);
        let hold = Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.get(1)?) };
        tx.books.moves.shift(queue_no, State::Running, state);
        tx.books.forget_claim(hold.job);
        let queue = tx.books.queue(queue_no)?.name.clone();
        let due_in = (state == State::Scheduled).then(|| run_at.since(tx.now.wall));
        taken.insert(hold, Taken { hold, queue, state, due_in });
    }
    Ok(taken)
}

/// The jobs as `[["id in hex", fence, lease, holder's number, its registry], …]`, each once.
fn json(tx: &mut Tx<'_>, seen: &[Expired]) -> Result<String, Trouble> {
    let mut text = String::from("[");
    let mut written = HashSet::new();
    for Expired { hold, holder, registry, lease_until, .. } in seen {
        let holder = tx.books.holder_no(tx.db, holder)?;
        if !written.insert((hold, holder, registry, lease_until)) {
            continue;
        }
        let comma = if text.len() > 1 { "," } else { "" };
        let id = hold.job.to_u128();
        let registry = registry.map_or("null".to_owned(), |registry| registry.0.to_string());
        let (fence, until) = (hold.fence, lease_until.as_micros());
        write!(text, "{comma}[\"{id:032x}\",{fence},{until},{holder},{registry}]")
            .expect("writing to a string does not fail");
    }
    text.push(']');
    Ok(text)
}

/// See [`store::JobStore::push`].
pub(crate) struct Push {
    pub(crate) seen: Vec<Expired>,
    pub(crate) by: Duration,
}

impl Verb for Push {
    type Answer = u64;

    fn jobs(&self) -> usize {
        self.seen.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Trouble> {
        let seen = json(tx, &self.seen)?;
        let until = tx.now.lease + self.by;
        let pushed = tx.db.prepare(PUSH)?.execute(params![seen, until.as_micros()])?;
        tx.books.stamped |= pushed > 0;
        Ok(pushed as u64)
    }
}

/// See [`store::JobStore::extend_leases`].
pub(crate) struct ExtendLeases {
    pub(crate) registry: RegistryId,
    pub(crate) by: Duration,
}

impl Verb for ExtendLeases {
    type Answer = u64;

    fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Trouble> {
        let extended = tx.db.prepare(EXTEND)?.execute(params![row::micros(self.by), self.registry.0])?;
        Ok(extended as u64)
    }
}
