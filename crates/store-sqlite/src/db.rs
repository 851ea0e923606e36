//! A connection and the text of its statements. All SQL that runs goes through [`Db`], so that the mutation check can
//! rewrite it.

use std::borrow::Cow;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection};

use crate::{
    blob, books, cancel, claim, counts, enqueue, finish, purge, queues, read, reap, redrive, renew, time,
};

/// Prepared statements kept per connection; more than we have.
const STATEMENTS_CACHED_MAX: usize = 256;

/// Every statement, or the parts of those that are put together.
const ALL_STATEMENTS: &[&[&str]] = &[
    blob::STATEMENTS,
    books::STATEMENTS,
    cancel::STATEMENTS,
    claim::STATEMENTS,
    counts::STATEMENTS,
    enqueue::STATEMENTS,
    finish::STATEMENTS,
    purge::STATEMENTS,
    queues::STATEMENTS,
    read::STATEMENTS,
    reap::STATEMENTS,
    redrive::STATEMENTS,
    renew::STATEMENTS,
    time::STATEMENTS,
];

/// A connection.
pub(crate) struct Db {
    pub(crate) connection: Connection,
    mutations: Mutations,
}

impl Db {
    pub(crate) fn new(connection: Connection, mutations: Mutations) -> rusqlite::Result<Self> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
        // Otherwise SQLite plans a statement anew whenever a limit changes, which cost each claim 70 µs.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Db { connection, mutations })
    }

    /// The statement, prepared once per connection.
    pub(crate) fn prepare(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(&self.mutations.apply(sql))
    }
}

/// Replacements in the text of statements. Empty outside the mutation check.
#[derive(Clone, Default)]
pub(crate) struct Mutations(Vec<(String, String)>);

impl Mutations {
    /// Panics if a fragment occurs in no statement: the mutation would then prove nothing.
    pub(crate) fn new(replacements: &[(&str, &str)]) -> Self {
        for (from, _) in replacements {
            let occurs = ALL_STATEMENTS.iter().flat_map(|file| file.iter()).any(|sql| sql.contains(from));
            assert!(occurs, "no statement contains {from:?}");
        }
        Mutations(replacements.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect())
    }

    fn apply<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(sql);
        for (from, to) in &self.0 {
            if text.contains(from) {
                text = Cow::Owned(text.replace(from, to));
            }
        }
        text
    }
}
