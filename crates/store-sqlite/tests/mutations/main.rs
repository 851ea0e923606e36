//! Each guard in the SQL is there for a reason: without it, the case of the suite that is about it fails.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use store::JobStore;
use store::conformance::{self, BoxFuture, Harness, TestClock};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

mod jobs;
mod workers;

/// What is done to the statements, and which case must notice.
struct Mutation {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    noticed_by: &'static str,
}

const fn mutation(
    name: &'static str,
    from: &'static str,
    to: &'static str,
    noticed_by: &'static str,
) -> Mutation {
    Mutation { name, from, to, noticed_by }
}

#[test]
fn every_mutation_is_noticed_by_the_case_that_is_about_it() {
    // Every case here is meant to panic; their messages would bury the one that matters.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let passes = |mutation: &Mutation, replacements: Vec<(&'static str, &'static str)>| {
        let case = panic::catch_unwind(|| conformance::case(mutation.noticed_by)).ok()?;
        let harness = Mutated { dir: tempfile::tempdir().unwrap(), replacements };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Some(panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(case.run(harness)))).is_ok())
    };
    let mut wrong = Vec::new();
    for mutation in jobs::MUTATIONS.iter().chain(workers::MUTATIONS) {
        let with_and_without =
            (passes(mutation, vec![(mutation.from, mutation.to)]), passes(mutation, Vec::new()));
        if with_and_without != (Some(false), Some(true)) {
            wrong.push((mutation.name, with_and_without));
        }
    }
    panic::set_hook(loud);
    assert_eq!(wrong, [], "each case must fail with its mutation and pass without");
}

#[test]
#[should_panic(expected = "no statement contains")]
fn mutation_that_changes_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(dir.path());
    let _ = SqliteStore::open_mutated(options, Arc::new(TestClock::new()), &[("no such text", "")]);
}

struct Mutated {
    dir: TempDir,
    replacements: Vec<(&'static str, &'static str)>,
}

impl Harness for Mutated {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let options = SqliteOptions { fsync: false, ..SqliteOptions::new(self.dir.path()) };
        let store = SqliteStore::open_mutated(options, clock, &self.replacements).unwrap();
        Box::pin(async { Arc::new(store) as Arc<dyn JobStore> })
    }
}
