//! Several servers as real processes that form a cluster on the loopback device.

mod commands;
mod cuts;
mod faults;
mod idle;
mod keys;
mod namespaces;
mod profiles;
mod twins;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::fleet::Server;
use rpc::wire;
use rpc::wire::nodes_client::NodesClient;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::Instant;
use tonic::Streaming;

use crate::support::{http, tenure};

/// Far longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes 1, 2, 3, … and where their data is.
pub(super) struct Cluster {
    home: TempDir,
    flags: Vec<String>,
    /// Whether links can be cut, for which nodes keep looking at a file.
    has_filters: bool,
    /// What is started instead of the binary, by node: a script that brings the node to its place and then becomes it.
    programs: BTreeMap<u32, PathBuf>,
    nodes: BTreeMap<u32, Node>,
}

/// One node, and someone who watches through its eyes.
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) server: Server,
    pub(super) eye: Eye,
}

impl Cluster {
    /// Starts so many nodes and waits until all see all.
    pub(super) async fn of(count: u32, flags: &[&str]) -> Cluster {
        Cluster::empty(flags).filled(count).await
    }

    /// The same without anything that only tests need.
    pub(super) async fn plain(count: u32, flags: &[&str]) -> Cluster {
        Cluster { has_filters: false, ..Cluster::empty(flags) }.filled(count).await
    }

    async fn filled(self, count: u32) -> Cluster {
        let mut cluster = self;
        for id in 1..=count {
            cluster.start(id, &[]).await;
        }
        cluster.all_see(&(1..=count).collect::<Vec<_>>()).await;
        cluster
    }

