//! Volatile queues: what they are, and which jobs they take.

use model::QueuePatch;

use super::adopted::volatile_job;
use super::bench::{Bench, MANY, QUEUE, new_job};
use crate::error::StoreError;

pub(super) async fn volatile_queue_is_exclusive_whatever_is_set(bench: &Bench) {
    let client = bench.attend().await;
    let ordinary =
        QueuePatch { exclusive: Some(false), max_attempts: Some(Some(3)), ..QueuePatch::default() };
    let settings = bench.set_queue(QUEUE, ordinary).await;
    assert_eq!((settings.volatile, settings.exclusive, settings.max_attempts), (true, true, Some(3)));
    assert!(bench.is_volatile(QUEUE));
    bench.add(volatile_job(client.job(1))).await;
    let stats = bench.stats().await;
    assert!(stats.iter().all(|queue| queue.settings.volatile && queue.settings.exclusive), "{stats:?}");
    let settings = bench.queue_settings().await;
    assert!(settings.iter().all(|(_, settings)| settings.volatile && settings.exclusive), "{settings:?}");
    assert_eq!(bench.claim("plain", MANY).await, [], "only to those who can stop it");
    assert_eq!(bench.start("able").await.job, client.job(1));
    assert_eq!(bench.job(client.job(1)).await.max_attempts, 3);
}

pub(super) async fn durable_id_is_refused(bench: &Bench) {
    let client = bench.attend().await;
    let refused = bench.try_enqueue(vec![volatile_job(client.job(1)), new_job(2)]).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(bench.all().await, [], "nothing of the batch is taken");
}
