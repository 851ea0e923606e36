//! How holders get jobs.
//!
//! The statement looks at the head of each queue's index of available jobs and nowhere else, so its cost depends neither
//! on the backlog nor on what is scheduled for later. It first sees how many it would take of each queue, and then locks
//! that many, leaving out those that someone else is taking. So it holds nothing that it does not take. Each claim mints a
//! fence that is above the job's last one and not below the lease clock, so it also grows when an id is used again after
//! retention.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Kind, QueueName};
use store::{Claim, Claimed};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::db::{Params, Tx};
use crate::error::Trouble;
use crate::lane::Merge;
use crate::row;

/// $1 holder, $2 queues, $3 limit, $4 bytes, $5 lease, $6 whether exclusive queues give to it.
const CLAIM: &str = "
    WITH clock AS MATERIALIZED (SELECT LEASE_NOW AS lease, WALL_NOW AS wall),
    holder AS MATERIALIZED (SELECT retired_at FROM tenure.holders WHERE key = $1 FOR SHARE),
    open AS MATERIALIZED (
        SELECT no, array_position($2::text[], name) AS place, exclusive, heartbeat_us FROM tenure.queues
        WHERE name = ANY ($2::text[]) AND NOT paused AND ($6 OR NOT exclusive)
          AND NOT EXISTS (SELECT FROM holder WHERE retired_at IS NOT NULL)),
    shares AS MATERIALIZED (
        SELECT no AS queue, $3 AS share FROM open WHERE (SELECT count(*) FROM open) = 1
        UNION ALL
        SELECT queue, count(*) FROM (
            SELECT head.queue FROM open CROSS JOIN LATERAL (
                SELECT j.queue, j.priority, j.run_at, j.id FROM tenure.jobs j
                WHERE j.state = 1 AND j.queue = open.no
                ORDER BY j.priority DESC, j.run_at, j.id LIMIT $3) AS head
            WHERE (SELECT count(*) FROM open) > 1
            ORDER BY head.priority DESC, head.run_at, head.id LIMIT $3) AS heads
        GROUP BY queue),
    picked AS MATERIALIZED (
        SELECT taken.id, taken.priority, taken.run_at, taken.heartbeat_us, taken.exclusive, taken.place,
            sum(taken.bytes) OVER (ORDER BY taken.priority DESC, taken.run_at, taken.id ROWS UNBOUNDED PRECEDING)
                - taken.bytes AS bytes_before
        FROM (
            SELECT head.*, coalesce(head.own_heartbeat_us, open.heartbeat_us) AS heartbeat_us, open.exclusive, open.place
            FROM shares JOIN open ON open.no = shares.queue CROSS JOIN LATERAL (
                SELECT j.id, j.priority, j.run_at, j.heartbeat_us AS own_heartbeat_us,
                    octet_length(j.payload) + coalesce(octet_length(j.checkpoint), 0) AS bytes
                FROM tenure.jobs j
                WHERE j.state = 1 AND j.queue = shares.queue
                ORDER BY j.priority DESC, j.run_at, j.id LIMIT shares.share
                FOR UPDATE SKIP LOCKED) AS head) AS taken),
    claimed AS (
        UPDATE tenure.jobs j
        SET state = 2, holder = $1, fence = greatest(j.fence + 1, clock.lease), attempt = j.attempt + 1,
            started_at = clock.wall, granted_us = coalesce(p.heartbeat_us, $5),
            lease_until = clock.lease + coalesce(p.heartbeat_us, $5), adopted = false, exclusive = p.exclusive
        FROM picked p, clock
        WHERE j.id = ANY (ARRAY[p.id]) AND j.state IS NOT DISTINCT FROM 1 AND p.bytes_before < $4
        RETURNING j.id, j.fence, p.place, j.kind, j.payload, j.content_type, j.priority, j.attempt, j.max_attempts,
            j.granted_us, p.heartbeat_us, j.timeout_us, j.checkpoint, j.traceparent, j.exclusive,
            clock.wall - j.run_at AS waited, j.run_at, j.queue),
    counted AS (
        INSERT INTO tenure.counts (queue, available, running)
        SELECT queue, -count(*), count(*) FROM claimed GROUP BY queue)
    SELECT id, fence, place, kind, payload, content_type, priority, attempt, max_attempts, granted_us, heartbeat_us,
        timeout_us, checkpoint, traceparent, exclusive, waited, run_at
    FROM claimed";

