//! Queues: their names, settings and counts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{QueueName, QueuePatch, QueueSettings};
use store::QueueStats;

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row;

const BY_NAME: &str = "SELECT no, name FROM tenure.queues WHERE name = ANY ($1::text[])";

const BY_NUMBER: &str = "SELECT name FROM tenure.queues WHERE no = $1";

/// In the order of names, so that two that create the same queues wait for each other in one direction only.
const CREATE: &str = "
    INSERT INTO tenure.queues (name) SELECT name FROM unnest($1::text[]) AS name ORDER BY name
    ON CONFLICT (name) DO NOTHING";

const LOCK: &str = "
    SELECT no, paused, exclusive, heartbeat_us, max_attempts, retry FROM tenure.queues WHERE name = $1 FOR UPDATE";

const SET: &str = "
    UPDATE tenure.queues SET paused = $2, exclusive = $3, heartbeat_us = $4, max_attempts = $5, retry = $6
    WHERE no = $1";

const SETTINGS: &str = "
    SELECT name, paused, exclusive, heartbeat_us, max_attempts, retry FROM tenure.queues ORDER BY name";

/// The counts are added up once, for all queues. The oldest job is looked for from priority to priority, so that its cost does not grow with the jobs in each.
const STATS: &str = "
    WITH c AS MATERIALIZED (
        SELECT queue, sum(scheduled)::bigint AS scheduled, sum(available)::bigint AS available,
            sum(running)::bigint AS running, sum(completed)::bigint AS completed,
            sum(cancelled)::bigint AS cancelled, sum(dead)::bigint AS dead
        FROM tenure.counts GROUP BY queue)
    SELECT q.name, q.paused, q.exclusive, q.heartbeat_us, q.max_attempts, q.retry,
        coalesce(c.scheduled, 0), coalesce(c.available, 0), coalesce(c.running, 0), coalesce(c.completed, 0),
        coalesce(c.cancelled, 0), coalesce(c.dead, 0), oldest.run_at, WALL_NOW
    FROM tenure.queues q
    LEFT JOIN c ON c.queue = q.no
    LEFT JOIN LATERAL (
        WITH RECURSIVE lanes (priority, depth) AS (
            (SELECT priority, 1 FROM tenure.jobs WHERE state = 1 AND queue = q.no
             ORDER BY priority DESC, jobs.run_at, jobs.id LIMIT 1)
            UNION ALL
            SELECT (SELECT j.priority FROM tenure.jobs j
                    WHERE j.state = 1 AND j.queue = q.no AND j.priority < lanes.priority
                    ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1), depth + 1
            FROM lanes WHERE lanes.priority IS NOT NULL AND depth < $1)
        SELECT min((SELECT j.run_at FROM tenure.jobs j
                    WHERE j.state = 1 AND j.queue = q.no AND j.priority = lanes.priority
                    ORDER BY j.run_at, j.id LIMIT 1)) AS run_at
        FROM lanes WHERE lanes.priority IS NOT NULL) oldest ON true
    ORDER BY q.name COLLATE \"C\"";

pub(crate) const STATEMENTS: &[&str] = &[BY_NAME, BY_NUMBER, CREATE, LOCK, SET, SETTINGS, STATS];

/// Most priorities of one queue that are looked at for its oldest job; lower ones then do not show.
const LANES_MAX: i32 = 1024;

/// Names and numbers of queues. They never change, so what was read once is remembered; only a database that went back in
/// time (a standby that lacked the last commits) makes them wrong, so they are forgotten with every new connection.
#[derive(Default)]
pub(crate) struct QueueNames {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<QueueName, i32>,
    names: HashMap<i32, QueueName>,
}

impl QueueNames {
    /// The queue's number, if it is remembered.
    pub(crate) fn number(&self, name: &QueueName) -> Option<i32> {
        self.known().numbers.get(name).copied()
    }

    /// The queue with this number.
    pub(crate) async fn name(&self, tx: &Tx<'_>, no: i32) -> Result<QueueName, Trouble> {
        if let Some(name) = self.known().names.get(&no) {
            return Ok(name.clone());
        }
        let row = tx.query_opt(BY_NUMBER, &[&no]).await?;
        let row = row.ok_or_else(|| Trouble::Damaged(format!("there is no queue {no}")))?;
        let name: QueueName = row::valid(row.try_get::<_, &str>(0)?.parse())?;
        self.note(tx, no, &name);
        Ok(name)
    }

