//! A pair keeps every promise of its durable store, and those of volatile queues besides.

use std::sync::Arc;

use store::conformance::{Case, TestClock, VOLATILE_BYTES, ready};
use store::{JobStore, MemoryStore, Paired};

mod every {
    use super::check;

    store::conformance_tests!(check);
}

mod volatile {
    use super::check;

    store::conformance_tests!(volatile check);
}

fn check(case: Case) {
    let paired = |clock: Arc<TestClock>| -> Arc<dyn JobStore> {
        let durable = Arc::new(MemoryStore::new(clock.clone()));
        ready(Paired::open(durable, MemoryStore::volatile_within(clock, VOLATILE_BYTES)))
            .expect("a memory store opens")
    };
    ready(case.run(paired));
}
