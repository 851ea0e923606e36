//! The memory store keeps every promise of the port but durability.

use std::sync::Arc;

use store::conformance::{Case, TestClock, ready};
use store::{JobStore, MemoryStore};

store::conformance_tests!(check);

fn check(case: Case) {
    let memory = |clock: Arc<TestClock>| -> Arc<dyn JobStore> { Arc::new(MemoryStore::new(clock)) };
    ready(case.run(memory));
}
