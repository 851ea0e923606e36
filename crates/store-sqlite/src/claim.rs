//! How holders get jobs.
//!
//! The statement looks at the head of each queue's index of available jobs and nowhere else, so its cost depends
//! neither on the backlog nor on what is scheduled for later. Each claim mints a fence that is above the job's last
//! one and not below the lease clock, so it also grows when an id is used again after retention.

use std::cmp::Reverse;
use std::sync::OnceLock;

use model::{Fence, Hold, JobId, Kind, Limits, State};
use rusqlite::{ToSql, params_from_iter};
use store::{Claim, Claimed};

use crate::blob;
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// ?1 holder, ?2 lease clock, ?3 wall clock, ?4 lease in µs, ?5 limit, then one parameter for each queue.
const UPDATE: &str = "
    UPDATE jobs
    SET state = 2, holder = ?1, fence = max(fence + 1, ?2), attempt = attempt + 1, started_at = ?3, adopted = 0,
        granted_us = coalesce(lease_us, (SELECT q.lease_us FROM queues q WHERE q.no = queue), ?4),
        lease_until = ?2 + coalesce(lease_us, (SELECT q.lease_us FROM queues q WHERE q.no = queue), ?4)
    WHERE NOT EXISTS (SELECT 1 FROM holders h WHERE h.no = ?1 AND h.retired_at IS NOT NULL)
      AND no IN (";

const HEAD: &str = "
        SELECT no FROM jobs INDEXED BY jobs_available
        WHERE state = 1 AND queue = ?{queue} AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.no = ?{queue} AND q.paused)
        ORDER BY priority DESC, run_at, id LIMIT ?5";

const HEAD_OF_SEVERAL: &str = "
        SELECT * FROM (
            SELECT no, priority, run_at, id FROM jobs INDEXED BY jobs_available
            WHERE state = 1 AND queue = ?{queue} AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.no = ?{queue} AND q.paused)
            ORDER BY priority DESC, run_at, id LIMIT ?5)";

const BEST_OF_SEVERAL: &str = "
        SELECT no FROM ({heads}) ORDER BY priority DESC, run_at, id LIMIT ?5";

const RETURNING: &str = ")
    RETURNING id, fence, queue, kind, payload, content_type, priority, attempt, max_attempts, granted_us, timeout_us,
              checkpoint, traceparent, run_at";

pub(crate) const STATEMENTS: &[&str] = &[UPDATE, HEAD, HEAD_OF_SEVERAL, BEST_OF_SEVERAL, RETURNING];

/// Parameters before those of the queues.
const PARAMETERS_BEFORE_QUEUES: usize = 5;

/// See [`store::JobStore::claim`].
pub(crate) struct ClaimJobs(pub(crate) Claim);

impl Verb for ClaimJobs {
    type Answer = Vec<Claimed>;

    fn jobs(&self) -> usize {
        self.0.limit
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Claimed>, Trouble> {
        let claim = &self.0;
        let mut queues: Vec<i64> = claim.queues.iter().filter_map(|name| tx.books.queue_no(name)).collect();
        queues.sort_unstable();
        queues.dedup();
        if queues.is_empty() || claim.limit == 0 {
            return Ok(Vec::new());
        }
        let db = tx.db;
        let holder = tx.books.holder_no_or_create(db, &claim.holder)?;
        let fixed = [
            holder,
            tx.now.lease.as_micros(),
            tx.now.wall.as_millis(),
            row::micros(claim.lease),
            row::limit(claim.limit),
        ];
        let parameters = fixed.iter().chain(&queues).map(|number| number as &dyn ToSql);
        let mut update = db.prepare(&statement(queues.len()))?;
        let mut rows = update.query(params_from_iter(parameters))?;
        let mut claimed = Vec::new();
        let mut kind: Option<Kind> = None;
        while let Some(row) = rows.next()? {
            let queue = row.get(2)?;
            let run_at = row::wall_time(row.get(13)?);
            let text = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            // Neighbours are mostly of one kind; its name is then shared.
            let kind = match &kind {
                Some(same) if same.as_str() == text => same.clone(),
                _ => kind.insert(row::valid(text.parse())?).clone(),
            };
            let job = Claimed {
                hold: Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.get(1)?) },
                queue: tx.books.queue(queue)?.name.clone(),
                kind,
                payload: blob::get(db, row, 4)?.unwrap_or_default(),
                content_type: row::content_type(row, 5)?,
                priority: row.get(6)?,
                attempt: row.get(7)?,
                max_attempts: row.get(8)?,
                lease: row::duration(row.get(9)?),
                timeout: row.get::<_, Option<i64>>(10)?.map(row::duration),
                checkpoint: blob::get(db, row, 11)?,
                traceparent: row.get(12)?,
                waited: tx.now.wall.since(run_at),
            };
            tx.books.moves.shift(queue, State::Available, State::Running);
            let place = (Reverse(job.priority), run_at, job.hold.job);
            claimed.push((place, job));
        }
        tx.books.stamped |= !claimed.is_empty();
        // The rows come in the order of the table.
        claimed.sort_unstable_by_key(|(place, _): &((Reverse<i16>, _, JobId), _)| *place);
        Ok(claimed.into_iter().map(|(_, job)| job).collect())
    }
}

/// The statement for this many queues. The texts are kept: a worker asks with the same number again and again.
fn statement(queues: usize) -> std::borrow::Cow<'static, str> {
    static TEXTS: [OnceLock<String>; Limits::QUEUES_PER_WORKER_MAX + 1] =
        [const { OnceLock::new() }; Limits::QUEUES_PER_WORKER_MAX + 1];
    match TEXTS.get(queues) {
        Some(text) => text.get_or_init(|| compose(queues)).as_str().into(),
        None => compose(queues).into(),
    }
}

fn compose(queues: usize) -> String {
    let head = |template: &str, place: usize| {
        template.replace("{queue}", &(PARAMETERS_BEFORE_QUEUES + 1 + place).to_string())
    };
    if queues == 1 {
        return format!("{UPDATE}{}{RETURNING}", head(HEAD, 0));
    }
    let heads: Vec<String> = (0..queues).map(|place| head(HEAD_OF_SEVERAL, place)).collect();
    format!("{UPDATE}{}{RETURNING}", BEST_OF_SEVERAL.replace("{heads}", &heads.join(" UNION ALL ")))
}
