//! A server makes only so many queues. Those that are there go on.

use std::sync::Arc;

use node::NodeConfig;
use rpc::wire;
use store::MemoryStore;
use worker::SubmitOptions;

use crate::support::{Server, SteppedClock};

async fn enqueue(server: &Server, queues: &[&str]) -> (u16, String) {
    let jobs: Vec<_> = queues.iter().map(|queue| serde_json::json!({"queue": queue})).collect();
    let body = serde_json::json!({"jobs": jobs}).to_string();
    server.http_text("POST", "/v1/jobs", &body).await
}

fn config(queues_max: usize) -> NodeConfig {
    NodeConfig { queues_max, ..NodeConfig::default() }
}

/// A server with room for three queues, in every way in which one is made.
async fn is_limited(server: &Server) {
    assert_eq!(enqueue(server, &["a", "b", "a"]).await.0, 200);
    let (status, why) = enqueue(server, &["c", "d"]).await;
    assert_eq!(status, 409, "all of a call or nothing: {why}");
    assert!(why.contains("there may be 3 queues, 2 are there") && why.contains("--max-queues"), "{why}");
    assert_eq!(server.http("PUT", "/v1/queues/c", "{\"max_attempts\": 2}").await.0, 200);
    for _ in 0..2 {
        assert_eq!(enqueue(server, &["d"]).await.0, 409);
        assert_eq!(server.http("PUT", "/v1/queues/d", "{\"paused\": true}").await.0, 409);
        assert_eq!(enqueue(server, &["c", "b"]).await.0, 200);
        assert_eq!(server.http("PUT", "/v1/queues/a", "{\"max_attempts\": 2}").await.0, 200);
    }
    let (_, queues) = server.http("GET", "/v1/queues", "").await;
    assert_eq!(queues["queues"].as_array().map(Vec::len), Some(3), "{queues}");
}

#[tokio::test]
async fn a_store_on_disk_is_filled_with_no_more_queues_than_there_may_be() {
    let server = Server::start_with(config(3)).await;
    is_limited(&server).await;
    // A smaller limit closes no queue, and a larger one opens the door again.
    let server = server.restart_with(config(1)).await;
    assert_eq!(enqueue(&server, &["a", "b", "c"]).await.0, 200);
    assert_eq!(enqueue(&server, &["d"]).await.0, 409);
    let server = server.restart_with(config(4)).await;
    assert_eq!(enqueue(&server, &["d"]).await.0, 200);
    assert_eq!(enqueue(&server, &["e"]).await.0, 409);
    server.stop().await;
}

#[tokio::test]
async fn volatile_jobs_make_no_more_queues_and_whoever_submits_is_told() {
    let store = MemoryStore::volatile(Arc::new(SteppedClock::default()));
    let server = Server::start_on(config(3), Arc::new(store)).await;
    is_limited(&server).await;
    let submitter = server.client.submitter(SubmitOptions::default());
    let job = |queue: &str| wire::NewJob { queue: queue.to_owned(), ..Default::default() };
    let refused = submitter.submit(job("d")).await.expect("it is taken here").await;
    let error = refused.expect_err("the server does not take it");
    assert!(error.to_string().contains("--max-queues"), "{error}");
    // The stream goes on, and nothing else was held up.
    let (one, other) = tokio::join!(submitter.submit(job("d")), submitter.submit(job("a")));
    assert!(one.expect("it is taken here").await.is_err());
    drop(other.expect("it is taken here"));
    server.stop().await;
}

#[tokio::test]
async fn queues_that_another_server_made_can_be_used_by_one_that_makes_no_more() {
    let store = Arc::new(MemoryStore::shared(Arc::new(SteppedClock::default())));
    let (full, other) =
        (Server::start_on(config(1), store.clone()).await, Server::start_on(config(5), store).await);
    assert_eq!(enqueue(&full, &["a"]).await.0, 200);
    assert_eq!(enqueue(&full, &["b"]).await.0, 409);
    assert_eq!(enqueue(&other, &["b", "c"]).await.0, 200);
    assert_eq!(enqueue(&full, &["b", "c"]).await.0, 200, "it asks the store before it refuses");
    assert_eq!(enqueue(&full, &["d"]).await.0, 409);
    full.stop().await;
    other.stop().await;
}
