//! Where the servers under test keep their jobs: in a database of their own, in one PostgreSQL for all tests.

use std::sync::Arc;

use pg_cluster::Cluster;

/// A database.
pub(crate) struct Backend {
    /// Runs as long as anybody needs it.
    _cluster: Arc<Cluster>,
    url: String,
}

impl Backend {
    pub(crate) fn new() -> Backend {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        Backend { _cluster: cluster, url }
    }

    /// Where the database is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What a server must be told.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec!["--database-url".to_owned(), self.url.clone()]
    }
}
