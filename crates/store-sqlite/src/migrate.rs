//! The schema and how it grows: numbered files, each run in a transaction of its own, counted by `user_version`.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::OpenError;
use crate::lock::DirLock;
use crate::open::{self, DATABASE_FILE};
use crate::private;

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its place, from 1, without gaps. The file's `user_version` once it has run.
    pub number: u32,
    /// What it is about.
    pub name: &'static str,
    /// What it runs.
    pub sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "jobs", sql: include_str!("../migrations/0001_jobs.sql") },
    Migration { number: 2, name: "workers", sql: include_str!("../migrations/0002_workers.sql") },
    Migration { number: 3, name: "exclusive", sql: include_str!("../migrations/0003_exclusive.sql") },
    Migration { number: 4, name: "registries", sql: include_str!("../migrations/0004_registries.sql") },
    Migration { number: 5, name: "volatile", sql: include_str!("../migrations/0005_volatile.sql") },
];

/// Tells our files from those of other programs: "tenu".
const APPLICATION_ID: i32 = 0x7465_6e75;

/// All steps this program knows, in order.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

/// The schema of the data in a directory; `None` if there is none yet. Changes nothing. It may be in use meanwhile.
pub fn schema_version(dir: &Path) -> Result<Option<u32>, OpenError> {
    let file = dir.join(DATABASE_FILE);
    if !file.exists() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&file, flags)
        .map_err(|error| OpenError::from_sqlite(dir, &file, error))?;
    let version = version(dir, &connection)?;
    Ok((version > 0).then_some(version))
}

/// Brings the data in a directory to the latest schema and answers the steps that were missing. With `dry_run` they
/// are only answered.
pub fn migrate(dir: &Path, dry_run: bool) -> Result<Vec<Migration>, OpenError> {
    let missing = missing(dir, schema_version(dir)?.unwrap_or(0))?;
    if dry_run || missing.is_empty() {
        return Ok(missing.to_vec());
    }
    open::create_dir(dir)?;
    let _lock = DirLock::take(dir)?;
    private::close_to_others(dir)?;
    let mut connection = open::connect(dir)?;
    run_missing(dir, &mut connection)?;
    Ok(missing.to_vec())
}

/// Runs the steps that an open file lacks.
pub(crate) fn run_missing(dir: &Path, connection: &mut Connection) -> Result<(), OpenError> {
    for step in missing(dir, version(dir, connection)?)? {
        run(connection, step)
            .map_err(|error| OpenError::from_sqlite(dir, &dir.join(DATABASE_FILE), error))?;
    }
    Ok(())
}

fn missing(dir: &Path, version: u32) -> Result<&'static [Migration], OpenError> {
    let known = MIGRATIONS.len() as u32;
    if version > known {
        return Err(OpenError::Newer { dir: dir.to_owned(), found: version, known });
    }
    Ok(&MIGRATIONS[version as usize..])
}

fn run(connection: &mut Connection, step: &Migration) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(step.sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", step.number)?;
    transaction.commit()
}

/// The file's schema; 0 if it is empty. Anything that is not ours is refused.
fn version(dir: &Path, connection: &Connection) -> Result<u32, OpenError> {
    let file = dir.join(DATABASE_FILE);
    let look = || -> rusqlite::Result<(u32, i32, i64)> {
        Ok((
            connection.pragma_query_value(None, "user_version", |row| row.get(0))?,
            connection.pragma_query_value(None, "application_id", |row| row.get(0))?,
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        ))
    };
    match look().map_err(|error| OpenError::from_sqlite(dir, &file, error))? {
        (0, 0, 0) => Ok(0),
        (version, APPLICATION_ID, _) => Ok(version),
        _ => Err(OpenError::NotADatabase { file }),
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
    fn a_dry_run_names_the_steps_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(migrate(dir.path(), true).unwrap(), migrations());
        assert_eq!(schema_version(dir.path()).unwrap(), None);
        assert_eq!(migrate(dir.path(), false).unwrap(), migrations());
        let newest = migrations().last().map(|step| step.number);
        assert_eq!(schema_version(dir.path()).unwrap(), newest);
        assert_eq!(migrate(dir.path(), false).unwrap(), []);
    }
}
