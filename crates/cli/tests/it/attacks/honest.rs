//! A client in order, beside an attack: it enqueues, and every job of its is taken.

use std::time::{Duration, Instant};

use rpc::wire;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use worker::Client;

use super::{Fleet, PATIENCE};
use crate::support::http;

/// Calls until it is stopped.
pub(super) struct Honest {
    stop: oneshot::Sender<()>,
    running: JoinHandle<(usize, Duration)>,
}

impl Honest {
    pub(super) fn start(fleet: &Fleet) -> Honest {
        let (stop, mut stopped) = oneshot::channel();
        let url = fleet.server.url.clone();
        let running = tokio::spawn(async move {
            let client = Client::connect(&url).expect("a valid address");
            let (mut calls, mut worst) = (0, Duration::ZERO);
            while stopped.try_recv().is_err() {
                let begun = Instant::now();
                let payload = rpc::convert::payload("{\"to\":\"ann\"}");
                let job = wire::NewJob { queue: "honest".to_owned(), payload, ..Default::default() };
                let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
                let enqueued = tokio::time::timeout(PATIENCE, client.enqueue(request)).await;
                enqueued.expect("in time").expect("the honest client is served");
                let read = tokio::time::timeout(PATIENCE, http(&url, "GET", "/healthz", "")).await;
                assert_eq!(read.expect("in time").0, 200);
                worst = worst.max(begun.elapsed());
                calls += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (calls, worst)
        });
        Honest { stop, running }
    }

    /// How often it was served, and how long it had to wait at most.
    pub(super) async fn stop(self) -> (usize, Duration) {
        let _ = self.stop.send(());
        self.running.await.expect("the honest client was served throughout")
    }
}