pub(crate) const STATEMENTS: &[&str] = &[CLAIM];

/// See [`store::JobStore::claim`].
pub(crate) struct ClaimJobs(pub(crate) Claim);

impl Merge for ClaimJobs {
    type Answer = Vec<Claimed>;

    const GROUP_REQUESTS_MAX: usize = 16;

    fn jobs(&self) -> usize {
        self.0.limit
    }

    fn is_one_statement(group: &[Self]) -> bool {
        group.len() == 1
    }

    async fn run<'a>(group: &'a [Self], tx: &'a Tx<'a>) -> Result<Vec<Vec<Claimed>>, Trouble> {
        let claims: Vec<Bound<'_>> = group.iter().map(|ClaimJobs(claim)| Bound::new(claim)).collect();
        let all_params: Vec<[&(dyn ToSql + Sync); 6]> = claims.iter().map(Bound::params).collect();
        let answers = if let [params] = all_params.as_slice() {
            vec![tx.query(CLAIM, params).await?]
        } else {
            let statements: Vec<(&'static str, Params<'_>)> =
                all_params.iter().map(|params| (CLAIM, params.as_slice())).collect();
            tx.query_all_and_commit(&statements).await?
        };
        answers.iter().zip(group).map(|(rows, ClaimJobs(claim))| read(claim, rows)).collect()
    }
}

/// A claim as parameters.
struct Bound<'c> {
    holder: &'c str,
    queues: Vec<&'c str>,
    limit: i64,
    bytes_max: i64,
    lease: i64,
    exclusive: bool,
}

impl<'c> Bound<'c> {
    fn new(claim: &'c Claim) -> Self {
        Bound {
            holder: claim.holder.as_str(),
            queues: claim.queues.iter().map(QueueName::as_str).collect(),
            limit: row::limit(claim.limit),
            // The first job is always taken.
            bytes_max: row::limit(claim.bytes_max).max(1),
            lease: row::micros(claim.lease),
            exclusive: claim.exclusive,
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.holder, &self.queues, &self.limit, &self.bytes_max, &self.lease, &self.exclusive]
    }
}

fn read(claim: &Claim, rows: &[Row]) -> Result<Vec<Claimed>, Trouble> {
    let mut kind: Option<Kind> = None;
    let read = |row: &Row| {
        let place: i32 = row.try_get(2)?;
        let text: &str = row.try_get(3)?;
        // Neighbours are mostly of one kind; its name is then shared.
        let kind = match &kind {
            Some(same) if same.as_str() == text => same.clone(),
            _ => kind.insert(row::valid(text.parse())?).clone(),
        };
        let waited: i64 = row.try_get(15)?;
        let run_at: i64 = row.try_get(16)?;
        let claimed = Claimed {
            hold: Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) },
            queue: claim.queues[place as usize - 1].clone(),
            kind,
            payload: Bytes::copy_from_slice(row.try_get(4)?),
            content_type: row::content_type(row, 5)?,
            priority: row.try_get(6)?,
            attempt: row::count(row, 7)?,
            max_attempts: row::count(row, 8)?,
            lease: row::duration(row.try_get(9)?),
            heartbeat_timeout: row.try_get::<_, Option<i64>>(10)?.map(row::duration),
            timeout: row.try_get::<_, Option<i64>>(11)?.map(row::duration),
            checkpoint: row.try_get::<_, Option<&[u8]>>(12)?.map(Bytes::copy_from_slice),
            traceparent: row.try_get(13)?,
            exclusive: row.try_get(14)?,
            waited: Duration::from_millis(waited.max(0) as u64),
        };
        Ok((run_at, claimed))
    };
    let mut claimed: Vec<(i64, Claimed)> = rows.iter().map(read).collect::<Result<_, Trouble>>()?;
    // An update returns its rows in whatever order it met them; mostly in this one.
    claimed.sort_by_key(|(run_at, job)| (Reverse(job.priority), *run_at, job.hold.job));
    Ok(claimed.into_iter().map(|(_, job)| job).collect())
}
