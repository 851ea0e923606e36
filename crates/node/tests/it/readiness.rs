//! `/readyz` asks the store, but not more often than it must.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use node::NodeConfig;
use tokio::sync::Semaphore;

use crate::gated::Gated;
use crate::support::Server;

#[tokio::test]
async fn all_who_ask_at_the_same_time_share_one_probe() {
    let store = Arc::new(Gated { checks: Semaphore::new(0), ..Gated::new() });
    let server = Arc::new(Server::start_on(NodeConfig::default(), store.clone()).await);
    let ask = || {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.http_text("GET", "/readyz", "").await })
    };
    // The store does not answer: it is not ready, and is not asked again and again.
    let unanswered: Vec<_> = (0..20).map(|_| ask()).collect();
    for answer in unanswered {
        let (status, why) = answer.await.expect("it is answered");
        assert_eq!((status, why.trim()), (503, "store unavailable: no commit within 2s"));
    }
    assert_eq!(server.http_text("GET", "/readyz", "").await.0, 503);
    assert_eq!(store.probes.load(Ordering::SeqCst), 1);

    // It does, and is asked for nothing that it has answered within the last second.
    store.checks.add_permits(Semaphore::MAX_PERMITS / 2);
    let begun = std::time::Instant::now();
    while server.http_text("GET", "/readyz", "").await.0 != 200 {}
    for _ in 0..50 {
        assert_eq!(server.http_text("GET", "/readyz", "").await.0, 200);
    }
    let asked = u64::from(store.probes.load(Ordering::SeqCst)) - 1;
    assert!(asked <= begun.elapsed().as_secs() + 1, "{asked} times in {:?}", begun.elapsed());
}
