//! Taking over the workers of a server that is gone, when the store does not answer as one would like.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bytes::Bytes;
use clock::SystemClock;
use model::{HolderEnd, JobId, Kind, NewJob, Nonce, QueueName, RegistryId, State, WorkerKey};
use node::NodeConfig;
use serde_json::json;
use store::{Claim, Enlist, EnqueueBatch, JobStore, MemoryStore, ServerInfo};
use tokio::sync::Semaphore;

use crate::gated::Gated;
use crate::support::Server;

fn key(name: &str) -> WorkerKey {
    name.parse().expect("a valid key")
}

fn info(name: &str) -> ServerInfo {
    ServerInfo { name: name.to_owned(), address: String::new() }
}

/// A server has gone and left a worker behind that never speaks again.
async fn left_behind(store: &MemoryStore, worker: &str) -> RegistryId {
    let registry = store.found(info("gone")).await.expect("a registry");
    let grant = Duration::from_millis(500);
    let (nonce, name) = (Nonce::new(1), worker.to_owned());
    let worker = Enlist { key: key(worker), nonce, registry, pings: false, grant, name };
    store.enlist(vec![worker]).await.expect("it is taken in");
    store.resign(registry).await.expect("nobody waits for it");
    registry
}

/// Waits until somebody has judged this worker.
async fn is_judged(store: &MemoryStore, worker: &str) -> HolderEnd {
    let judged = async {
        loop {
            let known = store.worker(&key(worker)).await.expect("the store answers").expect("a known worker");
            if let Some((end, _)) = known.ended {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), judged).await.expect("somebody is in charge of it")
}

#[tokio::test]
async fn a_take_over_that_happened_unheard_is_asked_about_until_it_is_answered() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Gated { take_overs_unheard: AtomicU32::new(3), ..Gated::on(store.seat()) };
    left_behind(&store, "ann").await;
    let server = Server::start_on(NodeConfig::default(), Arc::new(gated)).await;
    assert_eq!(is_judged(&store, "ann").await, HolderEnd::Expired);
    server.stop().await;
}

/// The server died after it had declared the worker terminal, and before it took back what that holds.
#[tokio::test]
async fn what_an_ended_worker_holds_is_taken_back_though_its_lease_is_long() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let queue = QueueName::new("q").expect("a valid name");
    let jobs = [(1, "ann", HolderEnd::Expired), (2, "bob", HolderEnd::Left)];
    for (number, worker, end) in jobs {
        let kind = Kind::new("k").expect("a valid kind");
        let job = NewJob::new(JobId::from_bytes([number; 16]), queue.clone(), kind, Bytes::new());
        store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.expect("it is taken in");
        let claim = Claim {
            holder: key(worker),
            queues: vec![queue.clone()],
            limit: 1,
            bytes_max: usize::MAX,
            lease: Duration::from_secs(3600),
            exclusive: false,
        };
        assert_eq!(store.claim(claim).await.expect("an answer").len(), 1);
        let registry = left_behind(&store, worker).await;
        assert!(store.retire(&key(worker), end, registry).await.expect("an answer"));
    }
    let server = Server::start_on(NodeConfig::default(), Arc::new(store.seat())).await;
    let back = async {
        for (number, _, end) in jobs {
            let job = loop {
                let job =
                    store.get(JobId::from_bytes([number; 16])).await.expect("an answer").expect("a job");
                if job.state != State::Running {
                    break job;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            let counted = u32::from(end == HolderEnd::Expired);
            assert_eq!(job.lost, counted, "a loss counts unless the worker had left");
        }
    };
    tokio::time::timeout(Duration::from_secs(30), back).await.expect("both are offered again");
    server.stop().await;
}

#[tokio::test]
async fn a_take_over_that_a_lost_registry_began_is_begun_again_by_the_next() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated {
        take_overs: Semaphore::new(0),
        take_overs_unheard: AtomicU32::new(1),
        ..Gated::on(store.seat())
    });
    let gone = left_behind(&store, "ann").await;
    let server = Server::start_on(NodeConfig::default(), gated.clone()).await;

    // Somebody takes that server's registry while it is about to take over the other one.
    let other = store.found(info("other")).await.expect("a registry");
    loop {
        let peers = store.beat(other).await.expect("the store answers").expect("it is there");
        let theirs = peers.iter().find(|peer| ![gone, other].contains(&peer.registry));
        // Its first beat shows it whom to take over.
        let Some(theirs) = theirs.filter(|peer| peer.beats > 1) else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if store.take_over(theirs.registry, theirs.beats, other).await.expect("an answer").is_some() {
            break;
        }
    }
    // It finds out, and founds another.
    loop {
        let peers = store.beat(other).await.expect("the store answers").expect("it is there");
        if peers.iter().any(|peer| ![gone, other].contains(&peer.registry)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gated.take_overs.add_permits(Semaphore::MAX_PERMITS);
    assert_eq!(is_judged(&store, "ann").await, HolderEnd::Expired);
    server.stop().await;
}

#[tokio::test]
async fn nobody_speaks_for_a_worker_while_it_is_taken_over() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated {
        take_overs: Semaphore::new(1),
        take_overs_unheard: AtomicU32::new(1),
        ..Gated::on(store.seat())
    });
    let gone = left_behind(&store, "ann").await;
    let server = Server::start_on(NodeConfig::default(), gated.clone()).await;
    // It has happened, and the server does not know yet.
    while store.worker(&key("ann")).await.expect("an answer").expect("known").worker.registry == gone {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let leave = json!({"nonce": 99, "all_stopped": true}).to_string();
    let leaving = server.http("POST", "/v1/workers/ann/leave", &leave);
    let meanwhile = async {
        for _ in 0..20 {
            let report = json!({"worker": "ann", "reports": []}).to_string();
            let (status, problem) = server.http("POST", "/v1/work/finish", &report).await;
            assert_eq!(status, 503, "{problem}");
        }
        gated.take_overs.add_permits(Semaphore::MAX_PERMITS >> 1);
    };
    tokio::join!(leaving, meanwhile);
    assert_eq!(is_judged(&store, "ann").await, HolderEnd::Expired, "another process said that it had left");
    server.stop().await;
}
