//! Many servers of one cluster in this process, each with its own sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
    gossip: Vec<SocketAddr>,
    shutdown: CancellationToken,
    running: JoinSet<std::io::Result<()>>,
}

impl Cloud {
    /// So many at once; all but the first join through the first.
    async fn start(count: u32) -> Cloud {
        let (urls, gossip) = (Vec::new(), Vec::new());
        let mut cloud = Cloud { urls, gossip, shutdown: CancellationToken::new(), running: JoinSet::new() };
        for id in 1..=count {
            cloud.add(id, cloud.gossip.first().copied()).await;
        }
        cloud
    }

    async fn add(&mut self, id: u32, seed: Option<SocketAddr>) {
        let last = AtomicU32::new(0);
        let epochs = move |than: Epoch| {
            let next = than.0.max(last.load(Ordering::Relaxed)) + 1;
            last.store(next, Ordering::Relaxed);
            Ok(Epoch(next))
        };
        self.add_with(id, seed, epochs).await;
    }

    async fn add_with(
        &mut self,
        id: u32,
        seed: Option<SocketAddr>,
        epochs: impl FnMut(Epoch) -> std::io::Result<Epoch> + Send + 'static,
    ) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = Sockets::bind(any).await.expect("free ports");
        let listener = TcpListener::bind(any).await.expect("a free port");
        let address = sockets.local_addr().expect("it is bound");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
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
            epochs: Box::new(epochs),
        };
        let clock = Arc::new(SystemClock);
        let mut node = Node::new(Arc::new(MemoryStore::new(clock.clone())), clock);
        node.config.address.clone_from(&url);
        node.cluster = Some(cluster);
        self.running.spawn(node::run(node, listener, self.shutdown.clone()));
        self.urls.push(url);
        self.gossip.push(address);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_told_to_leave_between_two_epochs_leaves() {
    let mut cloud = Cloud::start(1).await;
    let (is_between, mut between) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, going_on) = std::sync::mpsc::channel();
    let mut last = 0;
    let epochs = move |than: Epoch| {
        if last > 0 {
            is_between.send(()).expect("the test waits");
            // Others have work to do meanwhile, also what waits for this thread.
            tokio::task::block_in_place(|| going_on.recv()).expect("the test goes on");
        }
        last = last.max(than.0) + 1;
        Ok(Epoch(last))
    };
    let seed = cloud.gossip[0];
    cloud.add_with(2, Some(seed), epochs).await;
    let [first, second] = [0, 1].map(|index| cloud.urls[index].clone());
    sees_alive(first.clone(), 2).await;
    let mut client = NodesClient::connect(first).await.expect("the server listens");
    client.forget(wire::ForgetNodeRequest { id: 2, force: true }).await.expect("it is there");
    between.recv().await.expect("it is between two epochs");

    let mut client = NodesClient::connect(second.clone()).await.expect("the server listens");
    let leaving = tokio::spawn(async move { client.leave(wire::LeaveNodesRequest {}).await });
    // An answer to what was asked after it: the leave is under way by now.
    let mut client = NodesClient::connect(second).await.expect("the server listens");
    let listing = tokio::time::timeout(PATIENCE, client.list(wire::ListNodesRequest {})).await;
    let listed = listing.expect("in time").expect("it answers").into_inner();
    assert_eq!(listed.standing, "rejoining");
    go_on.send(()).expect("it waits");
    let left = leaving.await.expect("no panic").expect("it leaves").into_inner();
    assert_eq!((left.state.as_str(), left.epoch), ("left", 2));
    cloud.stop().await;
}

#[tokio::test]
async fn a_server_that_could_not_keep_its_epoch_joins_when_it_can() {
    let mut cloud = Cloud::start(1).await;
    let is_full = Arc::new(AtomicBool::new(true));
    let disk = Arc::clone(&is_full);
    let epochs = move |_: Epoch| match disk.load(Ordering::Relaxed) {
        true => Err(std::io::ErrorKind::StorageFull.into()),
        false => Ok(Epoch(1)),
    };
    let seed = cloud.gossip[0];
    cloud.add_with(2, Some(seed), epochs).await;
    let mut late = NodesClient::connect(cloud.urls[1].clone()).await.expect("the server listens");
    let listed = late.list(wire::ListNodesRequest {}).await.expect("it answers").into_inner();
    assert!(listed.standing == "ousted" && listed.why.contains("no storage space"), "{listed:?}");
    is_full.store(false, Ordering::Relaxed);
    sees_alive(cloud.urls[0].clone(), 2).await;
    let listed = late.list(wire::ListNodesRequest {}).await.expect("it answers").into_inner();
    assert_eq!((listed.standing.as_str(), listed.why.as_str()), ("member", ""));
    cloud.stop().await;
}

#[tokio::test]
async fn a_server_whose_membership_breaks_says_so() {
    let mut cloud = Cloud::start(1).await;
    let mut starts = 0;
    let epochs = move |_: Epoch| {
        starts += 1;
        assert_eq!(starts, 1, "broken on purpose");
        Ok(Epoch(starts))
    };
    let seed = cloud.gossip[0];
    cloud.add_with(2, Some(seed), epochs).await;
    sees_alive(cloud.urls[0].clone(), 2).await;
    let mut broken = NodesClient::connect(cloud.urls[1].clone()).await.expect("the server listens");
    let mut events = broken.watch(wire::WatchNodesRequest {}).await.expect("it is there").into_inner();
    let mut client = NodesClient::connect(cloud.urls[0].clone()).await.expect("the server listens");
    client.forget(wire::ForgetNodeRequest { id: 2, force: true }).await.expect("it is there");
    let ousted = async {
        while let Some(event) = events.message().await.expect("the stream holds") {
            if event.event == "ousted" {
                return event.reason;
            }
        }
        panic!("the stream ended");
    };
    let why = tokio::time::timeout(PATIENCE, ousted).await.expect("it notices");
    assert!(why.contains("broke down"), "{why}");
    let listed = broken.list(wire::ListNodesRequest {}).await.expect("it answers").into_inner();
    assert_eq!(listed.standing, "ousted");
    cloud.stop().await;
}
