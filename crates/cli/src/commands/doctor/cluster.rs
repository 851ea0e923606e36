//! What a member of a cluster needs: its settings, its keys, its port. Nothing is checked on a server that is on its own.

use std::path::Path;

use gossip_udp::{KeyRing, Sockets};

use super::Finding;
use super::server::Health;
use crate::cluster::{ClusterFlags, ClusterSettings};
use crate::config::{ServeFlags, Settings};

/// Checks the cluster that the flags, the environment and the settings file in `data` speak of.
pub(super) async fn findings(flags: ClusterFlags, data: &Path, health: &Health) -> Vec<Finding> {
    let name = "cluster";
    let serve = ServeFlags { data: Some(data.into()), cluster: flags, ..ServeFlags::default() };
    let settings = match Settings::resolve(serve) {
        Ok(settings) => settings,
        Err(error) => return vec![Finding::fail(name, error.0, "mend the settings")],
    };
    let Some(cluster) = settings.cluster else { return Vec::new() };
    let found =
        format!("node {} of cluster {}, {} nodes to join", cluster.id, cluster.name, cluster.join.len());
    vec![Finding::ok(name, found), keys(&cluster), port(&cluster, health).await]
}

fn keys(cluster: &ClusterSettings) -> Finding {
    let name = "cluster keys";
    if cluster.keys.is_none() {
        return Finding::warn(
            name,
            "none: anyone who reaches the node can take part",
            "see `tenure nodes key --help`",
        );
    }
    let ring = cluster.keys.read().map_err(|error| error.0);
    let ring = ring.and_then(|keys| KeyRing::new(&keys).map_err(|error| error.to_string()));
    match ring {
        Ok(ring) => Finding::ok(name, format!("{} in use", ring.numbers().len())),
        Err(why) => Finding::fail(name, why, "see `tenure nodes key --help`"),
    }
}

async fn port(cluster: &ClusterSettings, health: &Health) -> Finding {
    let (name, listen) = ("gossip port", cluster.listen);
    match Sockets::bind(listen).await {
        Ok(_) => Finding::ok(name, format!("{listen} is free, UDP and TCP")),
        // It is most likely that server's.
        Err(_) if health.is_reachable() => {
            Finding::ok(name, format!("{listen} is in use, and a server is running"))
        }
        Err(error) => Finding::fail(
            name,
            format!("cannot listen on {listen}: {error}"),
            "stop the other program, or choose another address with --gossip-listen",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    async fn statuses(flags: ClusterFlags) -> Vec<Status> {
        let data = tempfile::tempdir().unwrap();
        let health = Health::Unreachable(String::new());
        findings(flags, data.path(), &health).await.iter().map(|finding| finding.status).collect()
    }

    #[tokio::test]
    async fn only_members_are_checked() {
        assert_eq!(statuses(ClusterFlags::default()).await, []);
        let member = ClusterFlags {
            node_id: Some(1),
            gossip_listen: Some("127.0.0.1:0".into()),
            ..ClusterFlags::default()
        };
        assert_eq!(statuses(member.clone()).await, [Status::Ok, Status::Warn, Status::Ok], "no keys");
        let missing = ClusterFlags { cluster_key_file: Some("/nowhere/key".into()), ..member.clone() };
        assert_eq!(statuses(missing).await[1], Status::Fail);
        let taken = Sockets::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let busy = ClusterFlags { gossip_listen: Some(taken.local_addr().unwrap().to_string()), ..member };
        assert_eq!(statuses(busy).await[2], Status::Fail);
        let wrong = ClusterFlags { node_id: Some(0), ..ClusterFlags::default() };
        assert_eq!(statuses(wrong).await, [Status::Fail]);
    }
}
