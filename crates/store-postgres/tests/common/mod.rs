//! A database with our schema for each test, on a cluster that the tests of one program share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pg_cluster::Cluster;
use store_postgres::migrate;

/// The database that the others are copies of.
const TEMPLATE: &str = "tenure_template";

/// A database with our schema and nothing else. Dropping it removes it, whoever is connected.
pub(crate) struct Database {
    /// Where it is.
    pub(crate) cluster: Arc<Cluster>,
    /// What it is called there.
    pub(crate) name: String,
}

impl Database {
    /// A new one.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let cluster = Cluster::shared();
        prepare_template(&cluster);
        let name = format!("case_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}")).unwrap();
        Database { cluster, name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.cluster.psql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Makes the template, once on each cluster.
fn prepare_template(cluster: &Cluster) {
    static PREPARED: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if prepared.as_deref() != Some(cluster.home()) {
        let url = cluster.create_database(TEMPLATE).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(migrate(&url, false)).unwrap();
        *prepared = Some(cluster.home().to_owned());
    }
}
