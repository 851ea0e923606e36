//! A server that cannot say that it is alive: it loses its workers once, and has seen nothing until it has looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::SystemClock;
use node::NodeConfig;
use serde_json::json;
use store::MemoryStore;

use crate::gated::Gated;
use crate::support::Server;

/// Waits until this is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it happens");
}

async fn servers_seen(server: &Server) -> usize {
    let (_, list) = server.http("GET", "/v1/servers", "").await;
    list["servers"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn a_server_that_is_cut_off_loses_its_registry_once() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated::on(store.seat()));
    let cut_off = Server::start_on(NodeConfig::default(), gated.clone()).await;
    let other = Server::start_on(NodeConfig::default(), Arc::new(store)).await;
    until(async || servers_seen(&cut_off).await == 2 && servers_seen(&other).await == 2).await;

    gated.is_cut_off.store(true, Ordering::SeqCst);
    // The other takes over, and says so when it is asked. The next registry is made, and its beats fail as well.
    until(async || gated.founded.load(Ordering::SeqCst) == 2).await;
    let failed = gated.beats_failed.load(Ordering::SeqCst);
    until(async || gated.beats_failed.load(Ordering::SeqCst) >= failed + 8).await;
    assert_eq!(gated.founded.load(Ordering::SeqCst), 2, "what the other saw before was held against it");

    gated.is_cut_off.store(false, Ordering::SeqCst);
    until(async || servers_seen(&cut_off).await == 2 && servers_seen(&other).await == 2).await;
    assert_eq!(gated.founded.load(Ordering::SeqCst), 2);
    cut_off.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_server_that_has_not_looked_yet_does_not_say_that_nobody_is_there() {
    let store = MemoryStore::shared(Arc::new(SystemClock));
    let gated = Arc::new(Gated { is_cut_off: AtomicBool::new(true), ..Gated::on(store) });
    let server = Server::start_on(NodeConfig::default(), gated.clone()).await;
    until(async || gated.beats_failed.load(Ordering::SeqCst) > 0).await;
    let (status, problem) = server.http("GET", "/v1/servers", "").await;
    assert_eq!((status, &problem["type"]), (503, &json!("unavailable")), "{problem}");
    gated.is_cut_off.store(false, Ordering::SeqCst);
    until(async || servers_seen(&server).await == 1).await;
    server.stop().await;
}
