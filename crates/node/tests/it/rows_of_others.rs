//! Rows whose holders another server judges: left alone, and not looked at over and over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{JobId, Kind, NewJob, Nonce, QueueName, RegistryId, WorkerKey};
use node::NodeConfig;
use store::{Claim, Enlist, EnqueueBatch, JobStore as _};

use crate::gated::Gated;
use crate::support::Server;

#[tokio::test]
async fn they_are_not_ours_to_judge_and_cost_next_to_nothing() {
    let store = Arc::new(Gated::new());
    let (queue, holder) = (QueueName::new("q").expect("a name"), WorkerKey::new("theirs").expect("a key"));
    let id = JobId::from_bytes([1; 16]);
    let job = NewJob::new(id, queue.clone(), Kind::new("k").expect("a kind"), Default::default());
    store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.expect("accepted");
    let theirs = Enlist {
        key: holder.clone(),
        nonce: Nonce::new(1),
        registry: Some(RegistryId(NodeConfig::default().registry.0 + 1)),
        grant: Duration::from_secs(20),
        name: String::new(),
    };
    store.enlist(vec![theirs]).await.expect("enlisted");
    let claim = Claim {
        holder,
        queues: vec![queue],
        limit: 1,
        lease: Duration::from_millis(500),
        bytes_max: usize::MAX,
        exclusive: false,
    };
    assert_eq!(store.claim(claim).await.expect("claimed").len(), 1);

    let server = Server::start_on(NodeConfig::default(), store.clone()).await;
    while store.looks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The length of the observation: a loop without a pause would look thousands of times.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let looks = store.looks.load(Ordering::SeqCst);
    assert!(looks < 20, "looked {looks} times in a second");
    let job = store.get(id).await.expect("an answer").expect("the job");
    assert_eq!(job.state, model::State::Running, "its own server may know better");
    server.stop().await;
}