    /// No node yet; those that come have these flags, each with its value.
    pub(super) fn empty(flags: &[&str]) -> Cluster {
        let home = tempfile::tempdir().expect("a temporary directory");
        let profile: &[&str] =
            if flags.contains(&"--gossip-profile") { &[] } else { &["--gossip-profile", "fast"] };
        let flags = [profile, flags].concat().into_iter().map(str::to_owned).collect();
        Cluster { home, flags, has_filters: true, programs: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// The node with this number is started as the end of this line of shell, which begins with what it needs.
    pub(super) fn launch(&mut self, id: u32, line: &str) {
        let program = self.path(&format!("launch{id}"));
        let script = format!("#!/bin/sh\n{line} {} \"$@\"\n", tenure().display());
        fs::write(&program, script)
            .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
            .expect("a writable directory");
        self.programs.insert(id, program);
    }

    /// Starts a node, again if it was there before, which joins through all the others.
    pub(super) async fn start(&mut self, id: u32, more: &[&str]) {
        let node = self.spawn(id, &format!("node{id}"), more).await;
        self.nodes.insert(id, node);
    }

    /// Starts a server with this number that is none of ours, with its data in a directory of this name.
    pub(super) async fn spawn(&self, id: u32, name: &str, more: &[&str]) -> Node {
        let others: Vec<String> =
            self.nodes.values().filter(|node| node.id != id).map(|node| node.gossip().to_string()).collect();
        let (id_text, join, filter) = (id.to_string(), others.join(","), self.filter(id));
        let mut flags = vec!["--node-id", &id_text, "--store", "memory"];
        if self.has_filters {
            flags.extend(["--gossip-filter-file", filter.to_str().expect("a UTF-8 path")]);
        }
        if !join.is_empty() {
            flags.extend(["--join", &join]);
        }
        let is_said_again = |pair: &&[String]| more.contains(&pair[0].as_str());
        for pair in self.flags.chunks(2).filter(|pair| !is_said_again(pair)) {
            flags.extend(pair.iter().map(String::as_str));
        }
        flags.extend(more);
        let data = self.home.path().join(name);
        let program = self.programs.get(&id).map_or(tenure(), PathBuf::as_path);
        let server = Server::start(program, &data, &flags).await.expect("the node starts");
        let eye = Eye::open(&server.url).await;
        Node { id, server, eye }
    }

    /// Kills a node and waits for its end.
    pub(super) async fn kill(&mut self, id: u32) {
        let process = &mut self.node(id).server.process;
        process.signal(Signal::KILL).expect("it was running");
        process.ended().await.expect("it is gone");
    }

    pub(super) fn signal(&self, id: u32, signal: Signal) {
        self.nodes[&id].server.process.signal(signal).expect("it is running");
    }

    /// Cuts this node off as these lines say; nothing restores it.
    pub(super) fn cut(&self, id: u32, lines: impl Iterator<Item = (&'static str, u32)>) {
        let text: String =
            lines.map(|(way, other)| format!("{way} {}\n", self.nodes[&other].gossip())).collect();
        // In one step, so that no half of it is ever read.
        let draft = self.home.path().join(format!("draft{id}"));
        fs::write(&draft, text)
            .and_then(|()| fs::rename(&draft, self.filter(id)))
            .expect("a writable directory");
    }

    pub(super) fn node(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of this cluster")
    }

    pub(super) fn url(&self, id: u32) -> &str {
        &self.nodes[&id].server.url
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }

    pub(super) fn others(&self, id: u32) -> Vec<u32> {
        self.ids().into_iter().filter(|other| *other != id).collect()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Waits until each of these nodes sees all of them alive, in their present start.
    pub(super) async fn all_see(&mut self, ids: &[u32]) {
        let mut epochs = Vec::new();
        for id in ids {
            epochs.push((*id, self.epoch(*id).await));
        }
        for id in ids {
            let is_present = |view: &View, (id, epoch): &(u32, u32)| {
                view.state(*id) == "alive" && view.0[id].epoch == *epoch
            };
            let all = |view: &View| epochs.iter().all(|one| is_present(view, one));
            self.node(*id).eye.until("all are alive", all).await;
        }
    }

    /// Which start of a node this is, by its own word.
    pub(super) async fn epoch(&mut self, id: u32) -> u32 {
        let eye = &mut self.node(id).eye;
        eye.until("it is alive", |view| view.state(id) == "alive").await;
        eye.view.0[&id].epoch
    }

    /// A figure from the metrics of a node, summed over the lines that contain `label`.
    pub(super) async fn metric(&self, id: u32, name: &str, label: &str) -> f64 {
        let (status, text) = http(self.url(id), "GET", "/metrics", "").await;
        assert_eq!(status, 200, "{text}");
        let wanted = |line: &&str| line.starts_with(name) && line.contains(label);
        text.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    fn filter(&self, id: u32) -> PathBuf {
        self.home.path().join(format!("filter{id}"))
    }
}

impl Node {
    pub(super) fn gossip(&self) -> SocketAddr {
        self.server.gossip.expect("a node says where it hears others")
    }
}

/// What one node sees, kept up to date by its watch stream.
pub(super) struct Eye {
    stream: Streaming<wire::NodeEvent>,
    pub(super) view: View,
    /// Every event so far, without those of the beginning.
    pub(super) heard: Vec<wire::NodeEvent>,
}

/// Who is in which state.
#[derive(Debug, Default)]
pub(super) struct View(pub(super) BTreeMap<u32, wire::Node>);

impl View {
    pub(super) fn state(&self, id: u32) -> &str {
        self.0.get(&id).map_or("unknown", |node| &node.state)
    }

    pub(super) fn are_alive(&self, ids: &[u32]) -> bool {
        ids.iter().all(|id| self.state(*id) == "alive")
    }
}

impl Eye {
    pub(super) async fn open(url: &str) -> Eye {
        let mut client = NodesClient::connect(url.to_owned()).await.expect("the server listens");
        let stream =
            client.watch(wire::WatchNodesRequest {}).await.expect("the server is in a cluster").into_inner();
        Eye { stream, view: View::default(), heard: Vec::new() }
    }

    /// Waits until what is seen is like this.
    pub(super) async fn until(&mut self, what: &str, is_so: impl Fn(&View) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.view) {
            self.next(what, deadline).await;
        }
    }

    /// Waits for this event about this node, from now on.
    pub(super) async fn hear(&mut self, event: &str, id: u32) -> wire::Node {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let heard = self.next(event, deadline).await;
            let node = heard.node.unwrap_or_default();
            if heard.event == event && node.id == id {
                return node;
            }
        }
    }

    /// Those events so far that took somebody for gone or nearly so.
    pub(super) fn accused(&self) -> Vec<(&str, u32)> {
        let accuses = |event: &&wire::NodeEvent| ["suspected", "dead"].contains(&event.event.as_str());
        let who = |event: &wire::NodeEvent| event.node.as_ref().map_or(0, |node| node.id);
        self.heard.iter().filter(accuses).map(|event| (event.event.as_str(), who(event))).collect()
    }

    async fn next(&mut self, what: &str, deadline: Instant) -> wire::NodeEvent {
        let next = match tokio::time::timeout_at(deadline, self.stream.message()).await {
            Ok(next) => next.expect("the stream holds").expect("the server goes on"),
            Err(_) => panic!("waited in vain: {what}; seen: {:?}; heard: {:?}", self.view, self.heard),
        };
        if let Some(node) = next.node.clone().filter(|node| node.id != 0) {
            match next.event.as_str() {
                "forgotten" => drop(self.view.0.remove(&node.id)),
                _ => drop(self.view.0.insert(node.id, node)),
            }
        }
        if next.event != "present" {
            self.heard.push(next.clone());
        }
        next
    }
}

/// Writes a file that only its owner can open, as secrets must be.
fn write_private(path: &Path, text: &str) {
    let options = File::options().write(true).create(true).truncate(true).mode(0o600).clone();
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).expect("a writable directory");
}
