//! Payloads and checkpoints that are too large for the job's row.
//!
//! SQLite writes a row anew at every change of state. With 4,000 bytes in it, claiming and finishing ran at 34,000 jobs
//! a second; with the bytes apart, at 100,000. So a column holds either the bytes or the number of a row in `blobs`.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql, params};

use crate::db::Db;
use crate::error::Trouble;

/// Up to here the bytes stay in the job's row. At this size a job costs the same over its life either way.
const INLINE_BYTES_MAX: usize = 256;

const INSERT: &str = "INSERT INTO blobs (bytes) VALUES (?1)";

const SELECT: &str = "SELECT bytes FROM blobs WHERE no = ?1";

const DELETE: &str = "DELETE FROM blobs WHERE no = ?1";

pub(crate) const STATEMENTS: &[&str] = &[INSERT, SELECT, DELETE];

/// What a column holds.
#[derive(Clone, Copy)]
pub(crate) enum Stored<'a> {
    Inline(&'a [u8]),
    Apart(i64),
}

impl ToSql for Stored<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Stored::Inline(bytes) => ValueRef::Blob(bytes),
            Stored::Apart(no) => ValueRef::Integer(no),
        }))
    }
}

/// Stores the bytes where they belong.
pub(crate) fn put<'a>(db: &Db, bytes: &'a [u8]) -> Result<Stored<'a>, Trouble> {
    if bytes.len() <= INLINE_BYTES_MAX {
        return Ok(Stored::Inline(bytes));
    }
    let no = db.prepare(INSERT)?.insert(params![bytes])?;
    Ok(Stored::Apart(no))
}

/// Takes back what [`put`] stored, if it is not used after all.
pub(crate) fn take_back(db: &Db, stored: Stored<'_>) -> Result<(), Trouble> {
    match stored {
        Stored::Inline(_) => Ok(()),
        Stored::Apart(no) => remove(db, no),
    }
}

/// The bytes of a column, wherever they are.
pub(crate) fn get(db: &Db, row: &Row<'_>, column: usize) -> Result<Option<Bytes>, Trouble> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(no) => {
            let mut select = db.prepare(SELECT)?;
            let bytes =
                select.query_row([no], |row| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?)))?;
            Ok(Some(bytes))
        }
        value => Ok(Some(Bytes::copy_from_slice(value.as_blob().map_err(rusqlite::Error::from)?))),
    }
}

/// Removes a row of `blobs`.
pub(crate) fn remove(db: &Db, no: i64) -> Result<(), Trouble> {
    db.prepare(DELETE)?.execute([no])?;
    Ok(())
}
