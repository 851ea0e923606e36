//! The in-memory store: for the simulator, for volatile queues, and as the reference that the suite's random
//! histories are compared with.
//!
//! [`MemoryStore`] takes the lock, reads the clocks and calls one verb of `Tables`, which is plain computation over
//! ordered maps. Every future is ready at its first poll, but for the one that waits for news. Nothing survives the
//! process.

mod adopt;
mod claim;
mod clock;
mod enqueue;
mod finish;
mod handy;
mod index;
mod inherited;
mod job_set;
mod jobs;
mod mutation;
mod news;
mod operate;
mod own;
mod read;
mod registries;
mod requests;
mod rescue;
mod room;
mod row;
mod slab;
mod store;
mod tables;
mod workers;

pub use mutation::Mutation;
pub use store::MemoryStore;

#[cfg(test)]
mod tests;
