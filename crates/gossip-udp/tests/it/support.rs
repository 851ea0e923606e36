//! Nodes on loopback, and waiting for what they see.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clock::SystemClock;
use gossip_udp::{Cluster, Driver, Ending, Filter, Key, KeyRing, Options, Seal, Sockets, Stats, View};
use model::Clock;
use swim::{Config, Epoch, Event, Identity, Info, Machine, NodeId, State};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const LABEL: &str = "test";

/// Short periods with room for a machine that is busy with something else.
pub(crate) fn config() -> Config {
    let period = Duration::from_millis(400);
    Config { period, probe_timeout: period / 2, ..Config::lan() }
}

pub(crate) fn identity(id: u32, epoch: u32) -> Identity {
    Identity { id: NodeId(id), epoch: Epoch(epoch) }
}

pub(crate) fn key(seed: u8) -> Key {
    Key::from_bytes([seed; 32])
}

pub(crate) fn sealed(seed: u8) -> Seal {
    Seal::Keys(KeyRing::new(&[key(seed)]).expect("one key"))
}

/// How a node is to be started.
pub(crate) struct Plan {
    pub(crate) me: Identity,
    pub(crate) seal: Seal,
    pub(crate) label: &'static str,
    pub(crate) seeds: Vec<String>,
    /// What the others are told, if it is not where the node listens.
    pub(crate) advertised: Option<SocketAddr>,
}

impl Plan {
    pub(crate) fn new(id: u32, seal: Seal) -> Self {
        Plan { me: identity(id, 1), seal, label: LABEL, seeds: Vec::new(), advertised: None }
    }

    pub(crate) fn joining(self, addr: SocketAddr) -> Self {
        Plan { seeds: vec![addr.to_string()], ..self }
    }

    pub(crate) async fn start(self) -> Node {
        let sockets = Sockets::bind("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        self.start_on(sockets)
    }

    pub(crate) fn start_on(self, sockets: Sockets) -> Node {
        let addr = sockets.local_addr().expect("bound");
        let info = Info { addr: self.advertised.unwrap_or(addr), meta: Bytes::from_static(b"hello") };
        let machine = machine(self.me, info);
        let filter = Filter::default();
        let options = Options {
            label: self.label.to_owned(),
            seal: self.seal,
            insecure: false,
            seeds: self.seeds,
            filter: filter.clone(),
        };
        let (cluster, driver) = Driver::new(sockets, machine, &config(), options).expect("loopback");
        let events = cluster.events();
        Node { me: self.me, addr, cluster, filter, events, running: tokio::spawn(driver.run()) }
    }
}

/// A running node.
pub(crate) struct Node {
    pub(crate) me: Identity,
    pub(crate) addr: SocketAddr,
    pub(crate) cluster: Cluster,
    pub(crate) filter: Filter,
    /// From the very first.
    pub(crate) events: broadcast::Receiver<Event>,
    pub(crate) running: JoinHandle<(Ending, Sockets)>,
}

impl Node {
    /// Waits until the view is so.
    pub(crate) async fn sees(&self, what: &str, mut is_so: impl FnMut(&View) -> bool) {
        let mut views = self.cluster.watch();
        let seen = timeout(PATIENCE, views.wait_for(|view| is_so(view))).await;
        let waited = matches!(seen, Ok(Ok(_)));
        assert!(waited, "{} never saw {what}; it sees {:#?}", self.me, self.cluster.view());
    }

    /// Waits until so many are alive, itself included, and nobody else is known.
    pub(crate) async fn sees_alive(&self, count: usize) {
        let all = |view: &View| view.counts.alive == count && view.members.len() == count;
        self.sees(&format!("{count} members"), all).await;
    }

    /// Waits until that node is in this state.
    pub(crate) async fn sees_state(&self, who: Identity, state: State) {
        let is_so = |view: &View| {
            view.member(who.id).is_some_and(|member| member.identity == who && member.state == state)
        };
        self.sees(&format!("{who} {state:?}"), is_so).await;
    }

    /// Waits until the counts are so.
    pub(crate) async fn counts(&self, what: &str, mut is_so: impl FnMut(&Stats) -> bool) {
        let mut stats = self.cluster.watch_stats();
        let seen = timeout(PATIENCE, stats.wait_for(|stats| is_so(stats))).await;
        let waited = matches!(seen, Ok(Ok(_)));
        assert!(waited, "{} never counted {what}; it counts {:#?}", self.me, self.cluster.stats());
    }

    /// Waits until this many more datagrams were let in.
    pub(crate) async fn hears(&self, more: u64) {
        let heard = |stats: &Stats| stats.datagrams_in - stats.dropped.total();
        let before = heard(&self.cluster.stats());
        self.counts(&format!("{more} more datagrams"), |stats| heard(stats) >= before + more).await;
    }

    /// The events so far.
    pub(crate) fn events_so_far(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// As if its machine had lost its power: not a word to anybody.
    pub(crate) async fn crash(self) {
        self.running.abort();
        assert!(self.running.await.is_err_and(|error| error.is_cancelled()));
    }

    /// How it ended.
    pub(crate) async fn ended(self) -> (Ending, Sockets) {
        timeout(PATIENCE, self.running).await.expect("ends in time").expect("does not panic")
    }
}

pub(crate) fn machine(me: Identity, info: Info) -> Machine {
    let random = u64::from(me.id.0) * 1_000 + u64::from(me.epoch.0);
    Machine::new(SystemClock.monotonic(), Arc::new(config()), me, info, Vec::new(), random)
}

/// A cluster of nodes 1 to `count` in which all see all.
pub(crate) async fn form(count: u32, seal: &Seal) -> Vec<Node> {
    let first = Plan::new(1, seal.clone()).start().await;
    let addr = first.addr;
    let mut nodes = vec![first];
    for id in 2..=count {
        nodes.push(Plan::new(id, seal.clone()).joining(addr).start().await);
    }
    for node in &nodes {
        node.sees_alive(count as usize).await;
    }
    nodes
}

/// True if somebody is doubted.
pub(crate) fn is_doubt(event: &Event) -> bool {
    matches!(event, Event::Suspected(..) | Event::Dead(..) | Event::Lonely | Event::WeRefuted(_))
}
