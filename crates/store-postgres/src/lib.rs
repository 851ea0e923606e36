//! The store for several servers: one PostgreSQL database, batched statements, LISTEN and NOTIFY.
//!
//! ```text
//!   JobStore verbs ──► inbox of a lane ──► its task, its connection: all that wait, one commit ──► answers
//!   tell, next_news ◄──────────────────► one more connection: LISTEN and NOTIFY
//! ```
//!
//! A verb is a value with a `run` that can be repeated; a lane runs it inside a transaction, and runs it again when the
//! database reports a conflict. Nothing a caller does can stop it half-way. Hot verbs have a lane each, which merges all
//! requests that wait into one transaction, so that commits of different verbs overlap.
//!
//! SQL lives in constants beside the verb that runs it. Time is the database's: the texts say `LEASE_NOW` and `WALL_NOW`.

mod cancel;
mod claim;
mod complete;
mod counts;
mod db;
mod enqueue;
mod error;
mod finish;
mod lane;
mod link;
mod migrate;
mod news;
mod open;
mod probe;
mod purge;
mod queues;
mod read;
mod reap;
mod redrive;
mod registries;
mod renew;
mod row;
mod search;
mod store;
mod succeed;
mod time;
mod tls;
mod url;
mod vacuum;
mod workers;

pub use error::OpenError;
pub use migrate::{Migration, migrate, migrations, schema_version};
pub use open::{OnCommit, PostgresOptions, server_version};
pub use store::PostgresStore;
pub use url::unverified_hosts;
pub use vacuum::OnVacuum;
