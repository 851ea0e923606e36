//! The PostgreSQL store keeps every promise of the port, those about durability and about several servers included.

use std::sync::Arc;

use common::Database;
use store::JobStore;
use store::conformance::{BoxFuture, Case, Harness, TestClock};
use store_postgres::{PostgresOptions, PostgresStore};

mod common;

store::conformance_tests!(check);
store::conformance_tests!(durable check);
store::conformance_tests!(shared check);

fn check(case: Case) {
    let database = Database::fresh();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(case.run(Servers { url: database.cluster.url(&database.name) }));
}

/// As many as are asked for, on one database.
struct Servers {
    url: String,
}

impl Harness for Servers {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let options = PostgresOptions { clock: Some(clock), ..PostgresOptions::new(&self.url) };
        Box::pin(async { Arc::new(PostgresStore::connect(options).await.unwrap()) as Arc<dyn JobStore> })
    }

    fn join(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        self.open(clock)
    }
}
