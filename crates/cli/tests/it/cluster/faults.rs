//! Nodes die, freeze, come back and lose their memory; the others notice.

use std::time::{Duration, Instant};

use rpc::wire;
use rustix::process::Signal;

use crate::support::http;

use super::{Cluster, PATIENCE};

const ALL: [u32; 5] = [1, 2, 3, 4, 5];
const OTHERS: [u32; 4] = [1, 2, 3, 4];

#[tokio::test]
async fn a_killed_node_is_dead_to_all_and_comes_back_under_a_higher_epoch() {
    let begun = Instant::now();
    let mut cluster = Cluster::of(5, &[]).await;
    println!("five nodes see each other after {:?}", begun.elapsed());

    let killed = Instant::now();
    cluster.kill(5).await;
    for id in OTHERS {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 5 is dead", |view| view.state(5) == "dead").await;
        println!("node {id} took node 5 for dead after {:?}", killed.elapsed());
        assert!(eye.accused().iter().all(|(_, who)| *who == 5), "{:?}", eye.heard);
    }
    let epoch = cluster.node(1).eye.view.0[&5].epoch;

    let started = Instant::now();
    cluster.start(5, &[]).await;
    cluster.all_see(&ALL).await;
    println!("it is back after {:?}", started.elapsed());
    for id in ALL {
        let seen = &cluster.node(id).eye.view.0[&5];
        assert_eq!((seen.epoch, seen.state.as_str()), (epoch + 1, "alive"), "seen by node {id}");
    }
}

#[tokio::test]
async fn a_frozen_node_contradicts_when_it_wakes() {
    let mut cluster = Cluster::of(5, &[]).await;
    let before = cluster.node(1).eye.view.0[&5].clone();
    let frozen = Instant::now();
    cluster.signal(5, Signal::STOP);
    for id in OTHERS {
        cluster.node(id).eye.until("node 5 is dead", |view| view.state(5) == "dead").await;
        println!("node {id} took the frozen node for dead after {:?}", frozen.elapsed());
    }
    cluster.signal(5, Signal::CONT);
    let woken = Instant::now();
    cluster.all_see(&ALL).await;
    println!("all believe it again after {:?}", woken.elapsed());
    for id in OTHERS {
        let seen = &cluster.node(id).eye.view.0[&5];
        assert_eq!(seen.epoch, before.epoch, "it is the same start");
        assert!(seen.incarnation > before.incarnation, "it contradicted: {seen:?}");
    }
    cluster.node(5).eye.hear("contradicted", 5).await;
    assert!(cluster.metric(1, "tenure_false_suspicions_total", "").await >= 1.0);
    // Whatever it thought on waking is heard before this.
    cluster.kill(4).await;
    let eye = &mut cluster.node(5).eye;
    eye.until("node 4 is dead", |view| view.state(4) == "dead").await;
    let condemned: Vec<_> = eye.accused().into_iter().filter(|(event, _)| *event == "dead").collect();
    assert_eq!(condemned, [("dead", 4)], "a node that slept condemns nobody on waking: {:?}", eye.heard);
}

/// What a node says about another, until it is so.
async fn ask_until(cluster: &Cluster, about: u32, is_so: impl Fn(&wire::Node) -> bool) -> wire::Node {
    let asking = async {
        loop {
            let (status, body) = http(cluster.url(1), "GET", &format!("/v1/nodes/{about}"), "").await;
            assert_eq!(status, 200, "{body}");
            let node: wire::Node = serde_json::from_str(&body).expect("a node");
            if is_so(&node) {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("node 1 sees it in time")
}

#[tokio::test]
async fn a_node_that_dies_again_and_again_is_not_believed_before_it_starts_anew() {
    let mut cluster = Cluster::of(4, &[]).await;
    for death in 1..=3 {
        cluster.signal(4, Signal::STOP);
        for id in [1, 2, 3] {
            cluster.node(id).eye.until("node 4 is dead", |view| view.state(4) == "dead").await;
        }
        let condemned = ask_until(&cluster, 4, |_| true).await;
        cluster.signal(4, Signal::CONT);
        let contradicted = ask_until(&cluster, 4, |node| node.incarnation > condemned.incarnation).await;
        if death < 3 {
            assert!(contradicted.state == "alive" && contradicted.probation, "{contradicted:?}");
            ask_until(&cluster, 4, |node| !node.probation && node.state == "alive").await;
            cluster.all_see(&[1, 2, 3, 4]).await;
        } else {
            assert_eq!(contradicted.state, "dead", "it had its chances");
        }
    }
    let epoch = cluster.epoch(4).await;
    let killed = Instant::now();
    cluster.kill(4).await;
    cluster.start(4, &[]).await;
    cluster.all_see(&[1, 2, 3, 4]).await;
    let anew = ask_until(&cluster, 4, |node| node.state == "alive").await;
    println!("all believe its new start after {:?}", killed.elapsed());
    assert_eq!(
        (anew.epoch, anew.probation),
        (epoch + 1, false),
        "what was said of another start is not about this one"
    );
}

#[tokio::test]
async fn a_node_that_lost_its_memory_goes_above_what_others_remember() {
    let mut cluster = Cluster::of(3, &[]).await;
    for _ in 0..2 {
        cluster.kill(3).await;
        cluster.start(3, &[]).await;
        cluster.all_see(&[1, 2, 3]).await;
    }
    let epoch = cluster.epoch(3).await;
    assert_eq!(epoch, 3, "its third start");
    cluster.kill(3).await;
    std::fs::remove_file(cluster.path("node3/node-epoch")).expect("it was written");
    cluster.start(3, &[]).await;
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("a higher epoch", |view| view.0[&3].epoch > epoch && view.state(3) == "alive").await;
    }
    cluster.node(3).eye.until("all are alive", |view| view.are_alive(&[1, 2, 3])).await;
}

#[tokio::test]
async fn sigterm_is_a_polite_leave() {
    let mut cluster = Cluster::of(3, &[]).await;
    let stopped = Instant::now();
    cluster.signal(3, Signal::TERM);
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 left", |view| view.state(3) == "left").await;
        assert_eq!(eye.accused(), [], "nobody had to miss it");
    }
    println!("the leave was known after {:?}", stopped.elapsed());
    let status = cluster.node(3).server.process.ended().await.expect("it ends");
    assert!(status.success(), "{status}");
    assert!(stopped.elapsed() < Duration::from_secs(10));
}

/// Kills in a soak; by itself a few.
fn rounds() -> usize {
    std::env::var("TENURE_SOAK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn nodes_killed_in_turn_are_noticed_and_nobody_else_is() {
    let mut cluster = Cluster::of(5, &[]).await;
    for round in 0..rounds() {
        let victim = ALL[round % ALL.len()];
        let epoch = cluster.epoch(victim).await;
        let killed = Instant::now();
        cluster.kill(victim).await;
        for id in cluster.others(victim) {
            let eye = &mut cluster.node(id).eye;
            eye.until("the victim is dead", |view| view.state(victim) == "dead").await;
            let dead: Vec<u32> = eye
                .heard
                .drain(..)
                .filter(|event| event.event == "dead")
                .filter_map(|event| Some(event.node?.id))
                .collect();
            assert!(dead.iter().all(|who| *who == victim), "round {round}, node {id} condemned {dead:?}");
        }
        println!("round {round}: all know after {:?}", killed.elapsed());
        cluster.start(victim, &[]).await;
        cluster.all_see(&ALL).await;
        assert_eq!(cluster.epoch(victim).await, epoch + 1, "the next start");
    }
}
