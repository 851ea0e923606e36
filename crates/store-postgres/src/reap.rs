//! What is done about leases that are over: `reap` and `reap_holder`, and `push` and `extend_leases` for holders that
//! live.
//!
//! Jobs to take back are locked as they are read; where each of them goes is decided here, by the model's rules, and then
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{
    Ending, Fence, Hold, LOST_REASON, LeaseTime, QueueName, RegistryId, RetryPolicy, State, WallTime,
    WorkerKey, after_loss,
};
use store::{Expired, Reaped, poison_reason};
use tokio_postgres::Row;

use crate::counts::Moves;
use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// Nobody moves these to another registry until we have committed. Locked in the order they are named in.
const KEEP_HOLDERS: &str = "
    SELECT h.key FROM unnest($1::text[]) AS named (key) JOIN tenure.holders h ON h.key = ANY (ARRAY[named.key])
    FOR SHARE OF h";

/// $1 jobs, $2 fences, $3 leases, $4 holders and $5 their registries, all as they were seen. Who is at a job at this very
/// moment is alive: it is left alone.
const REAP: &str = "
    SELECT j.id, j.fence, j.holder, j.lease_until, j.exclusive, j.adopted, j.cancel_requested, j.attempt, j.lost,
        j.max_lost, j.run_at, coalesce(j.retry, q.retry), j.queue, q.name, clock.lease, clock.wall
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::integer[])
            AS seen (id, fence, lease_until, holder, registry)
        CROSS JOIN (SELECT LEASE_NOW AS lease, WALL_NOW AS wall) AS clock
        JOIN tenure.jobs j ON j.id = ANY (ARRAY[seen.id])
        JOIN tenure.queues q ON q.no = ANY (ARRAY[j.queue])
        LEFT JOIN tenure.holders h ON h.key = ANY (ARRAY[j.holder])
    WHERE (j.state, j.fence, j.lease_until, j.holder)
            IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until, seen.holder)
      AND h.registry IS NOT DISTINCT FROM seen.registry AND j.lease_until <= clock.lease
    FOR UPDATE OF j SKIP LOCKED";

/// It stays terminal until we have committed.
const TERMINAL: &str = "
    SELECT key FROM tenure.holders WHERE key = $1 AND retired_at IS NOT NULL FOR SHARE";

/// Locked in the order of ids, as by everyone.
const REAP_HOLDER: &str = "
    WITH held AS MATERIALIZED (SELECT id FROM tenure.jobs WHERE state = 2 AND holder = $1)
    SELECT j.id, j.fence, j.holder, j.lease_until, j.exclusive, NOT $2::boolean, j.cancel_requested, j.attempt, j.lost,
        j.max_lost, j.run_at, coalesce(j.retry, q.retry), j.queue, q.name, clock.lease, clock.wall
    FROM (SELECT id FROM held ORDER BY id) AS held
        CROSS JOIN (SELECT LEASE_NOW AS lease, WALL_NOW AS wall) AS clock
        JOIN tenure.jobs j ON j.id = ANY (ARRAY[held.id])
        JOIN tenure.queues q ON q.no = ANY (ARRAY[j.queue])
    WHERE (j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, $1)
    FOR UPDATE OF j";

/// Those that are offered again: $1 jobs, $2 states, $3 when they run, $4 attempts, $5 losses, $6 errors.
const OFFER: &str = "
    UPDATE tenure.jobs j
    SET state = taken.state, run_at = taken.run_at, attempt = taken.attempt, lost = taken.lost, last_error = taken.error,
        holder = NULL, lease_until = NULL, granted_us = NULL, exclusive = false, adopted = false
    FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::integer[], $5::integer[], $6::text[])
        AS taken (id, state, run_at, attempt, lost, error)
    WHERE j.id = ANY (ARRAY[taken.id])";

/// Those that end: $1 jobs, $2 states, $3 wall clock, $4 attempts, $5 losses, $6 errors.
const BURY: &str = "
    WITH gone AS (
        DELETE FROM tenure.jobs j
        USING unnest($1::uuid[], $2::smallint[], $4::integer[], $5::integer[], $6::text[])
            AS taken (id, state, attempt, lost, error)
        WHERE j.id = ANY (ARRAY[taken.id])
        RETURNING j.*, taken.state AS end_state, taken.attempt AS end_attempt, taken.lost AS end_lost, taken.error
    ), freed AS (
        DELETE FROM tenure.unique_keys u USING gone
        WHERE u.queue = ANY (ARRAY[gone.queue]) AND u.unique_key = gone.unique_key
          AND u.job = gone.id AND NOT gone.unique_retained
    )
    INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,
        timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,
        unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload)
    SELECT id, fence, reported_fence, run_at, enqueued_at, started_at, $3, heartbeat_us,
        timeout_us, queue, end_attempt, max_attempts, end_lost, max_lost, end_state, priority, cancel_requested,
        unique_retained, unique_key, retry, kind, content_type, traceparent, error, progress, checkpoint, payload
    FROM gone";

