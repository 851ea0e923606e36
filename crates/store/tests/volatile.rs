//! The volatile memory store keeps what the port promises of volatile queues.

use std::sync::Arc;

use model::{QueueName, QueuePatch};
use store::conformance::{Case, TestClock, VOLATILE_BYTES, ready};
use store::{JobStore, MemoryStore, StoreError};

store::conformance_tests!(volatile check);

fn check(case: Case) {
    let volatile = |clock: Arc<TestClock>| -> Arc<dyn JobStore> {
        Arc::new(MemoryStore::volatile_within(clock, VOLATILE_BYTES))
    };
    ready(case.run(volatile));
}

#[test]
fn store_that_keeps_nothing_has_no_durable_queue() {
    let store = MemoryStore::volatile(Arc::new(TestClock::new()));
    assert!(!store.is_durable());
    let durable = QueuePatch { volatile: Some(false), ..QueuePatch::default() };
    let refused = ready(store.set_queue(&QueueName::new("q").unwrap(), durable));
    assert!(matches!(&refused, Err(StoreError::Invalid(why)) if why.0.contains("cannot be made durable")));
}
