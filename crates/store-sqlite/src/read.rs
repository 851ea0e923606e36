//! What has a quick answer however much there is: `get`, `stats`, `deadlines`, `expired`, `to_stop`. Each runs in a read transaction
//! of its own.

use model::{Fence, Hold, Job, JobId, LeaseTime, RegistryId, WorkerKey};
use rusqlite::{Row, params};
use store::{Deadlines, Expired, QueueStats, ToStop, is_timed_out};

use crate::db::Db;
use crate::error::Trouble;
use crate::reader::Query;
use crate::row;
use crate::time::Now;

pub(crate) const GET: &str = "SELECT {columns} FROM {tables} WHERE jobs.id = ?1";

const QUEUES: &str = "
    SELECT no, name, paused, exclusive, heartbeat_us, max_attempts, retry, volatile,
        scheduled, available, running, completed, cancelled, dead
    FROM queues ORDER BY name";

/// Steps from priority to priority, so that its cost does not grow with the jobs in each.
const OLDEST: &str = "
    WITH RECURSIVE lanes (priority) AS (
        SELECT max(priority) FROM jobs INDEXED BY jobs_available WHERE state = 1 AND queue = ?1
        UNION ALL
        SELECT (SELECT max(priority) FROM jobs INDEXED BY jobs_available
                WHERE state = 1 AND queue = ?1 AND priority < lanes.priority)
        FROM lanes WHERE lanes.priority IS NOT NULL LIMIT ?2)
    SELECT min((SELECT min(run_at) FROM jobs INDEXED BY jobs_available
                WHERE state = 1 AND queue = ?1 AND priority = lanes.priority))
    FROM lanes WHERE lanes.priority IS NOT NULL";

const NEXT_RUN: &str = "SELECT min(run_at) FROM jobs INDEXED BY jobs_scheduled WHERE state = 0";

/// Holders are looked at only if some are in another registry than the one there is. ?1 registry.
const LEASES: &str = "
    SELECT min(lease_until), max(granted_us) FROM jobs INDEXED BY jobs_running
    WHERE state = 2
      AND (?1 = 1 AND NOT EXISTS (SELECT 1 FROM holders INDEXED BY holders_elsewhere WHERE registry <> 1)
        OR NOT EXISTS (SELECT 1 FROM holders h WHERE h.no = jobs.holder AND h.registry <> ?1))";

/// Steps from holder to holder and looks at those of its leases that are over; only of those in the answer more is read.
/// Holders as in [`LEASES`]. ?1 lease clock, ?2 limit, ?3 registry.
const EXPIRED: &str = "
    WITH RECURSIVE holding (holder) AS (
        SELECT min(holder) FROM jobs INDEXED BY jobs_running WHERE state = 2
        UNION ALL
        SELECT (SELECT min(holder) FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder > holding.holder)
        FROM holding WHERE holding.holder IS NOT NULL)
    SELECT over.id, over.fence, h.key, h.registry, coalesce(over.heartbeat_us, q.heartbeat_us) IS NOT NULL,
        over.exclusive, over.lease_until, over.timeout_us
    FROM (
        SELECT jobs.id, jobs.fence, jobs.holder, jobs.queue, jobs.heartbeat_us, jobs.exclusive, jobs.lease_until,
            jobs.timeout_us
        FROM holding
        JOIN jobs INDEXED BY jobs_running
            ON jobs.state = 2 AND jobs.holder = holding.holder AND jobs.lease_until <= ?1
        WHERE ?3 = 1 AND NOT EXISTS (SELECT 1 FROM holders INDEXED BY holders_elsewhere WHERE registry <> 1)
            OR NOT EXISTS (SELECT 1 FROM holders r WHERE r.no = jobs.holder AND r.registry <> ?3)
        ORDER BY jobs.lease_until, jobs.id LIMIT ?2) AS over
    CROSS JOIN holders h ON h.no = over.holder
    CROSS JOIN queues q ON q.no = over.queue
    ORDER BY over.lease_until, over.id";

/// ?1 holder.
const TO_STOP: &str = "
    SELECT jobs.id, jobs.fence, jobs.cancel_requested, jobs.exclusive, jobs.timeout_us
    FROM holders h JOIN jobs INDEXED BY jobs_running ON jobs.state = 2 AND jobs.holder = h.no
    WHERE h.key = ?1 AND (jobs.cancel_requested OR jobs.timeout_us IS NOT NULL)
    ORDER BY jobs.id";

pub(crate) const STATEMENTS: &[&str] = &[GET, QUEUES, OLDEST, NEXT_RUN, LEASES, EXPIRED, TO_STOP];

