//! The slower profiles, as processes.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::http;

use super::Cluster;

/// Three nodes of a profile: one leaves by request, comes back and is killed. Answers how long the others took to find out.
async fn leaves_returns_and_dies(profile: &str) -> Duration {
    let mut cluster = Cluster::of(3, &["--gossip-profile", profile]).await;
    let (status, text) = http(cluster.url(3), "POST", "/v1/nodes/leave", "{}").await;
    assert_eq!(status, 200, "{profile}: {text}");
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 left", |view| view.state(3) == "left").await;
        assert_eq!(eye.accused(), [], "nobody had to miss it");
    }
    cluster.signal(3, Signal::TERM);
    assert!(cluster.node(3).server.process.ended().await.expect("it ends").success());
    cluster.start(3, &[]).await;
    cluster.all_see(&[1, 2, 3]).await;

    let killed = Instant::now();
    cluster.kill(3).await;
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
        assert!(eye.accused().iter().all(|(_, who)| *who == 3), "{:?}", eye.heard);
        assert!(eye.accused().contains(&("suspected", 3)), "it could have contradicted: {:?}", eye.heard);
    }
    let took = killed.elapsed();
    println!("{profile}: all know after {took:?}");
    took
}

#[tokio::test]
async fn sites_far_apart_notice_a_death() {
    leaves_returns_and_dies("wan").await;
}

/// From the probe that fails to the verdict it takes 5, 3 and 10 s; that probe may have begun just before the death.
#[tokio::test]
async fn the_five_steps_take_their_time() {
    let took = leaves_returns_and_dies("classic").await;
    assert!(took >= Duration::from_secs(17), "{took:?} are not all steps");
}
