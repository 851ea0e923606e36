//! Two servers with one number: one of them stays, the other says so and stops fighting.

use crate::support::http;

use super::{Cluster, Node};

/// Which of the two gave up.
async fn loser<'a>(one: &'a mut Node, other: &'a mut Node) -> &'a mut Node {
    let first_gave_up = tokio::select! {
        _ = one.eye.hear("ousted", 3) => true,
        _ = other.eye.hear("ousted", 3) => false,
    };
    if first_gave_up { one } else { other }
}

/// A second server comes with the number of node 3.
async fn one_gives_up(mut cluster: Cluster) {
    let mut twin = cluster.spawn(3, "twin", &[]).await;
    let mut original = cluster.nodes.remove(&3).expect("it was started");
    let loser = loser(&mut original, &mut twin).await;
    let (status, text) = http(&loser.server.url, "GET", "/readyz", "").await;
    assert!(status == 503 && text.contains("--node-id"), "{text}");
    let address = loser.gossip().to_string();
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("the other stays", |view| view.state(3) == "alive" && view.0[&3].address != address).await;
    }
}

#[tokio::test]
async fn of_two_servers_with_one_number_one_gives_up() {
    let mut cluster = Cluster::of(3, &[]).await;
    // Its second start, and the first one of the other.
    cluster.kill(3).await;
    cluster.start(3, &[]).await;
    cluster.all_see(&[1, 2, 3]).await;
    one_gives_up(cluster).await;
}

#[tokio::test]
async fn two_servers_with_one_number_and_the_same_epoch_are_told_apart() {
    one_gives_up(Cluster::of(3, &[]).await).await;
}
