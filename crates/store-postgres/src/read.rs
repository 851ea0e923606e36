//! What has a quick answer however many jobs wait: `get`, `deadlines`, `expired`, `to_stop`, `called_off`; and `check`.
//!
//! Leases are in no index, since a renewal would have to keep it: `deadlines` and `expired` look at all that runs, and at
//! nothing else.

use std::sync::LazyLock;

use model::{Fence, Hold, Job, JobId, LeaseTime, RegistryId, WorkerKey};
use store::{Deadlines, Expired, ToStop, is_timed_out};
use tokio_postgres::Row;

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// One statement, so that a job which moves from one table to the other at this moment is seen in one of them.
const GET: &str = "SELECT {live} WHERE j.id = $1 UNION ALL SELECT {ended} WHERE j.id = $1";

/// $1 registry. Holders first, jobs of each added up: there are fewer of them to look for.
const DEADLINES: &str = "
    SELECT (SELECT run_at FROM tenure.jobs WHERE state = 0 ORDER BY run_at, id LIMIT 1), min(held.next_lease), max(held.longest),
        LEASE_NOW, WALL_NOW
    FROM (
        SELECT holder, min(lease_until) AS next_lease, max(granted_us) AS longest
        FROM tenure.jobs WHERE state = 2 GROUP BY holder
    ) AS held
        LEFT JOIN tenure.holders h ON h.key = ANY (ARRAY[held.holder])
    WHERE h.registry IS NULL OR h.registry = $1";

/// $1 registry, $2 limit.
const EXPIRED: &str = "
    SELECT j.id, j.fence, j.holder, h.registry, coalesce(j.heartbeat_us, q.heartbeat_us) IS NOT NULL, j.exclusive,
        j.lease_until, j.timeout_us, LEASE_NOW
    FROM tenure.jobs j
        JOIN tenure.queues q ON q.no = ANY (ARRAY[j.queue])
        LEFT JOIN tenure.holders h ON h.key = ANY (ARRAY[j.holder])
    WHERE j.state = 2 AND j.lease_until <= LEASE_NOW AND (h.registry IS NULL OR h.registry = $1)
    ORDER BY j.lease_until, j.id LIMIT $2";

/// $1 holder.
const TO_STOP: &str = "
    SELECT j.id, j.fence, j.cancel_requested, j.exclusive, j.timeout_us, LEASE_NOW
    FROM tenure.jobs j
    WHERE j.state = 2 AND j.holder = $1 AND (j.cancel_requested OR j.timeout_us IS NOT NULL)";

/// $1 registry.
const CALLED_OFF: &str = "
    SELECT j.id, j.fence, j.holder
    FROM tenure.jobs j LEFT JOIN tenure.holders h ON h.key = ANY (ARRAY[j.holder])
    WHERE j.state = 2 AND j.cancel_requested AND (h.registry IS NULL OR h.registry = $1)";

pub(crate) const STATEMENTS: &[&str] = &[GET, DEADLINES, EXPIRED, TO_STOP, CALLED_OFF];

static GET_JOB: LazyLock<String> = LazyLock::new(|| row::with_columns(GET));

/// See [`store::JobStore::get`].
pub(crate) struct Get(pub(crate) JobId);

impl Verb for Get {
    type Answer = Option<Job>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Option<Job>, Trouble> {
        tx.query_opt(GET_JOB.as_str(), &[&Id(self.0)]).await?.as_ref().map(row::job).transpose()
    }
}

/// See [`store::JobStore::deadlines`].
pub(crate) struct NextDeadlines(pub(crate) RegistryId);

impl Verb for NextDeadlines {
    type Answer = Deadlines;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Deadlines, Trouble> {
        let row = tx.query_one(DEADLINES, &[&row::registry(self.0)]).await?;
        let (next_run, next_lease): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let (lease, wall) = (LeaseTime::from_micros(row.try_get(3)?), row::wall_time(row.try_get(4)?));
        Ok(Deadlines {
            next_run_in: next_run.map(|run_at| row::wall_time(run_at).since(wall)),
            next_lease_in: next_lease.map(|until| LeaseTime::from_micros(until).since(lease)),
            longest_lease: row.try_get::<_, Option<i64>>(2)?.map(row::duration),
        })
    }
}

/// See [`store::JobStore::expired`].
pub(crate) struct FindExpired {
    pub(crate) registry: RegistryId,
    pub(crate) limit: usize,
}

impl Verb for FindExpired {
    type Answer = Vec<Expired>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Expired>, Trouble> {
        let rows = tx.query(EXPIRED, &[&row::registry(self.registry), &row::limit(self.limit)]).await?;
        rows.iter().map(expired).collect()
    }
}

fn expired(row: &Row) -> Result<Expired, Trouble> {
    let hold = Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) };
    Ok(Expired {
        hold,
        holder: row::valid(WorkerKey::new(row.try_get(2)?))?,
        registry: row.try_get::<_, Option<i32>>(3)?.map(row::registry_id),
        beats_itself: row.try_get(4)?,
        exclusive: row.try_get(5)?,
        timed_out: timed_out(hold, row, 7)?,
        lease_until: LeaseTime::from_micros(row.try_get(6)?),
    })
}

/// Whether the attempt has had its time, by its limit in this column and the lease clock in the next.
fn timed_out(hold: Hold, row: &Row, column: usize) -> Result<bool, Trouble> {
    let limit = row.try_get::<_, Option<i64>>(column)?.map(row::duration);
    Ok(is_timed_out(hold.fence, limit, LeaseTime::from_micros(row.try_get(column + 1)?)))
}

/// See [`store::JobStore::to_stop`].
pub(crate) struct FindToStop(pub(crate) WorkerKey);

impl Verb for FindToStop {
    type Answer = Vec<ToStop>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<ToStop>, Trouble> {
        let mut to_stop = Vec::new();
        for row in tx.query(TO_STOP, &[&self.0.as_str()]).await? {
            let hold = Hold { job: row::job_id(&row, 0)?, fence: Fence::new(row.try_get(1)?) };
            let (cancel, timed_out) = (row.try_get(2)?, timed_out(hold, &row, 4)?);
            if cancel || timed_out {
                to_stop.push(ToStop { hold, cancel, timed_out, exclusive: row.try_get(3)? });
            }
        }
        to_stop.sort_unstable_by_key(|job| job.hold);
        Ok(to_stop)
    }
}

/// See [`store::JobStore::called_off`].
pub(crate) struct FindCalledOff(pub(crate) RegistryId);

impl Verb for FindCalledOff {
    type Answer = Vec<(WorkerKey, Hold)>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<(WorkerKey, Hold)>, Trouble> {
        let rows = tx.query(CALLED_OFF, &[&row::registry(self.0)]).await?;
        let called_off = rows.iter().map(|row| {
            let hold = Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) };
            Ok((row::valid(WorkerKey::new(row.try_get(2)?))?, hold))
        });
        let mut called_off = called_off.collect::<Result<Vec<(WorkerKey, Hold)>, Trouble>>()?;
        called_off.sort_unstable_by_key(|(_, hold)| *hold);
        Ok(called_off)
    }
}
