//! Who may hold jobs: `enlist`, `retire`, `readmit`, and the questions `roster`, `worker` and `unreaped`.
//!
//! A holder is enlisted if its row has a nonce, and terminal if it has an end. A server that enlists or retires someone
//! keeps its own registry from being taken over until that is committed: whoever takes over then sees them all.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{HolderEnd, Nonce, RegistryId, WorkerKey};
use store::{Enlist, EnlistAnswer, KnownWorker};
use tokio_postgres::Row;

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row;

/// Waits for a take-over that is under way, and makes the next one wait for us; beats do neither.
const KEEP_REGISTRIES: &str = "
    SELECT id FROM tenure.registries WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE";

/// $1 keys, $2 nonces, $3 registries, $4 who pings, $5 grants, $6 names.
const ENLIST: &str = "
    INSERT INTO tenure.holders AS h (key, nonce, registry, pings, grant_us, name)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::boolean[], $5::bigint[], $6::bytea[])
        AS new (key, nonce, registry, pings, grant_us, name)
    WHERE EXISTS (SELECT 1 FROM tenure.registries r WHERE r.id = new.registry)
    ORDER BY key
    ON CONFLICT (key) DO UPDATE SET grant_us = greatest(h.grant_us, excluded.grant_us)
    WHERE h.retired_at IS NULL AND h.nonce = excluded.nonce AND h.pings = excluded.pings
      AND h.registry = excluded.registry
    RETURNING key";

/// Why someone was not enlisted.
const REFUSED: &str = "
    SELECT key, ended, nonce, pings, registry FROM tenure.holders WHERE key = ANY ($1)";

/// $1 key, $2 registry, $3 how.
const RETIRE: &str = "
    INSERT INTO tenure.holders AS h (key, registry, retired_at, ended)
    SELECT $1::text, id, WALL_NOW, $3::smallint FROM tenure.registries WHERE id = $2
    ON CONFLICT (key) DO UPDATE SET retired_at = excluded.retired_at, ended = excluded.ended
    WHERE h.retired_at IS NULL AND h.registry = excluded.registry";

/// $1 key, $2 registry. One that ended may have stayed in a registry that was taken over; it is then anybody's.
const IS_RETIRED: &str = "
    SELECT 1 FROM tenure.holders h
    WHERE h.key = $1 AND h.retired_at IS NOT NULL AND (h.registry IS NOT DISTINCT FROM $2
        OR NOT EXISTS (SELECT 1 FROM tenure.registries r WHERE r.id = h.registry))
      AND EXISTS (SELECT 1 FROM tenure.registries r WHERE r.id = $2)";

/// $1 key, $2 registry, $3 the end that is forgiven. As in [`IS_RETIRED`]; nobody takes the registry over meanwhile.
const READMIT: &str = "
    WITH ours AS MATERIALIZED (SELECT id FROM tenure.registries WHERE id = $2 FOR KEY SHARE)
    UPDATE tenure.holders h SET retired_at = NULL, ended = NULL, registry = ours.id
    FROM ours
    WHERE h.key = $1 AND h.nonce IS NOT NULL AND h.pings AND h.ended = $3
      AND (h.registry IS NOT DISTINCT FROM $2
           OR NOT EXISTS (SELECT 1 FROM tenure.registries r WHERE r.id = h.registry))
      AND NOT EXISTS (SELECT 1 FROM tenure.jobs WHERE state = 2 AND holder = $1)";

const ROSTER: &str = "
    SELECT key, nonce, registry, pings, grant_us, name FROM tenure.holders
    WHERE registry = $1 AND nonce IS NOT NULL AND retired_at IS NULL ORDER BY key COLLATE \"C\"";

const WORKER: &str = "
    SELECT key, nonce, registry, pings, grant_us, name, ended, retired_at FROM tenure.holders WHERE key = $1";

/// $1 registry. Those who hold something first: there are fewer of them than of those who ended.
const UNREAPED: &str = "
    SELECT h.key, h.ended FROM (SELECT DISTINCT holder FROM tenure.jobs WHERE state = 2) AS held
        JOIN tenure.holders h ON h.key = ANY (ARRAY[held.holder])
    WHERE h.registry = $1 AND h.retired_at IS NOT NULL ORDER BY h.key COLLATE \"C\"";

