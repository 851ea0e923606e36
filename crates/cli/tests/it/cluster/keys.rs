//! Keys and names keep strangers out, and keys can be changed while the cluster runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cli::effects;
use rustix::process::Signal;

use crate::support::tenure;

use super::{Cluster, PATIENCE, write_private};

fn key(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

fn write(path: &Path, keys: &[String]) -> String {
    write_private(path, &keys.join("\n"));
    path.to_str().expect("a UTF-8 path").to_owned()
}

/// A stranger knocks while a cluster of two takes in a third node and loses it again: long enough for many tries.
async fn stays_outside(flags: &[&str], stranger_flags: &[&str]) {
    let mut cluster = Cluster::of(2, flags).await;
    let mut stranger = cluster.spawn(9, "stranger", stranger_flags).await;
    cluster.start(3, &[]).await;
    cluster.all_see(&[1, 2, 3]).await;
    cluster.kill(3).await;
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
        assert_eq!(eye.view.state(9), "unknown", "the stranger got in: {:?}", eye.view);
    }
    let refused = cluster.metric(1, "tenure_gossip_dropped_total", "").await
        + cluster.metric(2, "tenure_gossip_dropped_total", "").await;
    assert!(refused >= 1.0, "nobody knocked");
    stranger.eye.until("it knows itself", |view| view.state(9) == "alive").await;
    assert_eq!(stranger.eye.view.0.keys().copied().collect::<Vec<_>>(), [9], "it learnt nothing");
}

#[tokio::test]
async fn another_key_stays_outside() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let ours = write(&home.path().join("ours"), &[key(1)]);
    let theirs = write(&home.path().join("theirs"), &[key(2)]);
    stays_outside(&["--cluster-key-file", &ours], &["--cluster-key-file", &theirs]).await;
}

#[tokio::test]
async fn who_finds_nobody_is_told_why() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let ours = write(&home.path().join("ours"), &[key(1)]);
    let theirs = write(&home.path().join("theirs"), &[key(2)]);
    let cluster = Cluster::of(1, &["--cluster-key-file", &ours]).await;
    let _stranger = cluster.spawn(9, "stranger", &["--cluster-key-file", &theirs]).await;
    let log = cluster.path("stranger.server.log");
    let said = async {
        loop {
            let text = fs::read_to_string(&log).expect("it is written");
            if let Some(line) =
                effects::complete_lines(&text).find(|line| line.contains("no other node found"))
            {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let said = tokio::time::timeout(PATIENCE, said).await.expect("it says so");
    assert!(said.contains(&cluster.nodes[&1].gossip().to_string()) && said.contains("another key"), "{said}");
}

#[tokio::test]
async fn no_key_stays_outside() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let ours = write(&home.path().join("ours"), &[key(1)]);
    let mut cluster = Cluster::of(2, &["--cluster-key-file", &ours]).await;
    // A cluster of its own whose members know no key, and only ours to join.
    let addresses: Vec<String> =
        cluster.ids().iter().map(|id| cluster.nodes[id].gossip().to_string()).collect();
    let mut stranger = Cluster::empty(&["--join", &addresses.join(",")]);
    stranger.start(9, &[]).await;
    cluster.start(3, &[]).await;
    cluster.all_see(&[1, 2, 3]).await;
    cluster.kill(3).await;
    let eye = &mut cluster.node(1).eye;
    eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
    assert_eq!(eye.view.state(9), "unknown", "the stranger got in: {:?}", eye.view);
    assert!(!stranger.node(9).eye.view.0.contains_key(&1), "it learnt something");
}

#[tokio::test]
async fn another_cluster_s_name_stays_outside() {
    stays_outside(&["--cluster-name", "ours"], &["--cluster-name", "theirs"]).await;
}

#[tokio::test]
async fn keys_change_while_the_cluster_runs() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("keys");
    let file = write(&path, &[key(1)]);
    let mut cluster = Cluster::of(3, &["--cluster-key-file", &file]).await;
    let first = [1, 2, 3];
    // Each step is proven by a newcomer that could not join before it, and by nobody being missed.
    for (newcomer, keys, its_keys) in [
        (4, vec![key(1), key(2)], vec![key(2), key(1)]),
        (5, vec![key(2), key(1)], vec![key(2)]),
        (6, vec![key(2)], vec![key(2)]),
    ] {
        write(&path, &keys);
        for id in first {
            cluster.signal(id, Signal::HUP);
        }
        let its = write(&home.path().join(format!("keys{newcomer}")), &its_keys);
        cluster.start(newcomer, &["--cluster-key-file", &its]).await;
        for id in first.into_iter().chain([newcomer]) {
            let eye = &mut cluster.node(id).eye;
            eye.until("the newcomer is alive", |view| view.are_alive(&[1, 2, 3, newcomer])).await;
        }
        // It goes politely, so that later steps are about the first three.
        cluster.signal(newcomer, Signal::TERM);
        for id in first {
            let eye = &mut cluster.node(id).eye;
            eye.until("the newcomer left", |view| view.state(newcomer) == "left").await;
            assert!(eye.accused().iter().all(|(event, _)| *event != "dead"), "{:?}", eye.heard);
        }
        cluster.nodes.remove(&newcomer);
    }
    let stranger_file = write(&home.path().join("old"), &[key(1)]);
    let stranger = cluster.spawn(9, "stranger", &["--cluster-key-file", &stranger_file]).await;
    cluster.kill(3).await;
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
        assert_eq!(eye.view.state(9), "unknown", "the old key still opens");
    }
    drop(stranger);
}

