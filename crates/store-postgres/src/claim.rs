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
use model::{Fence, Hold, Kind, Limits, QueueName};
use store::{Claim, Claimed};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::db::{Params, Tx};
use crate::error::Trouble;
use crate::lane::Merge;
use crate::row;

/// What the claim needs to know of a job's queue. Mostly there is one only, and it is not looked for again and again.
macro_rules! of_queue {
    ($column:literal) => {
        concat!(
            "CASE WHEN (SELECT count(*) FROM open) = 1 THEN (SELECT ",
            $column,
            " FROM open) ELSE (SELECT ",
            $column,
            " FROM open WHERE no = j.queue) END"
        )
    };
}

/// $1 holder, $2 queues, $3 limit, $4 bytes, $5 lease, $6 whether exclusive queues give to it, $7 how many attempts most jobs
/// have. What is picked is locked, so it stays where it is, and the update finds it there without any index; it is counted
/// by what was locked. It does not see a row that came after the statement began: of those that were claimed and handed back
/// meanwhile, which a fence tells, the job is left to the next claim. Bytes are added up one by one only where they are too
/// many. What most jobs have in common (the first queue, priority 0, a first attempt, not exclusive) is NULL in the answer:
/// a value costs more to send than to make out.
const CLAIM: &str = concat!(
    "
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
        SELECT head.* FROM shares CROSS JOIN LATERAL (
            SELECT j.ctid AS row, j.queue, octet_length(j.payload) + coalesce(octet_length(j.checkpoint), 0) AS bytes,
                j.fence, j.priority, j.run_at, j.id
            FROM tenure.jobs j
            WHERE j.state = 1 AND j.queue = shares.queue
            ORDER BY j.priority DESC, j.run_at, j.id LIMIT shares.share
            FOR UPDATE SKIP LOCKED) AS head
        WHERE head.fence = 0 OR (SELECT true FROM tenure.jobs j WHERE j.ctid = head.row)),
    taken AS MATERIALIZED (
        SELECT picked.row, queue FROM picked WHERE (SELECT sum(bytes) FROM picked) <= $4
        UNION ALL
        SELECT summed.row, queue FROM (
            SELECT *, sum(bytes) OVER (ORDER BY priority DESC, run_at, id ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before
            FROM picked WHERE (SELECT sum(bytes) FROM picked) > $4) AS summed
        WHERE bytes_before < $4),
    counted AS (
        INSERT INTO tenure.counts (queue, available, running)
        SELECT queue, -count(*), count(*) FROM taken GROUP BY queue)
    UPDATE tenure.jobs j
    SET state = 2, holder = $1, fence = greatest(j.fence + 1, (SELECT lease FROM clock)), attempt = j.attempt + 1,
        started_at = (SELECT wall FROM clock), adopted = false,
        granted_us = coalesce(j.heartbeat_us, ",
    of_queue!("heartbeat_us"),
    ", $5),
        lease_until = (SELECT lease FROM clock) + coalesce(j.heartbeat_us, ",
    of_queue!("heartbeat_us"),
    ", $5),
        exclusive = ",
    of_queue!("exclusive"),
    "
    WHERE j.ctid = ANY (ARRAY(SELECT taken.row FROM taken)) AND j.state IS NOT DISTINCT FROM 1
    RETURNING j.id, j.fence, nullif(",
    of_queue!("place"),
    ", 1), j.kind, j.payload, j.content_type, nullif(j.priority, 0::smallint),
        nullif(j.attempt, 1), nullif(j.max_attempts, $7), coalesce(j.heartbeat_us, ",
    of_queue!("heartbeat_us"),
    "), j.timeout_us,
        j.checkpoint, j.traceparent, nullif(j.exclusive, false), (SELECT wall FROM clock) - j.run_at",
);

pub(crate) const STATEMENTS: &[&str] = &[CLAIM];

/// What most jobs have.
const ATTEMPTS_DEFAULT: i32 = Limits::ATTEMPTS_DEFAULT as i32;

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
        let all_params: Vec<[&(dyn ToSql + Sync); 7]> = claims.iter().map(Bound::params).collect();
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

    fn params(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.holder,
            &self.queues,
            &self.limit,
            &self.bytes_max,
            &self.lease,
            &self.exclusive,
            &ATTEMPTS_DEFAULT,
        ]
    }
}

fn read(claim: &Claim, rows: &[Row]) -> Result<Vec<Claimed>, Trouble> {
    let mut kind: Option<Kind> = None;
    let read = |row: &Row| {
        let place: Option<i32> = row.try_get(2)?;
        let priority: Option<i16> = row.try_get(6)?;
        let heartbeat: Option<i64> = row.try_get(9)?;
        let waited: i64 = row.try_get(14)?;
        let text: &str = row.try_get(3)?;
        // Neighbours are mostly of one kind; its name is then shared.
        let kind = match &kind {
            Some(same) if same.as_str() == text => same.clone(),
            _ => match text.parse::<Kind>() {
                Ok(known) => kind.insert(known).clone(),
                // Not by us nor by our function. Its lease runs out again and again until it is buried; the others go on.
                Err(invalid) => {
                    tracing::error!(job = %row::job_id(row, 0)?, %invalid, "a job has a kind that nobody can serve");
                    return Ok(None);
                }
            },
        };
        let claimed = Claimed {
            hold: Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) },
            queue: claim.queues[place.unwrap_or(1) as usize - 1].clone(),
            kind,
            payload: Bytes::copy_from_slice(row.try_get(4)?),
            content_type: row::content_type(row, 5)?,
            priority: priority.unwrap_or(0),
            attempt: row::count_or(row, 7, 1)?,
            max_attempts: row::count_or(row, 8, Limits::ATTEMPTS_DEFAULT)?,
            lease: heartbeat.map_or(claim.lease, row::duration),
            heartbeat_timeout: heartbeat.map(row::duration),
            timeout: row.try_get::<_, Option<i64>>(10)?.map(row::duration),
            checkpoint: row.try_get::<_, Option<&[u8]>>(11)?.map(Bytes::copy_from_slice),
            traceparent: row.try_get(12)?,
            exclusive: row.try_get::<_, Option<bool>>(13)?.unwrap_or(false),
            waited: Duration::from_millis(waited.max(0) as u64),
        };
        Ok(Some((waited, claimed)))
    };
    let claimed = rows.iter().map(read).filter_map(Result::transpose);
    let mut claimed: Vec<(i64, Claimed)> = claimed.collect::<Result<_, Trouble>>()?;
    // An update returns its rows in whatever order it met them; mostly in this one.
    claimed.sort_by_key(|(waited, job)| (Reverse(job.priority), Reverse(*waited), job.hold.job));
    Ok(claimed.into_iter().map(|(_, job)| job).collect())
}
