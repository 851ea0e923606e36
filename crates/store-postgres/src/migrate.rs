//! The schema and how it grows: numbered files, each run in a transaction of its own, noted in `tenure.migrations`.
//!
//! Several servers may start at once: whoever has the lock runs the steps, the others find them done.

use tokio_postgres::{Client, IsolationLevel};

use crate::error::OpenError;
use crate::open::{Connector, refused};

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its place, from 1, without gaps.
    pub number: u32,
    /// What it is about.
    pub name: &'static str,
    /// What it runs.
    pub sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "tenure", sql: include_str!("../migrations/0001_tenure.sql") },
    Migration { number: 2, name: "enqueue", sql: include_str!("../migrations/0002_enqueue.sql") },
];

/// Held while steps are run. The number is ours alone as long as nobody else thinks of it.
const LOCK: &str = "
    SET LOCAL statement_timeout = 0;
    SET LOCAL lock_timeout = '60s';
    SELECT pg_advisory_xact_lock(7453010000000001)";

/// 0: no schema; -1: one that is not ours; -2: texts are kept in a way that cannot hold ours.
const VERSION: &str = "
    SELECT CASE
        WHEN current_setting('server_encoding') <> 'UTF8' THEN -2
        WHEN to_regclass('tenure.migrations') IS NOT NULL THEN 1
        WHEN EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = 'tenure') THEN -1
        ELSE 0 END";

/// Somebody else to whom our schema or anything in it belongs: a role that ours is no member of. A superuser is a member of all.
const OTHER_OWNER: &str = "
    SELECT pg_get_userbyid(o.owner)::text FROM (
        SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'tenure'
        UNION SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'tenure'
        UNION SELECT p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'tenure')
        AS o (owner)
    WHERE NOT pg_has_role(o.owner, 'MEMBER') LIMIT 1";

const LATEST: &str = "SELECT coalesce(max(number), 0) FROM tenure.migrations";

const NOTE: &str = "INSERT INTO tenure.migrations (number, name) VALUES ($1, $2)";

/// All steps this program knows, in order.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

/// The schema of a database; `None` if it has none yet. Changes nothing.
pub async fn schema_version(url: &str) -> Result<Option<u32>, OpenError> {
    let client = Connector::open(url)?.connect_plain().await?;
    let version = version(&client).await?;
    Ok((version > 0).then_some(version))
}

/// Brings a database to the latest schema and answers the steps that were missing. With `dry_run` they are only answered.
/// Servers may be running meanwhile.
pub async fn migrate(url: &str, dry_run: bool) -> Result<Vec<Migration>, OpenError> {
    let mut client = Connector::open(url)?.connect_plain().await?;
    let missing = pending(&client).await?;
    if !dry_run {
        apply(&mut client).await?;
    }
    Ok(missing.to_vec())
}

/// The steps that the database lacks.
pub(crate) async fn pending(client: &Client) -> Result<&'static [Migration], OpenError> {
    missing(version(client).await?)
}

/// Runs the steps that the database lacks.
pub(crate) async fn apply(client: &mut Client) -> Result<(), OpenError> {
    // Most often there is nothing to do, and a role that may not change the schema need not try.
    while !pending(client).await?.is_empty() {
        apply_next(client).await?;
    }
    Ok(())
}

async fn apply_next(client: &mut Client) -> Result<(), OpenError> {
    // Whoever waited for the lock must see what its holder committed. A database may be set to give one snapshot to the whole
    // transaction, which is then from before the wait.
    let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let transaction = begin.start().await.map_err(|error| refused(&error))?;
    transaction.batch_execute(LOCK).await.map_err(|error| refused(&error))?;
    let Some(step) = pending(transaction.client()).await?.first() else {
        return Ok(());
    };
    let run = async {
        transaction.batch_execute(step.sql).await?;
        transaction.execute(NOTE, &[&(step.number as i32), &step.name]).await?;
        transaction.commit().await
    };
    run.await.map_err(|error| refused(&error))
}

fn missing(version: u32) -> Result<&'static [Migration], OpenError> {
    let known = MIGRATIONS.len() as u32;
    if version > known {
        return Err(OpenError::Newer { found: version, known });
    }
    Ok(&MIGRATIONS[version as usize..])
}

async fn version(client: &Client) -> Result<u32, OpenError> {
    let other = client.query_opt(OTHER_OWNER, &[]).await.map_err(|error| refused(&error))?;
    if let Some(row) = other {
        return Err(OpenError::OthersSchema { owner: row.try_get(0).map_err(|error| refused(&error))? });
    }
    let ask = async {
        let has: i32 = client.query_one(VERSION, &[]).await?.try_get(0)?;
        if has != 1 {
            return Ok(has);
        }
        client.query_one(LATEST, &[]).await?.try_get(0)
    };
    let version: i32 = ask.await.map_err(|error| refused(&error))?;
    match version {
        -2 => Err(OpenError::Refused("its encoding is not UTF8; create it with ENCODING 'UTF8'".to_owned())),
        version => u32::try_from(version).map_err(|_| OpenError::NotOurs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_without_gaps() {
        let numbers: Vec<u32> = migrations().iter().map(|step| step.number).collect();
        let expected: Vec<u32> = (1..=numbers.len() as u32).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let known = migrations().len() as u32;
        assert!(missing(known).is_ok_and(<[Migration]>::is_empty));
        assert!(matches!(missing(known + 1), Err(OpenError::Newer { .. })));
    }
}
