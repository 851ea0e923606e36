//! Many servers of one cluster in this process, each with its own sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clock::SystemClock;
use gossip_udp::{Filter, Seal, Sockets};
use node::{Cluster, Node};
use rpc::wire;
use rpc::wire::nodes_client::NodesClient;
use store::MemoryStore;
use swim::{Config, Epoch, NodeId};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

/// Servers that stop when this is dropped.
struct Cloud {
    urls: Vec<String>,
    shutdown: CancellationToken,
    running: JoinSet<std::io::Result<()>>,
}

impl Cloud {
    /// So many at once; all but the first join through the first.
    async fn start(count: u32) -> Cloud {
        let mut cloud =
            Cloud { urls: Vec::new(), shutdown: CancellationToken::new(), running: JoinSet::new() };
        let mut seed = None;
        for id in 1..=count {
            let gossip = cloud.add(id, seed).await;
            seed = seed.or(Some(gossip));
        }
        cloud
    }

    async fn add(&mut self, id: u32, seed: Option<SocketAddr>) -> SocketAddr {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = Sockets::bind(any).await.expect("free ports");
        let listener = TcpListener::bind(any).await.expect("a free port");
        let address = sockets.local_addr().expect("it is bound");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let last = AtomicU32::new(0);
        let cluster = Cluster {
            id: NodeId(id),
            name: "test".to_owned(),
            config: Config::fast(),
            join: seed.iter().map(ToString::to_string).collect(),
            sockets,
            address,
            seal: Seal::Open,
            insecure: false,
            filter: Filter::default(),
            epochs: Box::new(move |than| {
                let next = than.0.max(last.load(Ordering::Relaxed)) + 1;
                last.store(next, Ordering::Relaxed);
                Ok(Epoch(next))
            }),
        };
        let clock = Arc::new(SystemClock);
        let mut node = Node::new(Arc::new(MemoryStore::new(clock.clone())), clock);
        node.config.address.clone_from(&url);
        node.cluster = Some(cluster);
        self.running.spawn(node::run(node, listener, self.shutdown.clone()));
        self.urls.push(url);
        address
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no server panics").expect("every server ends well");
        }
    }
}

/// Watches through this server until it sees so many alive; answers when that was.
async fn sees_alive(url: String, count: usize) -> Instant {
    let mut client = NodesClient::connect(url).await.expect("the server listens");
    let request = wire::WatchNodesRequest {};
    let mut events = client.watch(request).await.expect("it is in a cluster").into_inner();
    let mut alive = std::collections::BTreeSet::new();
    while alive.len() < count {
        let next = tokio::time::timeout(PATIENCE, events.message()).await;
        let event = next.unwrap_or_else(|_| panic!("only {} of {count} in time", alive.len()));
        let node = event.expect("the stream holds").expect("the server goes on").node.unwrap_or_default();
        match node.state.as_str() {
            "alive" => alive.insert(node.id),
            _ => alive.remove(&node.id),
        };
    }
    Instant::now()
}

/// Servers in the storm; `TENURE_SOAK_NODES` asks for more.
fn storm() -> u32 {
    std::env::var("TENURE_SOAK_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_joins_through_one_node_ends_with_all_seeing_all() {
    let count = storm();
    let began = Instant::now();
    let cloud = Cloud::start(count).await;
    let started = began.elapsed();
    let mut eyes: JoinSet<Instant> =
        cloud.urls.iter().map(|url| sees_alive(url.clone(), count as usize)).collect();
    let mut last = began;
    while let Some(seen) = eyes.join_next().await {
        last = last.max(seen.expect("no watcher panics"));
    }
    println!("{count} servers started within {started:?}, all saw all after {:?}", last - began);
    cloud.stop().await;
}
