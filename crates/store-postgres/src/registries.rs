//! Servers and their registries: `found`, `beat`, `take_over`, `resign`.
//!
//! A registry is there as long as its row is. Its id comes from a sequence and is never given twice, so that the row's
//! being there is all that its owner's writes have to check.

use model::RegistryId;
use store::{Enlist, Peer, ServerInfo};

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::{row, workers};

const FOUND: &str = "INSERT INTO tenure.registries (name, address) VALUES ($1, $2) RETURNING id";

/// Our own row comes from the write itself: if that changed nothing, it is not in the answer.
const BEAT: &str = "
    WITH beaten AS (
        UPDATE tenure.registries SET beats = beats + 1 WHERE id = $1 RETURNING id, name, address, beats, resigned
    )
    SELECT id, name, address, beats, resigned FROM beaten
    UNION ALL
    SELECT id, name, address, beats, resigned FROM tenure.registries WHERE id <> $1
    ORDER BY id";

const RESIGN: &str = "UPDATE tenure.registries SET resigned = true WHERE id = $1";

/// Our own registry may beat meanwhile, but nobody can take it.
const KEEP_OURS: &str = "SELECT id FROM tenure.registries WHERE id = $1 FOR KEY SHARE";

/// $1 which, $2 how often it had beaten when it was seen. Waits for whoever enlists or beats in it.
const LOCK_FROM: &str = "SELECT id FROM tenure.registries WHERE id = $1 AND beats = $2 FOR UPDATE";

/// $1 from, $2 to, $3 how many who ended. Everyone who lives, and of those who ended all who still hold something, which only
/// their owner can take back, and the latest. There may be a whole day's of the others: they stay where they were, in a
/// registry that is not there any more, which for them is the same as any.
const MOVE: &str = "
    WITH everyone AS MATERIALIZED (
        SELECT key FROM tenure.holders WHERE registry = $1 AND retired_at IS NULL
        UNION
        SELECT h.key FROM (SELECT DISTINCT holder FROM tenure.jobs WHERE state = 2) AS held
            JOIN tenure.holders h ON h.key = ANY (ARRAY[held.holder])
        WHERE h.registry = $1
        UNION
        (SELECT key FROM tenure.holders WHERE registry = $1 AND retired_at IS NOT NULL
         ORDER BY retired_at DESC LIMIT $3)
    )
    UPDATE tenure.holders h SET registry = $2
    FROM (SELECT key FROM everyone ORDER BY key) AS everyone WHERE h.key = ANY (ARRAY[everyone.key])
    RETURNING h.key, h.nonce, h.registry, h.pings, h.grant_us, h.name, h.retired_at IS NULL";

/// Their jobs may be lost by the absence of their server; that is then not counted against them. $1 holders. A job that someone
/// has locked is being claimed, renewed or finished, and is left out: its loss would count, but a server that froze in the
/// middle must not hold up the others.
const ADOPT: &str = "
    WITH held AS MATERIALIZED (
        SELECT id, holder FROM tenure.jobs WHERE state = 2 AND holder = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE tenure.jobs j SET adopted = true
    FROM (SELECT id, holder FROM held ORDER BY id) AS held
    WHERE j.id = ANY (ARRAY[held.id]) AND (j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, held.holder)";

const END: &str = "DELETE FROM tenure.registries WHERE id = $1";

/// How many of those who ended move with the living.
const ENDED_MOVED_MAX: i64 = 1_000;

pub(crate) const STATEMENTS: &[&str] = &[FOUND, BEAT, RESIGN, KEEP_OURS, LOCK_FROM, MOVE, ADOPT, END];

/// See [`store::JobStore::found`].
pub(crate) struct Found(pub(crate) ServerInfo);

impl Verb for Found {
    type Answer = RegistryId;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<RegistryId, Trouble> {
        let row = tx.query_one(FOUND, &[&self.0.name, &self.0.address]).await?;
        Ok(row::registry_id(row.try_get(0)?))
    }
}

/// See [`store::JobStore::beat`].
pub(crate) struct Beat(pub(crate) RegistryId);

impl Verb for Beat {
    type Answer = Option<Vec<Peer>>;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Option<Vec<Peer>>, Trouble> {
        let mut peers = Vec::new();
        for row in tx.query(BEAT, &[&row::registry(self.0)]).await? {
            peers.push(Peer {
                registry: row::registry_id(row.try_get(0)?),
                server: ServerInfo { name: row.try_get(1)?, address: row.try_get(2)? },
                beats: row.try_get::<_, i64>(3)? as u64,
                resigned: row.try_get(4)?,
            });
        }
        let is_there = peers.iter().any(|peer| peer.registry == self.0);
        Ok(is_there.then_some(peers))
    }
}

/// See [`store::JobStore::take_over`].
pub(crate) struct TakeOver {
    pub(crate) from: RegistryId,
    pub(crate) beats_seen: u64,
    pub(crate) by: RegistryId,
}

impl Verb for TakeOver {
    type Answer = Option<Vec<Enlist>>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Option<Vec<Enlist>>, Trouble> {
        if self.from == self.by || !self.lock(tx).await? {
            return Ok(None);
        }
        let (from, by) = (row::registry(self.from), row::registry(self.by));
        let rows = tx.query(MOVE, &[&from, &by, &ENDED_MOVED_MAX]).await?;
        let (mut keys, mut living) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            keys.push(row.try_get::<_, &str>(0)?);
            if row.try_get(6)? {
                living.push(workers::read(row)?);
            }
        }
        tx.execute(ADOPT, &[&keys]).await?;
        tx.execute(END, &[&from]).await?;
        living.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Some(living))
    }
}

impl TakeOver {
    /// Locks both registries in the order of their ids, so that two servers which take over each other do not wait for each
    /// other. False if one is not there, or not as it was seen.
    async fn lock(&self, tx: &Tx<'_>) -> Result<bool, Trouble> {
        let (from, by, beats) = (row::registry(self.from), row::registry(self.by), self.beats_seen as i64);
        if by < from && tx.query_opt(KEEP_OURS, &[&by]).await?.is_none() {
            return Ok(false);
        }
        if tx.query_opt(LOCK_FROM, &[&from, &beats]).await?.is_none() {
            return Ok(false);
        }
        Ok(by < from || tx.query_opt(KEEP_OURS, &[&by]).await?.is_some())
    }
}

/// See [`store::JobStore::resign`].
pub(crate) struct Resign(pub(crate) RegistryId);

impl Verb for Resign {
    type Answer = ();
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<(), Trouble> {
        tx.execute(RESIGN, &[&row::registry(self.0)]).await?;
        Ok(())
    }
}
