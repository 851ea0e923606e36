//! How holders get jobs.
//!
//! The statement looks at the head of each queue's index of available jobs and nowhere else, so its cost depends
//! neither on the backlog nor on what is scheduled for later. Each claim mints a fence that is above the job's last
//! one and not below the lease clock, so it also grows when an id is used again after retention.

use std::sync::OnceLock;

use model::{Fence, Hold, Kind, Limits, State};
use rusqlite::{ToSql, params, params_from_iter};
use store::{Claim, Claimed};

use crate::blob;
use crate::books;
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// The head of one queue. ?1 holder, ?2 lease clock, ?3 limit, ?4 whether exclusive queues give to it, then one
/// parameter for each queue.
const PICK: &str = "
    SELECT no, max(fence + 1, ?2), id, queue, kind, payload, content_type, priority, attempt + 1, max_attempts,
        heartbeat_us, timeout_us, checkpoint, traceparent, run_at
    FROM jobs INDEXED BY jobs_available
    WHERE state = 1 AND queue = ?{queue}
      AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.no = ?{queue} AND (q.paused OR (q.exclusive AND NOT ?4)))
      AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.no = ?1 AND h.retired_at IS NOT NULL)
    ORDER BY priority DESC, jobs.run_at, jobs.id LIMIT ?3";

/// The heads of several queues, of which the best are taken.
const PICK_OF_SEVERAL: &str = "SELECT * FROM ({heads}) ORDER BY priority DESC, run_at, id LIMIT ?3";

const TAKE: &str = "
    UPDATE jobs
    SET state = 2, holder = ?2, fence = ?3, attempt = attempt + 1, started_at = ?4, granted_us = ?5, lease_until = ?6,
        adopted = 0, exclusive = ?7
    WHERE no = ?1 AND state = 1";

pub(crate) const STATEMENTS: &[&str] = &[PICK, PICK_OF_SEVERAL, TAKE];

/// Parameters before those of the queues.
const PARAMETERS_BEFORE_QUEUES: usize = 4;

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
        let (lease_now, wall_now) = (tx.now.lease, tx.now.wall);
        let fixed = [holder, lease_now.as_micros(), row::limit(claim.limit), i64::from(claim.exclusive)];
        let parameters = fixed.iter().chain(&queues).map(|number| number as &dyn ToSql);
        let mut pick = db.prepare(&statement(queues.len()))?;
        let mut take = db.prepare(TAKE)?;
        let mut rows = pick.query(params_from_iter(parameters))?;
        let mut picked = Vec::new();
        let mut kind: Option<Kind> = None;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let queue_no = row.get(3)?;
            let queue = tx.books.queue(queue_no)?;
            let text = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
            // Neighbours are mostly of one kind; its name is then shared.
            let kind = match &kind {
                Some(same) if same.as_str() == text => same.clone(),
                _ => kind.insert(row::valid(text.parse())?).clone(),
            };
            let own = row.get::<_, Option<i64>>(10)?.map(row::duration);
            let heartbeat_timeout = own.or(queue.settings.heartbeat_timeout);
            let job = Claimed {
                hold: Hold { fence: Fence::new(row.get(1)?), job: row::job_id(row, 2)? },
                queue: queue.name.clone(),
                kind,
                payload: blob::get(db, row, 5)?.unwrap_or_default(),
                content_type: row::content_type(row, 6)?,
                priority: row.get(7)?,
                attempt: row.get(8)?,
                max_attempts: row.get(9)?,
                lease: heartbeat_timeout.unwrap_or(claim.lease),
                heartbeat_timeout,
                timeout: row.get::<_, Option<i64>>(11)?.map(row::duration),
                checkpoint: blob::get(db, row, 12)?,
                traceparent: row.get(13)?,
                exclusive: queue.settings.exclusive,
                waited: wall_now.since(row::wall_time(row.get(14)?)),
            };
            bytes += job.bytes();
            picked.push((row.get(0)?, queue_no, job));
            // Nothing more is read; only of several queues, SQLite has sorted the heads, without the bytes kept apart.
            if bytes >= claim.bytes_max {
                break;
            }
        }
        drop(rows);
        let mut taken = Vec::with_capacity(picked.len());
        for (no, queue, job) in picked {
            let until = (lease_now + job.lease).as_micros();
            let Hold { job: id, fence } = job.hold;
            let (started_at, granted) = (wall_now.as_millis(), row::micros(job.lease));
            let parameters = params![no, holder, fence.get(), started_at, granted, until, job.exclusive];
            if take.execute(parameters)? == 1 {
                tx.books.moves.shift(queue, State::Available, State::Running);
                tx.books.note_claim(id, books::Claim { no, queue, fence, started_at: wall_now });
                taken.push(job);
            }
        }
        tx.books.stamped |= !taken.is_empty();
        Ok(taken)
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

pub(crate) fn compose(queues: usize) -> String {
    let head = |template: &str, place: usize| {
        template.replace("{queue}", &(PARAMETERS_BEFORE_QUEUES + 1 + place).to_string())
    };
    if queues == 1 {
        return head(PICK, 0);
    }
    let heads: Vec<String> =
        (0..queues).map(|place| format!("SELECT * FROM ({})", head(PICK, place))).collect();
    PICK_OF_SEVERAL.replace("{heads}", &heads.join(" UNION ALL "))
}