pub(crate) const STATEMENTS: &[&str] =
    &[KEEP_REGISTRIES, ENLIST, REFUSED, RETIRE, IS_RETIRED, READMIT, ROSTER, WORKER, UNREAPED];

/// See [`store::JobStore::enlist`].
pub(crate) struct EnlistWorkers(pub(crate) Vec<Enlist>);

impl Verb for EnlistWorkers {
    type Answer = Vec<EnlistAnswer>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<EnlistAnswer>, Trouble> {
        let mut registries: Vec<i32> = self.0.iter().map(|worker| row::registry(worker.registry)).collect();
        registries.sort_unstable();
        registries.dedup();
        let rows = tx.query(KEEP_REGISTRIES, &[&registries]).await?;
        let there = rows.iter().map(|row| Ok(row::registry_id(row.try_get(0)?)));
        let there = there.collect::<Result<HashSet<RegistryId>, Trouble>>()?;
        let mut answers = vec![EnlistAnswer::Known; self.0.len()];
        // One statement takes each key once; a key that is named again has its turn afterwards.
        let mut waiting: Vec<usize> = (0..self.0.len()).collect();
        while !waiting.is_empty() {
            let mut round = BTreeMap::new();
            waiting.retain(|place| {
                let key = self.0[*place].key.as_str();
                let is_again = round.contains_key(key);
                round.entry(key).or_insert(*place);
                is_again
            });
            let places: Vec<usize> = round.into_values().collect();
            for (place, known) in self.enlist(tx, &places).await? {
                answers[place] = refusal(&self.0[place], known, &there)?;
            }
        }
        Ok(answers)
    }
}

impl EnlistWorkers {
    /// Enlists the workers at these places. Answers which were refused, with what there is under their keys.
    async fn enlist(&self, tx: &Tx<'_>, places: &[usize]) -> Result<Vec<(usize, Option<Row>)>, Trouble> {
        let workers: Vec<&Enlist> = places.iter().map(|place| &self.0[*place]).collect();
        let keys: Vec<&str> = workers.iter().map(|worker| worker.key.as_str()).collect();
        let nonces: Vec<i64> = workers.iter().map(|worker| worker.nonce.get() as i64).collect();
        let registries: Vec<i32> = workers.iter().map(|worker| row::registry(worker.registry)).collect();
        let pings: Vec<bool> = workers.iter().map(|worker| worker.pings).collect();
        let grants: Vec<i64> = workers.iter().map(|worker| row::micros(worker.grant)).collect();
        let names: Vec<&[u8]> = workers.iter().map(|worker| worker.name.as_bytes()).collect();
        let rows = tx.query(ENLIST, &[&keys, &nonces, &registries, &pings, &grants, &names]).await?;
        let known = rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<&str>, _>>()?;
        let refused: Vec<usize> =
            places.iter().copied().filter(|place| !known.contains(self.0[*place].key.as_str())).collect();
        if refused.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<&str> = refused.iter().map(|place| self.0[*place].key.as_str()).collect();
        let mut there = HashMap::new();
        for row in tx.query(REFUSED, &[&keys]).await? {
            there.insert(row.try_get::<_, String>(0)?, row);
        }
        Ok(refused.into_iter().map(|place| (place, there.remove(self.0[place].key.as_str()))).collect())
    }
}

/// Why this worker was not enlisted: what there is under its key, and which of the registries are there.
fn refusal(
    worker: &Enlist,
    known: Option<Row>,
    there: &HashSet<RegistryId>,
) -> Result<EnlistAnswer, Trouble> {
    let end_number = match &known {
        Some(row) => row.try_get::<_, Option<i16>>(1)?,
        None => None,
    };
    if let Some(number) = end_number {
        return Ok(EnlistAnswer::Terminal(end(number)?));
    }
    let Some(row) = known.filter(|_| there.contains(&worker.registry)) else {
        return Ok(EnlistAnswer::Disowned);
    };
    let (nonce, pings): (i64, bool) = (row.try_get(2)?, row.try_get(3)?);
    if (nonce, pings) != (worker.nonce.get() as i64, worker.pings) {
        return Ok(EnlistAnswer::Taken);
    }
    Ok(EnlistAnswer::Elsewhere(row::registry_id(row.try_get(4)?)))
}