/// $1 jobs, $2 fences, $3 leases as they were seen, $4 how far from now.
const PUSH: &str = "
    UPDATE tenure.jobs j SET lease_until = clock.until
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS seen (id, fence, lease_until),
        (SELECT LEASE_NOW + $4::bigint AS until) AS clock
    WHERE j.id = ANY (ARRAY[seen.id])
      AND (j.state, j.fence, j.lease_until) IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until)
      AND j.lease_until < clock.until";

/// $1 registry, $2 how much. Locked in the order of ids, as by everyone.
const EXTEND: &str = "
    WITH ours AS MATERIALIZED (
        SELECT j.id, j.holder FROM tenure.jobs j LEFT JOIN tenure.holders h ON h.key = ANY (ARRAY[j.holder])
        WHERE j.state = 2 AND (h.registry IS NULL OR h.registry = $1)
    )
    UPDATE tenure.jobs j SET lease_until = j.lease_until + $2::bigint
    FROM (SELECT id, holder FROM ours ORDER BY id) AS ours
    WHERE j.id = ANY (ARRAY[ours.id]) AND (j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, ours.holder)";

pub(crate) const STATEMENTS: &[&str] =
    &[KEEP_HOLDERS, REAP, TERMINAL, REAP_HOLDER, OFFER, BURY, PUSH, EXTEND];

/// See [`store::JobStore::reap`].
pub(crate) struct Reap(pub(crate) Vec<Expired>);

impl Verb for Reap {
    type Answer = Vec<Reaped>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Reaped>, Trouble> {
        let holders: BTreeSet<&str> = self.0.iter().map(|seen| seen.holder.as_str()).collect();
        let holders: Vec<&str> = holders.into_iter().collect();
        tx.query(KEEP_HOLDERS, &[&holders]).await?;

        let seen = Seen::new(&self.0);
        let holders: Vec<&str> = seen.each.iter().map(|seen| seen.holder.as_str()).collect();
        let registries: Vec<Option<i32>> =
            seen.each.iter().map(|seen| seen.registry.map(row::registry)).collect();
        let rows = tx.query(REAP, &[&seen.ids, &seen.fences, &seen.leases, &holders, &registries]).await?;
        let mut reaped = take_back(tx, &rows).await?;
        // A job may be named more than once, as it was seen at different times; it is answered where it was seen as it is.
        let answers = self.0.iter().filter_map(|seen| {
            let (taken, until) = reaped.get(&seen.hold)?;
            let as_seen = taken.holder == seen.holder && *until == seen.lease_until;
            if as_seen { reaped.remove(&seen.hold).map(|(taken, _)| taken) } else { None }
        });
        Ok(answers.collect())
    }
}

/// See [`store::JobStore::reap_holder`].
pub(crate) struct ReapHolder {
    pub(crate) holder: WorkerKey,
    pub(crate) counted: bool,
}

impl Verb for ReapHolder {
    type Answer = Vec<Reaped>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Reaped>, Trouble> {
        if tx.query(TERMINAL, &[&self.holder.as_str()]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let rows = tx.query(REAP_HOLDER, &[&self.holder.as_str(), &self.counted]).await?;
        Ok(take_back(tx, &rows).await?.into_values().map(|(reaped, _)| reaped).collect())
    }
}

/// A running job that is taken back, from the columns of the two queries above.
struct Taken {
    hold: Hold,
    holder: WorkerKey,
    lease_until: LeaseTime,
    exclusive: bool,
    is_counted: bool,
    cancel_requested: bool,
    attempt: i32,
    lost: u32,
    max_lost: u32,
    run_at: WallTime,
    policy: RetryPolicy,
    queue_no: i32,
    queue: QueueName,
    lease_now: LeaseTime,
    wall_now: WallTime,
}

/// Where it goes.
struct Next {
    state: State,
    run_at: WallTime,
    lost: u32,
    error: String,
}

impl Taken {
    fn read(row: &Row) -> Result<Self, Trouble> {
        Ok(Taken {
            hold: Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) },
            holder: row::valid(WorkerKey::new(row.try_get(2)?))?,
            lease_until: LeaseTime::from_micros(row.try_get(3)?),
            exclusive: row.try_get(4)?,
            is_counted: !row.try_get::<_, bool>(5)?,
            cancel_requested: row.try_get(6)?,
            attempt: row.try_get(7)?,
            lost: row.try_get::<_, i32>(8)? as u32,
            max_lost: row.try_get::<_, i32>(9)? as u32,
            run_at: row::wall_time(row.try_get(10)?),
            policy: row::retry(row, 11)?.unwrap_or_default(),
            queue_no: row.try_get(12)?,
            queue: row::valid(QueueName::new(row.try_get(13)?))?,
            lease_now: LeaseTime::from_micros(row.try_get(14)?),
            wall_now: row::wall_time(row.try_get(15)?),
        })
    }

    /// The loss counts unless our own absence may have caused it; the attempt does not count.
    fn next(&self) -> Next {
        let lost = self.lost + u32::from(self.is_counted);
        let ending = match self.is_counted {
            true => after_loss(lost, self.max_lost, self.policy, self.hold.fence),
            false => Ending::Again,
        };
        let (state, run_at) = match ending {
            _ if self.cancel_requested => (State::Cancelled, self.run_at),
            Ending::Bury => (State::Dead, self.run_at),
            Ending::Again => (State::Available, self.run_at),
            Ending::Later(delay) if self.wall_now + delay > self.wall_now => {
                (State::Scheduled, self.wall_now + delay)
            }
            Ending::Later(_) => (State::Available, self.wall_now),
        };
        let error = if state == State::Dead { poison_reason(lost) } else { LOST_REASON.to_owned() };
        Next { state, run_at, lost, error }
    }

    fn reaped(self, next: &Next) -> Reaped {
        Reaped {
            hold: self.hold,
            holder: self.holder,
            queue: self.queue,
            state: next.state,
            due_in: (next.state == State::Scheduled).then(|| next.run_at.since(self.wall_now)),
            late: self.lease_now.since(self.lease_until),
            exclusive: self.exclusive,
        }
    }
}

