//! Opening the store that `serve` was asked for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use model::Clock;
use node::Metrics;
use store::{JobStore, MemoryStore, Paired};
use store_postgres::{PostgresOptions, PostgresStore};
use store_sqlite::{OpenError, SqliteOptions, SqliteStore};

use crate::config::{Settings, StoreKind};

/// How long a server that starts waits for its database: both may be starting.
const DATABASE_PATIENCE: Duration = Duration::from_secs(20);

/// Opens the store; commits are counted in `metrics`.
pub(crate) async fn open(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
) -> Result<Arc<dyn JobStore>> {
    let metrics = metrics.clone();
    let vacuums = metrics.clone();
    let on_commit = move |took, requests| metrics.observe_commit(took, requests);
    Ok(match settings.store {
        StoreKind::Memory => Arc::new(MemoryStore::new(clock)),
        StoreKind::Volatile => Arc::new(MemoryStore::volatile_within(clock, settings.volatile_memory)),
        StoreKind::Sqlite => {
            let options = SqliteOptions {
                fsync: settings.fsync,
                on_commit: Some(Arc::new(on_commit)),
                ..SqliteOptions::new(&settings.data)
            };
            let durable = SqliteStore::open(options, Arc::clone(&clock))?;
            // Its volatile queues are beside it, in memory.
            Paired::open(Arc::new(durable), MemoryStore::volatile_within(clock, settings.volatile_memory))
                .await?
        }
        StoreKind::Postgres => {
            let options = PostgresOptions {
                patience: DATABASE_PATIENCE,
                on_commit: Some(Arc::new(on_commit)),
                on_vacuum: Some(Arc::new(move |took| vacuums.observe_vacuum(took))),
                ..PostgresOptions::new(&settings.database_url)
            };
            Arc::new(PostgresStore::connect(options).await?)
        }
    })
}

/// Proves, in a directory of its own, that this program can open a store at all.
pub(crate) fn open_scratch(dir: &Path, clock: Arc<dyn Clock>) -> Result<(), OpenError> {
    SqliteStore::open(SqliteOptions { fsync: false, ..SqliteOptions::new(dir) }, clock).map(drop)
}