/// See [`store::JobStore::retire`].
pub(crate) struct Retire {
    pub(crate) holder: WorkerKey,
    pub(crate) end: HolderEnd,
    pub(crate) by: RegistryId,
}

impl Verb for Retire {
    type Answer = bool;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<bool, Trouble> {
        let (key, registry) = (self.holder.as_str(), row::registry(self.by));
        tx.query(KEEP_REGISTRIES, &[&vec![registry]]).await?;
        tx.execute(RETIRE, &[&key, &registry, &(self.end as i16)]).await?;
        Ok(!tx.query(IS_RETIRED, &[&key, &registry]).await?.is_empty())
    }
}

/// See [`store::JobStore::readmit`].
pub(crate) struct Readmit {
    pub(crate) holder: WorkerKey,
    pub(crate) registry: RegistryId,
}

impl Verb for Readmit {
    type Answer = ();
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<(), Trouble> {
        let (key, registry) = (self.holder.as_str(), row::registry(self.registry));
        tx.execute(READMIT, &[&key, &registry, &(HolderEnd::Silent as i16)]).await?;
        Ok(())
    }
}

/// See [`store::JobStore::roster`].
pub(crate) struct Roster(pub(crate) RegistryId);

impl Verb for Roster {
    type Answer = Vec<Enlist>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Enlist>, Trouble> {
        tx.query(ROSTER, &[&row::registry(self.0)]).await?.iter().map(read).collect()
    }
}

/// See [`store::JobStore::worker`].
pub(crate) struct FindWorker(pub(crate) WorkerKey);

impl Verb for FindWorker {
    type Answer = Option<KnownWorker>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Option<KnownWorker>, Trouble> {
        let Some(row) = tx.query_opt(WORKER, &[&self.0.as_str()]).await? else {
            return Ok(None);
        };
        let ended = match row.try_get(6)? {
            Some(number) => Some((end(number)?, row::wall_time(row.try_get(7)?))),
            None => None,
        };
        Ok(Some(KnownWorker { worker: read(&row)?, ended }))
    }
}

/// See [`store::JobStore::unreaped`].
pub(crate) struct FindUnreaped(pub(crate) RegistryId);

impl Verb for FindUnreaped {
    type Answer = Vec<(WorkerKey, HolderEnd)>;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<(WorkerKey, HolderEnd)>, Trouble> {
        let rows = tx.query(UNREAPED, &[&row::registry(self.0)]).await?;
        rows.iter()
            .map(|row| Ok((row::valid(WorkerKey::new(row.try_get(0)?))?, end(row.try_get(1)?)?)))
            .collect()
    }
}

/// A worker from its first six columns; one that was never enlisted has only its key and who retired it.
pub(crate) fn read(row: &Row) -> Result<Enlist, Trouble> {
    let nonce: Option<i64> = row.try_get(1)?;
    Ok(Enlist {
        key: row::valid(WorkerKey::new(row.try_get(0)?))?,
        nonce: Nonce::new(nonce.unwrap_or_default() as u64),
        registry: row::registry_id(row.try_get(2)?),
        pings: row.try_get(3)?,
        grant: row::duration(row.try_get::<_, Option<i64>>(4)?.unwrap_or_default()),
        name: String::from_utf8_lossy(row.try_get::<_, Option<&[u8]>>(5)?.unwrap_or_default()).into_owned(),
    })
}

fn end(number: i16) -> Result<HolderEnd, Trouble> {
    let end = u8::try_from(number).ok().and_then(HolderEnd::from_number);
    end.ok_or_else(|| Trouble::Damaged(format!("there is no end {number} of a holder")))
}
