//! `tenure nodes` against real nodes.

use std::process::Output;
use std::time::Duration;

use rpc::wire;

use crate::support::{http, tenure};

use super::Cluster;

/// Runs `tenure nodes …` against this server; answers its exit code, stdout and stderr.
async fn nodes(url: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = tokio::process::Command::new(tenure());
    let Output { status, stdout, stderr } =
        command.arg("nodes").args(args).args(["--server", url]).output().await.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn parse(lines: &str) -> Vec<wire::Node> {
    lines.lines().map(|line| serde_json::from_str(line).expect("a node")).collect()
}

#[tokio::test]
async fn people_and_programs_see_who_is_there() {
    let cluster = Cluster::of(3, &["--name", "käthe"]).await;
    let (code, text, _) = nodes(cluster.url(2), &["list"]).await;
    assert_eq!(code, 0);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.starts_with("ID  STATE"), "{text}");
    let line = text.lines().nth(2).unwrap_or_default();
    assert!(
        line.contains("alive") && line.contains("answers you") && line.contains(cluster.url(2)),
        "{text}"
    );
    assert!(text.lines().nth(1).unwrap_or_default().contains("would lead"), "{text}");

    let (code, text, _) = nodes(&format!("http://127.0.0.1:1,{}", cluster.url(3)), &["list"]).await;
    let line = text.lines().nth(3).unwrap_or_default();
    assert!(code == 0 && line.contains("answers you"), "the first that is reached: {text}");

    let (code, lines, _) = nodes(cluster.url(2), &["list", "--json"]).await;
    let listed = parse(&lines);
    assert_eq!((code, listed.len()), (0, 3));
    assert!(
        listed.iter().all(|node| node.name == "käthe" && node.version == env!("CARGO_PKG_VERSION")),
        "{lines}"
    );
    assert_eq!(listed[2].api_address, cluster.url(3));

    let (code, text, _) = nodes(cluster.url(1), &["show", "3"]).await;
    assert!(code == 0 && text.contains("incarnation") && text.contains(cluster.url(3)), "{text}");
    assert_eq!(nodes(cluster.url(1), &["show", "77"]).await.0, 4, "there is no such node");
    let (code, lines, _) = nodes(cluster.url(1), &["watch", "--json", "--count", "3"]).await;
    assert_eq!((code, lines.matches("\"present\"").count()), (0, 3), "{lines}");

    let (status, body) = http(cluster.url(1), "GET", "/v1/nodes", "").await;
    let answer: wire::ListNodesResponse = serde_json::from_str(&body).expect("an answer");
    assert_eq!((status, answer.nodes.len(), answer.standing.as_str()), (200, 3, "member"));
    assert_eq!(http(cluster.url(1), "GET", "/v1/nodes/3", "").await.0, 200);
    assert_eq!(http(cluster.url(1), "GET", "/v1/nodes/77", "").await.0, 404);
    assert_eq!(http(cluster.url(1), "GET", "/v1/nodes/x", "").await.0, 400);
    assert_eq!(cluster.metric(1, "tenure_members", "state=\"alive\"").await, 3.0);
    // Traffic is counted by the driver, and shown a moment later.
    let counted = async {
        while cluster.metric(1, "tenure_gossip_datagrams_total", "direction=\"in\"").await == 0.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.expect("datagrams came in");
}

#[tokio::test]
async fn a_node_leaves_and_goes_on_serving_alone() {
    let mut cluster = Cluster::of(3, &[]).await;
    let (code, text, _) = nodes(cluster.url(3), &["leave", "--json"]).await;
    assert_eq!(code, 0);
    let node = &parse(&text)[0];
    assert!(node.id == 3 && node.is_self && node.state == "left", "{text}");
    for id in [1, 2] {
        let eye = &mut cluster.node(id).eye;
        eye.until("node 3 left", |view| view.state(3) == "left").await;
        assert_eq!(eye.accused(), []);
    }
    let (status, text) = http(cluster.url(3), "GET", "/readyz", "").await;
    assert_eq!((status, text.as_str()), (200, "ready\n"));
    let (_, _, notes) = nodes(cluster.url(3), &["list"]).await;
    assert!(notes.contains("this server is left"), "{notes}");
    assert_eq!(nodes(cluster.url(3), &["leave"]).await.0, 0, "to leave twice is to leave");
    assert_eq!(nodes(cluster.url(3), &["forget", "1", "--force"]).await.0, 5, "it has no say any more");
}

#[tokio::test]
async fn the_dead_are_forgotten_and_the_living_are_not() {
    let mut cluster = Cluster::of(4, &[]).await;
    let (code, _, error) = nodes(cluster.url(1), &["forget", "4"]).await;
    assert!(code == 5 && error.contains("node 4 is alive"), "{error}");
    assert_eq!(nodes(cluster.url(1), &["forget", "1", "--force"]).await.0, 5, "itself");
    assert_eq!(nodes(cluster.url(1), &["forget", "77"]).await.0, 4);

    cluster.kill(4).await;
    cluster.node(1).eye.until("node 4 is dead", |view| view.state(4) == "dead").await;
    assert_eq!(nodes(cluster.url(1), &["forget", "4"]).await.0, 0);
    for id in [1, 2, 3] {
        cluster.node(id).eye.until("node 4 is gone", |view| view.state(4) == "left").await;
    }
    let (_, lines, _) = nodes(cluster.url(2), &["list", "--json"]).await;
    assert_eq!(parse(&lines).len(), 3, "those who left are shown by --all only");

    // By force even the living, who come back at once under a higher epoch.
    let epoch = cluster.node(1).eye.view.0[&3].epoch;
    assert_eq!(nodes(cluster.url(1), &["forget", "3", "--force"]).await.0, 0);
    for id in [1, 2, 3] {
        let eye = &mut cluster.node(id).eye;
        eye.until("it is back", |view| view.0[&3].epoch > epoch && view.state(3) == "alive").await;
    }
    let eye = &mut cluster.node(3).eye;
    assert!(eye.heard.iter().any(|event| event.event == "expelled"), "{:?}", eye.heard);
}

#[tokio::test]
async fn a_server_on_its_own_says_so() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let server = cli::fleet::Server::start(tenure(), &home.path().join("data"), &["--store", "memory"])
        .await
        .expect("the server starts");
    assert_eq!(server.gossip, None);
    let (code, _, error) = nodes(&server.url, &["list"]).await;
    assert!(code == 5 && error.contains("--node-id"), "{error}");
    assert_eq!(nodes(&server.url, &["watch"]).await.0, 5);
    assert_eq!(nodes("http://127.0.0.1:1", &["list"]).await.0, 3, "nobody is there");
    assert_eq!(http(&server.url, "GET", "/v1/nodes", "").await.0, 409);
    let (_, text) = http(&server.url, "GET", "/metrics", "").await;
    assert!(!text.contains("tenure_members"), "{text}");
    assert!(!home.path().join("data").join("node-epoch").exists());
}
