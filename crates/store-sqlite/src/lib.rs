//! The embedded default store: one SQLite file in the data directory, one writer, durable group commits.
//!
//! ```text
//!   JobStore verbs ──► inbox ──► writer thread: BEGIN IMMEDIATE · all that wait · COMMIT ──► answers
//!                 └──► inbox ──► reader threads: read-only connections of their own ──► answers
//! ```
//!
//! Throughput comes from grouping: everything that waits when the writer is free is one transaction and one fsync.
//! Each verb is a value with a `run` that can be repeated, so a group that failed because of one of its members is
//! rolled back and run again one by one. SQL lives in constants beside the verb that runs it.
//!
//! What the writer keeps in memory (its books) is only ever a copy of what the file says.

mod blob;
mod books;
mod cancel;
mod check;
mod claim;
mod counts;
mod db;
mod enqueue;
mod error;
mod files;
mod finish;
mod lock;
mod migrate;
mod open;
mod private;
mod purge;
mod queues;
mod read;
mod reader;
mod reap;
mod redrive;
mod renew;
mod row;
mod search;
mod store;
mod succeed;
mod time;
mod workers;
mod writer;

pub use error::OpenError;
pub use migrate::{Migration, migrate, migrations, schema_version};
pub use open::{DATABASE_FILE, LOCK_FILE, OnCommit, SqliteOptions, sqlite_version};
pub use store::SqliteStore;
