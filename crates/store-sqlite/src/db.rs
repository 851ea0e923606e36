//! A connection and the text of its statements. All SQL that runs goes through [`Db`], so that the mutation check can
//! rewrite it.

use std::borrow::Cow;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection};

use crate::{
    blob, books, cancel, check, claim, counts, enqueue, finish, purge, queues, read, reap, redrive, renew,
    search, succeed, time, workers,
};

/// Prepared statements kept per connection; more than we have.
const STATEMENTS_CACHED_MAX: usize = 256;

/// Every statement, or the parts of those that are put together.
const ALL_STATEMENTS: &[&[&str]] = &[
    blob::STATEMENTS,
    books::STATEMENTS,
    cancel::STATEMENTS,
    check::STATEMENTS,
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
    search::STATEMENTS,
    succeed::STATEMENTS,
    time::STATEMENTS,
    workers::STATEMENTS,
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

#[cfg(test)]
mod tests {
    use model::State;

    use super::*;
    use crate::{migrate, row, search};

    /// The steps of a statement's plan that go through all jobs or all holders.
    fn scans(connection: &Connection, sql: &str) -> Vec<String> {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = explain.raw_query();
        let mut scans = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            let table = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            let is_large = matches!(table, Some("jobs" | "j" | "holders" | "h" | "r" | "s"));
            // An index of one state has only those in that state.
            let is_partial = step.contains("INDEX jobs_") || step.contains("INDEX holders_");
            // Jobs that are named are looked up one by one, not sought among all that a holder has.
            let is_sought =
                sql.contains("json_each") && step.starts_with("SEARCH j ") && !step.contains("(id=?)");
            if (is_large && !is_partial) || is_sought {
                scans.push(format!("{step}: {sql}"));
            }
        }
        scans
    }

    #[test]
    fn no_statement_goes_through_all_jobs_or_holders_but_the_list_by_id() {
        let connection = Connection::open_in_memory().unwrap();
        for step in migrate::migrations() {
            connection.execute_batch(step.sql).unwrap();
        }
        reap::register_functions(&connection).unwrap();
        let mut statements: Vec<String> =
            ALL_STATEMENTS.iter().flat_map(|file| file.iter()).map(|sql| (*sql).to_owned()).collect();
        statements.retain(|sql| !sql.contains('{'));
        statements.extend([1, 3].map(claim::compose));
        statements.push(row::with_columns(read::GET));
        statements.push(row::with_columns(&search::of_states(search::LIST_BY_STATE, &State::ALL)));
        statements.push(search::of_states(search::ENDED, &State::ALL));
        let scanning: Vec<String> = statements.iter().flat_map(|sql| scans(&connection, sql)).collect();
        assert_eq!(scanning, Vec::<String>::new());

        let by_id = scans(&connection, &row::with_columns(search::LIST_BY_ID));
        assert!(by_id[0].starts_with("SCAN jobs USING INDEX sqlite_autoindex_jobs_1"), "{by_id:?}");
    }
}
