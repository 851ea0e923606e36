//! Opening the store that `serve` was asked for.

use std::path::Path;
use std::sync::Arc;

use model::Clock;
use node::Metrics;
use store::{JobStore, MemoryStore};
use store_sqlite::{OpenError, SqliteOptions, SqliteStore};

use crate::config::{Settings, StoreKind};

/// Opens the store; commits are counted in `metrics`.
pub(crate) fn open(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
) -> Result<Arc<dyn JobStore>, OpenError> {
    match settings.store {
        StoreKind::Memory => Ok(Arc::new(MemoryStore::new(clock))),
        StoreKind::Sqlite => {
            let metrics = metrics.clone();
            let options = SqliteOptions {
                fsync: settings.fsync,
                on_commit: Some(Arc::new(move |took, requests| metrics.observe_commit(took, requests))),
                ..SqliteOptions::new(&settings.data)
            };
            Ok(Arc::new(SqliteStore::open(options, clock)?))
        }
    }
}

/// Proves, in a directory of its own, that this program can open a store at all.
pub(crate) fn open_scratch(dir: &Path, clock: Arc<dyn Clock>) -> Result<(), OpenError> {
    SqliteStore::open(SqliteOptions { fsync: false, ..SqliteOptions::new(dir) }, clock).map(drop)
}