/// Most priorities of one queue that are looked at for its oldest job; lower ones then do not show.
const LANES_MAX: i64 = 1024;

/// See [`store::JobStore::get`].
pub(crate) struct Get(pub(crate) JobId);

impl Query for Get {
    type Answer = Option<Job>;

    fn run(&self, db: &Db, _: Now) -> Result<Option<Job>, Trouble> {
        let mut select = db.prepare(&row::with_columns(GET))?;
        let mut rows = select.query(params![self.0.to_bytes()])?;
        rows.next()?.map(|row| row::job(db, row)).transpose()
    }
}

/// See [`store::JobStore::stats`].
pub(crate) struct Stats;

impl Query for Stats {
    type Answer = Vec<QueueStats>;

    fn run(&self, db: &Db, now: Now) -> Result<Vec<QueueStats>, Trouble> {
        let mut select = db.prepare(QUEUES)?;
        let mut rows = select.query([])?;
        let mut stats = Vec::new();
        while let Some(row) = rows.next()? {
            let mut counts = [0; 6];
            for (state, count) in counts.iter_mut().enumerate() {
                *count = row.get::<_, i64>(8 + state)? as u64;
            }
            let oldest: Option<i64> =
                db.prepare(OLDEST)?.query_row(params![row.get::<_, i64>(0)?, LANES_MAX], |row| row.get(0))?;
            stats.push(QueueStats {
                queue: row::valid(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?.parse())?,
                settings: row::settings(row, 2)?,
                counts,
                oldest: oldest.map(|ready_at| now.wall.since(row::wall_time(ready_at))),
            });
        }
        Ok(stats)
    }
}

/// See [`store::JobStore::deadlines`].
pub(crate) struct NextDeadlines(pub(crate) RegistryId);

impl Query for NextDeadlines {
    type Answer = Deadlines;

    fn run(&self, db: &Db, now: Now) -> Result<Deadlines, Trouble> {
        let next_run: Option<i64> = db.prepare(NEXT_RUN)?.query_row([], |row| row.get(0))?;
        let (next_lease, longest): (Option<i64>, Option<i64>) =
            db.prepare(LEASES)?.query_row([self.0.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Deadlines {
            next_run_in: next_run.map(|run_at| row::wall_time(run_at).since(now.wall)),
            next_lease_in: next_lease.map(|until| LeaseTime::from_micros(until).since(now.lease)),
            longest_lease: longest.map(row::duration),
        })
    }
}

/// See [`store::JobStore::expired`].
pub(crate) struct FindExpired {
    pub(crate) registry: RegistryId,
    pub(crate) limit: usize,
}

impl Query for FindExpired {
    type Answer = Vec<Expired>;

    fn run(&self, db: &Db, now: Now) -> Result<Vec<Expired>, Trouble> {
        let mut select = db.prepare(EXPIRED)?;
        let mut rows =
            select.query(params![now.lease.as_micros(), row::limit(self.limit), self.registry.0])?;
        let mut expired = Vec::new();
        while let Some(row) = rows.next()? {
            expired.push(read_expired(row, now)?);
        }
        Ok(expired)
    }
}

fn read_expired(row: &Row<'_>, now: Now) -> Result<Expired, Trouble> {
    let holder = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
    let hold = Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.get(1)?) };
    let limit = row.get::<_, Option<i64>>(7)?.map(row::duration);
    Ok(Expired {
        hold,
        holder: row::valid(WorkerKey::new(holder))?,
        registry: row.get::<_, Option<u32>>(3)?.map(RegistryId),
        beats_itself: row.get(4)?,
        exclusive: row.get(5)?,
        timed_out: is_timed_out(hold.fence, limit, now.lease),
        lease_until: LeaseTime::from_micros(row.get(6)?),
    })
}

/// See [`store::JobStore::to_stop`].
pub(crate) struct FindToStop(pub(crate) WorkerKey);

impl Query for FindToStop {
    type Answer = Vec<ToStop>;

    fn run(&self, db: &Db, now: Now) -> Result<Vec<ToStop>, Trouble> {
        let mut select = db.prepare(TO_STOP)?;
        let mut rows = select.query(params![self.0.as_str()])?;
        let mut to_stop = Vec::new();
        while let Some(row) = rows.next()? {
            let hold = Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.get(1)?) };
            let limit = row.get::<_, Option<i64>>(4)?.map(row::duration);
            let (cancel, timed_out) = (row.get(2)?, is_timed_out(hold.fence, limit, now.lease));
            if cancel || timed_out {
                to_stop.push(ToStop { hold, cancel, timed_out, exclusive: row.get(3)? });
            }
        }
        Ok(to_stop)
    }
}
