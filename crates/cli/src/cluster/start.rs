//! Opens what a member needs, before anything is said to anyone.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use gossip_udp::{Filter, KeyRing, Seal, Sockets};
use tracing::warn;

use super::epoch::Epochs;
use super::{ClusterSettings, filter, keys};
use crate::exit::Failure;

/// The sockets are bound, the keys read, the counter of starts is ours. `data` is where that counter is kept.
pub(crate) async fn open(settings: &ClusterSettings, data: &Path) -> Result<node::Cluster> {
    let sockets =
        Sockets::bind(settings.listen).await.map_err(|error| cannot_listen(settings.listen, &error))?;
    let bound = sockets.local_addr().context("cannot read the address of a socket")?;
    let address = settings.advertise.unwrap_or(bound);
    let mut epochs = Epochs::open(data)?;
    let seal = seal(settings, bound)?;
    let filter = Filter::default();
    if let Some(path) = &settings.filter_file {
        filter.set(filter::read(path));
        tokio::spawn(filter::follow(path.clone(), filter.clone()));
    }
    Ok(node::Cluster {
        id: settings.id,
        name: settings.name.clone(),
        config: settings.profile.config(),
        join: settings.join.clone(),
        sockets,
        address,
        seal,
        insecure: settings.insecure,
        filter,
        epochs: Box::new(move |than| epochs.raise(than)),
    })
}

/// With keys, they are followed from now on.
fn seal(settings: &ClusterSettings, bound: SocketAddr) -> Result<Seal> {
    let source = settings.keys.clone();
    if source.is_none() {
        if !bound.ip().to_canonical().is_loopback() {
            warn!(address = %bound, "there are no cluster keys: anyone who reaches this address can take part");
        }
        return Ok(Seal::Open);
    }
    let keys = source.read()?;
    let ring = KeyRing::new(&keys).map_err(|error| Failure::usage(format!("the cluster's keys: {error}")))?;
    tokio::spawn(keys::follow(source, ring.clone(), keys));
    Ok(Seal::Keys(ring))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses this port; choose another with --gossip-listen".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have this address; see --gossip-listen".to_owned()
        }
        _ => error.to_string(),
    };
    Failure::failed(format!("cannot listen for other nodes on {address} (UDP and TCP): {why}"))
}
