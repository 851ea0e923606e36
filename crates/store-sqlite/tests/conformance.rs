//! The SQLite store keeps every promise of the port, durability included.

use std::sync::Arc;

use store::JobStore;
use store::conformance::{BoxFuture, Case, Harness, TestClock};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

store::conformance_tests!(check);
store::conformance_tests!(durable check);

fn check(case: Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(case.run(Directory(tempfile::tempdir().unwrap())));
}

struct Directory(TempDir);

impl Harness for Directory {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let options = SqliteOptions { fsync: false, ..SqliteOptions::new(self.0.path()) };
        let store = SqliteStore::open(options, clock).unwrap();
        Box::pin(async { Arc::new(store) as Arc<dyn JobStore> })
    }
}
