//! The SQLite store keeps every promise of the port, durability included.

use std::sync::Arc;

use store::conformance::{self, BoxFuture, Case, Harness, TestClock, VOLATILE_BYTES};
use store::{JobStore, MemoryStore, Paired};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

store::conformance_tests!(check);
store::conformance_tests!(durable check);
store::conformance_tests!(alone check);

/// The same with a volatile store beside it.
mod paired {
    use super::check_paired;

    store::conformance_tests!(check_paired);
    store::conformance_tests!(durable check_paired);
    store::conformance_tests!(volatile check_paired);
}

fn check(case: Case) {
    run(case, &[]);
}

fn check_paired(case: Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(case.run(Pair(Directory { dir: tempfile::tempdir().unwrap(), replacements: &[] })));
}

/// Rare states are listed by another statement than common ones.
#[test]
fn lists_are_the_same_when_every_state_is_common() {
    for case in conformance::cases().into_iter().filter(|case| case.name.starts_with("list_")) {
        run(case, &[("sum(", "1000000 + sum(")]);
    }
}

fn run(case: Case, replacements: &'static [(&'static str, &'static str)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(case.run(Directory { dir: tempfile::tempdir().unwrap(), replacements }));
}

struct Directory {
    dir: TempDir,
    replacements: &'static [(&'static str, &'static str)],
}

impl Harness for Directory {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let options = SqliteOptions { fsync: false, ..SqliteOptions::new(self.dir.path()) };
        let store = SqliteStore::open_mutated(options, clock, self.replacements).unwrap();
        Box::pin(async { Arc::new(store) as Arc<dyn JobStore> })
    }
}

struct Pair(Directory);

impl Harness for Pair {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async {
            let durable = self.0.open(clock.clone()).await;
            let volatile = MemoryStore::volatile_within(clock, VOLATILE_BYTES);
            Paired::open(durable, volatile).await.unwrap() as Arc<dyn JobStore>
        })
    }
}
