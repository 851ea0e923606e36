//! What the writer remembers between transactions: queues and holders by their numbers, claims it made, and the moves
//! of the running transaction. All of it is a copy of the file and is thrown away when a transaction is rolled back.

use std::collections::HashMap;

use model::{Fence, Hold, JobId, QueueName, QueueSettings, WallTime, WorkerKey};
use rusqlite::OptionalExtension;

use crate::counts::Moves;
use crate::db::Db;
use crate::error::Trouble;
use crate::row;

const QUEUES: &str = "
    SELECT no, name, paused, exclusive, heartbeat_us, max_attempts, retry, volatile FROM queues";

const CREATE_QUEUE: &str = "INSERT INTO queues (name) VALUES (?1)";

const HOLDER: &str = "SELECT no FROM holders WHERE key = ?1";

const CREATE_HOLDER: &str = "INSERT INTO holders (key) VALUES (?1)";

pub(crate) const STATEMENTS: &[&str] = &[QUEUES, CREATE_QUEUE, HOLDER, CREATE_HOLDER];

/// Most holders remembered; at that many all are forgotten and looked up again.
const HOLDERS_REMEMBERED_MAX: usize = 1 << 16;

/// Most claims remembered; those beyond are looked up when they end.
const CLAIMS_REMEMBERED_MAX: usize = 1 << 17;

/// No holder has this number, so nothing is held by it.
pub(crate) const NOBODY: i64 = 0;

/// See the module.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) moves: Moves,
    /// A lease or fence was stamped in this transaction, so the lease clock must be kept.
    pub(crate) stamped: bool,
    queues: HashMap<QueueName, i64>,
    queues_by_no: HashMap<i64, Queue>,
    holders: HashMap<WorkerKey, i64>,
    claims: HashMap<JobId, Claim>,
}

/// What does not change while a claim stands.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) no: i64,
    pub(crate) queue: i64,
    pub(crate) fence: Fence,
    pub(crate) started_at: WallTime,
}

/// A queue as the file has it.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) settings: QueueSettings,
}

impl Books {
    /// Reads the queues; holders are read when they turn up.
    pub(crate) fn load(db: &Db) -> Result<Self, Trouble> {
        let mut books = Books::default();
        let mut select = db.prepare(QUEUES)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let name: QueueName =
                row::valid(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?.parse())?;
            books.note_queue(row.get(0)?, name, row::settings(row, 2)?);
        }
        Ok(books)
    }

    /// Remembers a queue or its new settings.
    pub(crate) fn note_queue(&mut self, no: i64, name: QueueName, settings: QueueSettings) {
        self.queues.insert(name.clone(), no);
        self.queues_by_no.insert(no, Queue { name, settings });
    }

    /// The queue's number, if it exists.
    pub(crate) fn queue_no(&self, name: &QueueName) -> Option<i64> {
        self.queues.get(name).copied()
    }

    /// The queue with this number.
    pub(crate) fn queue(&self, no: i64) -> Result<&Queue, Trouble> {
        self.queues_by_no.get(&no).ok_or_else(|| Trouble::Damaged(format!("there is no queue {no}")))
    }

    /// Creates a queue and answers its number.
    pub(crate) fn create_queue(&mut self, db: &Db, name: &QueueName) -> Result<i64, Trouble> {
        let no = db.prepare(CREATE_QUEUE)?.insert([name.as_str()])?;
        self.note_queue(no, name.clone(), QueueSettings::default());
        Ok(no)
    }

    /// The holder's number, or [`NOBODY`].
    pub(crate) fn holder_no(&mut self, db: &Db, holder: &WorkerKey) -> Result<i64, Trouble> {
        if let Some(no) = self.holders.get(holder) {
            return Ok(*no);
        }
        let no = db.prepare(HOLDER)?.query_row([holder.as_str()], |row| row.get(0)).optional()?;
        if let Some(no) = no {
            self.note_holder(holder, no);
        }
        Ok(no.unwrap_or(NOBODY))
    }

    /// The holder's number, given now if it has none.
    pub(crate) fn holder_no_or_create(&mut self, db: &Db, holder: &WorkerKey) -> Result<i64, Trouble> {
        let known = self.holder_no(db, holder)?;
        if known != NOBODY {
            return Ok(known);
        }
        let no = db.prepare(CREATE_HOLDER)?.insert([holder.as_str()])?;
        self.note_holder(holder, no);
        Ok(no)
    }

    /// Forgets a holder whose row is gone: its number may be given to another.
    pub(crate) fn forget_holder(&mut self, holder: &WorkerKey) {
        self.holders.remove(holder);
    }

    /// Remembers a claim, so that its end need not look it up.
    pub(crate) fn note_claim(&mut self, job: JobId, claim: Claim) {
        if self.claims.len() < CLAIMS_REMEMBERED_MAX {
            self.claims.insert(job, claim);
        }
    }

    /// The claim, if it is remembered.
    pub(crate) fn claim(&self, hold: Hold) -> Option<Claim> {
        self.claims.get(&hold.job).filter(|claim| claim.fence == hold.fence).copied()
    }

    /// Forgets the claim of a job that does not run any more.
    pub(crate) fn forget_claim(&mut self, job: JobId) {
        self.claims.remove(&job);
    }

    fn note_holder(&mut self, holder: &WorkerKey, no: i64) {
        if self.holders.len() >= HOLDERS_REMEMBERED_MAX {
            self.holders.clear();
        }
        self.holders.insert(holder.clone(), no);
    }
}
