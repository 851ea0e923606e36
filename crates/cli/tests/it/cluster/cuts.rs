//! The network is cut between real processes: whole and in one direction, for one node and for one link.

use std::time::{Duration, Instant};

use crate::support::http;

use super::Cluster;

const ALL: [u32; 5] = [1, 2, 3, 4, 5];
const OTHERS: [u32; 4] = [1, 2, 3, 4];

/// Cuts node 5 off in this way, waits until the others notice, restores it, waits until all is well.
async fn cut_off_and_restore(way: &'static str) {
    let mut cluster = Cluster::of(5, &[]).await;
    let before = cluster.node(1).eye.view.0[&5].clone();
    let cut = Instant::now();
    cluster.cut(5, OTHERS.into_iter().map(|other| (way, other)));
    for id in OTHERS {
        cluster.node(id).eye.until("node 5 is dead", |view| view.state(5) == "dead").await;
    }
    println!("cut {way}: all others know after {:?}", cut.elapsed());
    for id in OTHERS {
        let eye = &mut cluster.node(id).eye;
        let dead: Vec<_> =
            eye.accused().into_iter().filter(|(event, who)| *event == "dead" && *who != 5).collect();
        assert_eq!(dead, [], "one node that is cut off brings nobody down: {:?}", eye.heard);
    }
    cluster.cut(5, std::iter::empty());
    let restored = Instant::now();
    cluster.all_see(&ALL).await;
    println!("restored: all see all after {:?}", restored.elapsed());
    let after = cluster.node(1).eye.view.0[&5].clone();
    assert_eq!(after.epoch, before.epoch, "it is the same start");
    assert!(after.incarnation > before.incarnation, "it contradicted: {after:?}");
}

#[tokio::test]
async fn a_node_that_is_cut_off_is_lonely_and_comes_back() {
    cut_off_and_restore("both").await;
}

#[tokio::test]
async fn a_node_that_is_not_heard_is_dead_and_comes_back() {
    cut_off_and_restore("to").await;
}

#[tokio::test]
async fn a_node_that_does_not_hear_is_dead_and_comes_back() {
    cut_off_and_restore("from").await;
}

#[tokio::test]
async fn a_lonely_node_says_so_and_goes_on_serving() {
    let mut cluster = Cluster::of(3, &[]).await;
    cluster.cut(3, [("both", 1), ("both", 2)].into_iter());
    cluster.node(3).eye.hear("lonely", 3).await;
    let (status, text) = http(cluster.url(3), "GET", "/readyz", "").await;
    assert_eq!(status, 200, "loneliness is evidence, not a verdict: {text}");
    assert!(text.starts_with("ready\n") && text.contains("lonely"), "{text}");
    assert_eq!(cluster.metric(3, "tenure_lonely", "").await, 1.0);
    cluster.cut(3, std::iter::empty());
    cluster.node(3).eye.hear("reunited", 3).await;
    assert_eq!(cluster.metric(3, "tenure_lonely", "").await, 0.0);
}

#[tokio::test]
async fn a_single_broken_link_kills_nobody() {
    let mut cluster = Cluster::of(5, &[]).await;
    cluster.cut(5, [("both", 4)].into_iter());
    cluster.cut(4, [("both", 5)].into_iter());
    // The length of the fault, fifty periods; not a wait for anything.
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.cut(5, std::iter::empty());
    cluster.cut(4, std::iter::empty());
    // Whatever was on its way is heard before this.
    cluster.kill(3).await;
    for id in [1, 2, 4, 5] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
        let dead: Vec<_> =
            eye.accused().into_iter().filter(|(event, who)| *event == "dead" && *who != 3).collect();
        assert_eq!(dead, [], "seen by node {id}: {:?}", eye.heard);
    }
}