/// The columns of a statement that moves jobs.
#[derive(Default)]
struct Columns {
    ids: Vec<Id>,
    states: Vec<i16>,
    run_ats: Vec<i64>,
    attempts: Vec<i32>,
    losses: Vec<i32>,
    errors: Vec<String>,
}

impl Columns {
    fn push(&mut self, taken: &Taken, next: &Next) {
        self.ids.push(Id(taken.hold.job));
        self.states.push(next.state as i16);
        self.run_ats.push(next.run_at.as_millis());
        self.attempts.push((taken.attempt - 1).max(0));
        self.losses.push(next.lost as i32);
        self.errors.push(next.error.clone());
    }
}

/// Takes back jobs that are locked. The answers are by hold, each with its lease as it was.
async fn take_back(tx: &Tx<'_>, rows: &[Row]) -> Result<BTreeMap<Hold, (Reaped, LeaseTime)>, Trouble> {
    let (mut offered, mut ended) = (Columns::default(), Columns::default());
    let (mut moves, mut reaped) = (Moves::default(), BTreeMap::new());
    let mut wall_now = None;
    for row in rows {
        let taken = Taken::read(row)?;
        let next = taken.next();
        wall_now = Some(taken.wall_now);
        if reaped.contains_key(&taken.hold) {
            continue;
        }
        moves.shift(taken.queue_no, State::Running, next.state);
        if next.state.is_terminal() { &mut ended } else { &mut offered }.push(&taken, &next);
        let (hold, lease_until) = (taken.hold, taken.lease_until);
        reaped.insert(hold, (taken.reaped(&next), lease_until));
    }
    let Some(now) = wall_now else {
        return Ok(BTreeMap::new());
    };
    if !offered.ids.is_empty() {
        let Columns { ids, states, run_ats, attempts, losses, errors } = &offered;
        tx.execute(OFFER, &[ids, states, run_ats, attempts, losses, errors]).await?;
    }
    if !ended.ids.is_empty() {
        let Columns { ids, states, attempts, losses, errors, .. } = &ended;
        tx.execute(BURY, &[ids, states, &now.as_millis(), attempts, losses, errors]).await?;
    }
    moves.write(tx).await?;
    Ok(reaped)
}

/// Jobs as they were seen, as columns: each once, in the order of ids.
struct Seen<'a> {
    each: Vec<&'a Expired>,
    ids: Vec<Id>,
    fences: Vec<i64>,
    leases: Vec<i64>,
}

impl<'a> Seen<'a> {
    fn new(seen: &'a [Expired]) -> Self {
        let mut each: Vec<&Expired> = seen.iter().collect();
        let order = |seen: &&Expired| (seen.hold, seen.lease_until, seen.holder.clone(), seen.registry);
        each.sort_by_key(order);
        each.dedup_by_key(|seen| order(&*seen));
        Seen {
            ids: each.iter().map(|seen| Id(seen.hold.job)).collect(),
            fences: each.iter().map(|seen| seen.hold.fence.get()).collect(),
            leases: each.iter().map(|seen| seen.lease_until.as_micros()).collect(),
            each,
        }
    }
}

/// See [`store::JobStore::push`].
pub(crate) struct Push {
    pub(crate) seen: Vec<Expired>,
    pub(crate) by: Duration,
}

impl Verb for Push {
    type Answer = u64;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<u64, Trouble> {
        let seen = Seen::new(&self.seen);
        tx.execute(PUSH, &[&seen.ids, &seen.fences, &seen.leases, &row::micros(self.by)]).await
    }
}

/// See [`store::JobStore::extend_leases`].
pub(crate) struct ExtendLeases {
    pub(crate) registry: RegistryId,
    pub(crate) by: Duration,
}

impl Verb for ExtendLeases {
    type Answer = u64;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<u64, Trouble> {
        tx.execute(EXTEND, &[&row::registry(self.registry), &row::micros(self.by)]).await
    }
}
