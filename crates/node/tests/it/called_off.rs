//! Cancelling at one server what is held at another: word of it may be lost, and may be forged.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use node::NodeConfig;
use serde_json::{Value, json};
use store::{JobStore, MemoryStore, News};

use crate::support::Server;
use crate::workers::{Plain, claim, enqueue, hold};

/// A server with a worker that holds two jobs, and the store as another server sees it.
struct Scene {
    server: Server,
    other: MemoryStore,
    worker: Plain,
    jobs: [Value; 2],
    digest: Value,
}

impl Scene {
    async fn new() -> Scene {
        let store = MemoryStore::shared(Arc::new(SystemClock));
        let other = store.seat();
        let server = Server::start_on(NodeConfig::default(), Arc::new(store)).await;
        let mut worker = Plain::new("ann");
        // A server that has just started puts workers off until it has a registry.
        while worker.beat(&server, json!({})).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for payload in [1, 2] {
            enqueue(&server, json!({"queue": "q", "payload": payload})).await;
        }
        let jobs = [claim(&server, "ann", 0).await, claim(&server, "ann", 0).await];
        let bind = worker.bind_all(&[&jobs[0], &jobs[1]]);
        worker.ok(&server, bind.clone()).await;
        let digest = json!({"digest_count": bind["digest_count"], "digest_hash": bind["digest_hash"]});
        Scene { server, other, worker, jobs, digest }
    }

    /// Beats until it is told to stop something: what.
    async fn stops(&mut self) -> Vec<Value> {
        let told = async {
            loop {
                let answer = self.worker.ok(&self.server, self.digest.clone()).await;
                let stops = answer["stops"].as_array().cloned().unwrap_or_default();
                if !stops.is_empty() {
                    return stops.into_iter().map(|stop| stop["job"].clone()).collect();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told")
    }

    /// Asks the store alone, as a server does whose word gets lost.
    async fn cancel(&self, job: usize) {
        self.other.cancel(vec![hold(&self.jobs[job]).job]).await.expect("the store answers");
    }

    fn say_cancelled(&self, job: usize) {
        let holder = "ann".parse().expect("a key");
        self.other.tell(News::CancelAsked { holder, hold: hold(&self.jobs[job]) });
    }
}

#[tokio::test]
async fn a_cancel_whose_word_was_lost_is_found_by_looking() {
    let mut scene = Scene::new().await;
    scene.cancel(0).await;
    scene.other.tell(News::Missed);
    assert_eq!(scene.stops().await, [scene.jobs[0]["job"].clone()]);
    scene.server.stop().await;
}

#[tokio::test]
async fn a_word_that_the_store_does_not_confirm_stops_nothing() {
    let mut scene = Scene::new().await;
    scene.say_cancelled(0);
    // The next word is true, and was said later.
    scene.cancel(1).await;
    scene.say_cancelled(1);
    assert_eq!(scene.stops().await, [scene.jobs[1]["job"].clone()]);
    scene.server.stop().await;
}