    /// Looks up those of the queues that exist and are not remembered. The answer is what was found now.
    pub(crate) async fn look_up(
        &self,
        tx: &Tx<'_>,
        names: &[QueueName],
    ) -> Result<HashMap<QueueName, i32>, Trouble> {
        let texts: Vec<&str> = names.iter().map(QueueName::as_str).collect();
        let mut found = HashMap::new();
        for row in tx.query(BY_NAME, &[&texts]).await? {
            let name: QueueName = row::valid(row.try_get::<_, &str>(1)?.parse())?;
            let no = row.try_get(0)?;
            self.note(tx, no, &name);
            found.insert(name, no);
        }
        Ok(found)
    }

    /// Creates the queues that are missing. They are not remembered before they are seen in a later transaction, since
    /// this one may not be committed.
    pub(crate) async fn create(&self, tx: &Tx<'_>, names: &[QueueName]) -> Result<(), Trouble> {
        let texts: Vec<&str> = names.iter().map(QueueName::as_str).collect();
        tx.note_created_queues();
        tx.execute(CREATE, &[&texts]).await?;
        Ok(())
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        *self.known() = Known::default();
    }

    fn note(&self, tx: &Tx<'_>, no: i32, name: &QueueName) {
        if tx.has_created_queues() {
            return;
        }
        let mut known = self.known();
        known.numbers.insert(name.clone(), no);
        known.names.insert(no, name.clone());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`store::JobStore::set_queue`].
pub(crate) struct SetQueue {
    pub(crate) queue: QueueName,
    pub(crate) patch: QueuePatch,
}

impl Verb for SetQueue {
    type Answer = QueueSettings;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<QueueSettings, Trouble> {
        let name = self.queue.as_str();
        let row = match tx.query_opt(LOCK, &[&name]).await? {
            Some(row) => row,
            None => {
                tx.queues().create(tx, std::slice::from_ref(&self.queue)).await?;
                tx.query_one(LOCK, &[&name]).await?
            }
        };
        let no: i32 = row.try_get(0)?;
        let settings = self.patch.apply(&row::settings(&row, 1)?);
        let heartbeat = settings.heartbeat_timeout.map(row::micros);
        let max_attempts = settings.max_attempts.map(|number| number as i32);
        let retry = settings.retry.map(|policy| policy.to_string());
        tx.execute(SET, &[&no, &settings.paused, &settings.exclusive, &heartbeat, &max_attempts, &retry])
            .await?;
        Ok(settings)
    }
}

/// See [`store::JobStore::queue_settings`].
pub(crate) struct Settings;

impl Verb for Settings {
    type Answer = Vec<(QueueName, QueueSettings)>;

    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<(QueueName, QueueSettings)>, Trouble> {
        let rows = tx.query(SETTINGS, &[]).await?;
        rows.iter()
            .map(|row| Ok((row::valid(row.try_get::<_, &str>(0)?.parse())?, row::settings(row, 1)?)))
            .collect()
    }
}

/// See [`store::JobStore::stats`].
pub(crate) struct Stats;

impl Verb for Stats {
    type Answer = Vec<QueueStats>;

    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<QueueStats>, Trouble> {
        let rows = tx.query(STATS, &[&LANES_MAX]).await?;
        rows.iter()
            .map(|row| {
                let mut counts = [0; 6];
                for (state, count) in counts.iter_mut().enumerate() {
                    *count = row.try_get::<_, i64>(6 + state)?.max(0) as u64;
                }
                let oldest: Option<i64> = row.try_get(12)?;
                let now = row::wall_time(row.try_get(13)?);
                Ok(QueueStats {
                    queue: row::valid(row.try_get::<_, &str>(0)?.parse())?,
                    settings: row::settings(row, 1)?,
                    counts,
                    oldest: oldest.map(|ready_at| now.since(row::wall_time(ready_at))),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use pg_cluster::Cluster;

    use super::*;
    use crate::open::Connector;
    use crate::time;

    #[tokio::test]
    async fn counts_are_read_once_however_many_queues_there_are() {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let client = Connector::open(&url).unwrap().connect_plain().await.unwrap();
        let fill = "
            INSERT INTO tenure.queues (name) SELECT 'q' || n FROM generate_series(1, 50) AS n;
            INSERT INTO tenure.counts (queue, available) SELECT n % 50 + 1, 1 FROM generate_series(1, 200000) AS n;
            SET max_parallel_workers_per_gather = 0";
        client.batch_execute(fill).await.unwrap();
        let stats = time::fill_in(STATS, None).replace("$1", "8");
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {stats}");
        let plan = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<&str> = plan.iter().map(|row| row.get(0)).collect();
        let scans: Vec<&&str> = plan.iter().filter(|line| line.contains("on counts")).collect();
        assert!(
            !scans.is_empty() && scans.iter().all(|line| line.contains("loops=1)")),
            "{}",
            plan.join("\n")
        );
    }
}
