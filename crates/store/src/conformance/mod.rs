//! The suite that defines a store: each case is one promise of [`JobStore`](crate::JobStore).
//!
//! [`cases`] are for every store; [`durable_cases`], [`alone_cases`], [`shared_cases`] and [`volatile_cases`] for those that promise more.
//! A store brings a [`Harness`] and a function that runs one [`Case`] on the executor of its choice; the macro
//! [`conformance_tests!`](crate::conformance_tests) makes a test of each. Time passes only on the [`TestClock`], so
//! nothing sleeps. The suite says nothing about speed.
//!
//! ```
//! use std::sync::Arc;
//!
//! use store::conformance::{self, TestClock};
//! use store::{JobStore, MemoryStore};
//!
//! let memory = |clock: Arc<TestClock>| -> Arc<dyn JobStore> { Arc::new(MemoryStore::new(clock)) };
//! conformance::ready(conformance::case("stale_fence_cannot_complete").run(memory));
//! ```

mod bench;
mod clock;
mod harness;
mod list;
mod samples;

mod adopted;
mod alone;
mod cancel;
mod claim;
mod clients;
mod durable;
mod early;
mod enqueue;
mod exclusive;
mod finish;
mod handles;
mod leases;
mod once;
mod progress;
mod promote;
mod purge;
mod push;
mod queues;
mod random;
mod reads;
mod reap;
mod redrive;
mod registries;
mod renew;
mod retire;
mod retry;
mod room;
mod servers;
mod succeed;
mod to_stop;
mod volatile;
mod workers;

pub use clock::TestClock;
pub use harness::{BoxFuture, Case, Harness, ready};
pub use list::{alone_cases, case, cases, durable_cases, shared_cases, volatile_cases};
pub use room::VOLATILE_BYTES;
