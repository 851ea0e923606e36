//! Who may hold jobs: `enlist`, `retire`, `readmit`, and the questions `roster` and `worker`.
//!
//! A holder is enlisted if its row has a nonce, and terminal if it has an end.

use model::{HolderEnd, Nonce, RegistryId, WorkerKey};
use rusqlite::{Row, params};
use store::{Enlist, EnlistAnswer, KnownWorker};

use crate::db::Db;
use crate::error::Trouble;
use crate::reader::Query;
use crate::row;
use crate::time::Now;
use crate::writer::{Tx, Verb};

/// ?1 key, ?2 nonce, ?3 registry, ?4 whether it only pings, ?5 grant, ?6 name.
const ENLIST: &str = "
    INSERT INTO holders (key, nonce, registry, pings, grant_us, name) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (key) DO UPDATE
    SET nonce = excluded.nonce, registry = excluded.registry, pings = excluded.pings,
        name = coalesce(name, excluded.name), grant_us = max(coalesce(grant_us, 0), excluded.grant_us)
    WHERE retired_at IS NULL
      AND (nonce IS NULL
        OR nonce = excluded.nonce AND pings = excluded.pings AND registry = excluded.registry)";

/// Why it was refused. ?1 key, ?2 nonce, ?3 whether it only pings.
const REFUSAL: &str = "SELECT ended, nonce = ?2 AND pings = ?3, registry FROM holders WHERE key = ?1";

/// ?1 key, ?2 wall clock, ?3 how, ?4 by whom.
const RETIRE: &str = "
    INSERT INTO holders (key, retired_at, ended, registry) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (key) DO UPDATE
    SET retired_at = excluded.retired_at, ended = excluded.ended, registry = excluded.registry
    WHERE retired_at IS NULL AND (registry IS NULL OR registry = excluded.registry)";

/// Whether it is this registry's. ?1 key, ?2 registry.
const IS_OURS: &str = "SELECT registry = ?2 FROM holders WHERE key = ?1";

/// ?1 key, ?2 the end that is forgiven, ?3 by whom.
const READMIT: &str = "
    UPDATE holders SET retired_at = NULL, ended = NULL
    WHERE key = ?1 AND pings AND registry = ?3 AND ended = ?2
      AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = holders.no)";

const ROSTER: &str = "
    SELECT key, nonce, registry, pings, grant_us, name FROM holders INDEXED BY holders_active
    WHERE registry = ?1 AND nonce IS NOT NULL AND retired_at IS NULL ORDER BY key";

const WORKER: &str = "
    SELECT key, nonce, registry, pings, grant_us, name, ended, retired_at FROM holders
    WHERE key = ?1 AND (nonce IS NOT NULL OR retired_at IS NOT NULL)";

pub(crate) const STATEMENTS: &[&str] = &[ENLIST, REFUSAL, RETIRE, IS_OURS, READMIT, ROSTER, WORKER];

/// See [`store::JobStore::enlist`].
pub(crate) struct EnlistWorkers(pub(crate) Vec<Enlist>);

impl Verb for EnlistWorkers {
    type Answer = Vec<EnlistAnswer>;

    fn jobs(&self) -> usize {
        self.0.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<EnlistAnswer>, Trouble> {
        self.0.iter().map(|worker| enlist(tx.db, worker)).collect()
    }
}

fn enlist(db: &Db, worker: &Enlist) -> Result<EnlistAnswer, Trouble> {
    let (key, nonce) = (worker.key.as_str(), worker.nonce.get() as i64);
    let known = db.prepare(ENLIST)?.execute(params![
        key,
        nonce,
        worker.registry.0,
        worker.pings,
        row::micros(worker.grant),
        worker.name,
    ])?;
    if known == 1 {
        return Ok(EnlistAnswer::Known);
    }
    let mut select = db.prepare(REFUSAL)?;
    let (ended, is_same, registry): (Option<u8>, Option<bool>, u32) = select
        .query_row(params![key, nonce, worker.pings], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(match ended {
        Some(number) => EnlistAnswer::Terminal(end(number)?),
        None if is_same == Some(true) => EnlistAnswer::Elsewhere(RegistryId(registry)),
        None => EnlistAnswer::Taken,
    })
}

/// See [`store::JobStore::retire`].
pub(crate) struct Retire {
    pub(crate) holder: WorkerKey,
    pub(crate) end: HolderEnd,
    pub(crate) by: RegistryId,
}

impl Verb for Retire {
    type Answer = bool;

    fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Trouble> {
        let (key, now, by) = (self.holder.as_str(), tx.now.wall.as_millis(), self.by.0);
        if tx.db.prepare(RETIRE)?.execute(params![key, now, self.end as u8, by])? == 1 {
            return Ok(true);
        }
        // Terminal already, or another's.
        Ok(tx.db.prepare(IS_OURS)?.query_row(params![key, by], |row| row.get(0))?)
    }
}

/// See [`store::JobStore::readmit`].
pub(crate) struct Readmit {
    pub(crate) holder: WorkerKey,
    pub(crate) registry: RegistryId,
}

impl Verb for Readmit {
    type Answer = ();

    fn run(&self, tx: &mut Tx<'_>) -> Result<(), Trouble> {
        let parameters = params![self.holder.as_str(), HolderEnd::Silent as u8, self.registry.0];
        tx.db.prepare(READMIT)?.execute(parameters)?;
        Ok(())
    }
}

/// See [`store::JobStore::roster`].
pub(crate) struct Roster(pub(crate) RegistryId);

impl Query for Roster {
    type Answer = Vec<Enlist>;

    fn run(&self, db: &Db, _: Now) -> Result<Vec<Enlist>, Trouble> {
        let mut select = db.prepare(ROSTER)?;
        let mut rows = select.query([self.0.0])?;
        let mut workers = Vec::new();
        while let Some(row) = rows.next()? {
            workers.push(read(row)?);
        }
        Ok(workers)
    }
}

/// See [`store::JobStore::worker`].
pub(crate) struct FindWorker(pub(crate) WorkerKey);

impl Query for FindWorker {
    type Answer = Option<KnownWorker>;

    fn run(&self, db: &Db, _: Now) -> Result<Option<KnownWorker>, Trouble> {
        let mut select = db.prepare(WORKER)?;
        let mut rows = select.query([self.0.as_str()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let ended = match row.get(6)? {
            Some(number) => Some((end(number)?, row::wall_time(row.get(7)?))),
            None => None,
        };
        Ok(Some(KnownWorker { worker: read(row)?, ended }))
    }
}

/// A worker from its first six columns; one that was never enlisted has only its key and who retired it.
fn read(row: &Row<'_>) -> Result<Enlist, Trouble> {
    let nonce: Option<i64> = row.get(1)?;
    Ok(Enlist {
        key: row::valid(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?.parse())?,
        nonce: Nonce::new(nonce.unwrap_or_default() as u64),
        registry: RegistryId(row.get(2)?),
        pings: row.get(3)?,
        grant: row::duration(row.get::<_, Option<i64>>(4)?.unwrap_or_default()),
        name: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
    })
}

fn end(number: u8) -> Result<HolderEnd, Trouble> {
    HolderEnd::from_number(number)
        .ok_or_else(|| Trouble::Damaged(format!("there is no end {number} of a holder")))
}
