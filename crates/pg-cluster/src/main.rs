//! A database at hand: starts a cluster, says where it and its directory are, and ends it when its standard input ends.

use std::io;

use pg_cluster::{Cluster, ClusterError};

fn main() -> Result<(), ClusterError> {
    let cluster = Cluster::start()?;
    println!("{}\n{}", cluster.url("postgres"), cluster.home().display());
    // Somebody who typed an end, or the end of whoever started us.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    Ok(())
}