#[tokio::test]
async fn a_file_of_keys_is_looked_at_again_without_a_signal() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("keys");
    let file = write(&path, &[key(1)]);
    let mut cluster = Cluster::of(1, &["--cluster-key-file", &file]).await;
    write(&path, &[key(2)]);
    let other = write(&home.path().join("other"), &[key(2)]);
    cluster.start(2, &["--cluster-key-file", &other]).await;
    cluster.all_see(&[1, 2]).await;
}

#[tokio::test]
async fn keys_come_from_the_environment_too() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut cluster = Cluster::empty(&[]);
    // The first seals, all of them open; from a file or from the environment is the same to the others.
    cluster.launch(1, &format!("exec env TENURE_CLUSTER_KEY={},{}", key(1), key(2)));
    cluster.launch(2, &format!("exec env TENURE_CLUSTER_KEY={},{}", key(2), key(1)));
    cluster.launch(9, &format!("exec env TENURE_CLUSTER_KEY={}", key(3)));
    cluster.start(1, &[]).await;
    cluster.start(2, &[]).await;
    let mut stranger = cluster.spawn(9, "stranger", &[]).await;
    let file = write(&home.path().join("keys"), &[key(1), key(2)]);
    cluster.start(3, &["--cluster-key-file", &file]).await;
    cluster.all_see(&[1, 2, 3]).await;
    cluster.kill(3).await;
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 is dead", |view| view.state(3) == "dead").await;
        assert_eq!(eye.view.state(9), "unknown", "the stranger got in: {:?}", eye.view);
    }
    stranger.eye.until("it knows itself", |view| view.state(9) == "alive").await;
    assert_eq!(stranger.eye.view.0.len(), 1, "it learnt nothing: {:?}", stranger.eye.view);

    let refused = tokio::process::Command::new(tenure())
        .args(["serve", "--node-id", "4", "--store", "memory", "--listen", "127.0.0.1:0", "--data"])
        .arg(home.path().join("data"))
        .env("TENURE_CLUSTER_KEY", "not-a-key")
        .output()
        .await
        .expect("it runs");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("TENURE_CLUSTER_KEY") && !error.contains("not-a-key"), "{error}");
}
