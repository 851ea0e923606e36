//! Queues: settings and numbers.

use std::time::Duration;

use model::{Growth, NewJob, QueuePatch, QueueSettings, Retry, RetryPolicy, State, When};

use super::bench::{Bench, MANY, QUEUE, completed, failed_with, id, job_in, new_job, queue, secs};

pub(super) async fn queue_exists_from_its_first_job(bench: &Bench) {
    assert_eq!(bench.stats().await, []);
    bench.enqueue(vec![job_in("b", 1), job_in("a", 2), job_in("b.c", 3), job_in("B", 4)]).await;
    let names: Vec<_> = bench.stats().await.into_iter().map(|stats| stats.queue).collect();
    assert_eq!(names, ["B", "a", "b", "b.c"].map(queue), "by name, byte by byte");
    assert!(bench.stats().await.iter().all(|stats| stats.settings == QueueSettings::default()));
    let names: Vec<_> = bench.queue_settings().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["B", "a", "b", "b.c"].map(queue), "and so without counting");
}

pub(super) async fn settings_can_come_before_the_first_job(bench: &Bench) {
    bench.pause("early", true).await;
    let stats = bench.stats().await;
    assert_eq!((stats.len(), stats[0].settings.paused, stats[0].counts), (1, true, [0; 6]));
    assert_eq!(stats[0].oldest, None);
    bench.add(job_in("early", 1)).await;
    assert_eq!(bench.claim_from("w", &["early"], MANY).await, [], "the first job keeps the settings");
}

pub(super) async fn patch_changes_only_what_it_names(bench: &Bench) {
    let policy = RetryPolicy { growth: Growth::Fixed, base: secs(5), delay_max: secs(5) };
    let all = QueuePatch {
        paused: Some(true),
        exclusive: Some(true),
        volatile: None,
        heartbeat_timeout: Some(Some(Duration::from_millis(1_500))),
        max_attempts: Some(Some(7)),
        retry: Some(Some(policy)),
    };
    let set = QueueSettings {
        paused: true,
        exclusive: true,
        volatile: false,
        heartbeat_timeout: Some(Duration::from_millis(1_500)),
        max_attempts: Some(7),
        retry: Some(policy),
    };
    assert_eq!(bench.set_queue(QUEUE, all).await, set);
    assert_eq!(bench.set_queue(QUEUE, QueuePatch::default()).await, set, "an empty patch reads");
    let back = QueuePatch { heartbeat_timeout: Some(None), paused: Some(false), ..QueuePatch::default() };
    let left = QueueSettings { heartbeat_timeout: None, paused: false, ..set };
    assert_eq!(bench.set_queue(QUEUE, back).await, left);
    assert_eq!(bench.stats().await[0].settings, left);
    assert_eq!(bench.queue_settings().await, [(queue(QUEUE), left)], "also without counting");
    let rest = QueuePatch {
        exclusive: Some(false),
        max_attempts: Some(None),
        retry: Some(None),
        ..QueuePatch::default()
    };
    assert_eq!(bench.set_queue(QUEUE, rest).await, QueueSettings::default());
}

pub(super) async fn settings_of_one_queue_are_not_anothers(bench: &Bench) {
    bench.enqueue(vec![job_in("a", 1), job_in("b", 2)]).await;
    bench.pause("a", true).await;
    let claimed = bench.claim_from("w", &["a", "b"], MANY).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.hold.job).collect::<Vec<_>>(), [id(2)]);
}

pub(super) async fn stats_count_every_state(bench: &Bench) {
    bench.enqueue((1..=5).map(new_job).collect()).await;
    let claimed = bench.claim("w", 4).await;
    bench.end("w", claimed[0].hold, completed()).await;
    bench.end("w", claimed[1].hold, failed_with(Retry::Never)).await;
    bench.end("w", claimed[2].hold, failed_with(Retry::After(secs(60)))).await;
    bench.enqueue(vec![new_job(6), new_job(7), job_in("other", 8)]).await;
    bench.cancel(id(7)).await;
    assert_eq!(bench.counts(QUEUE).await, [1, 2, 1, 1, 1, 1]);
    assert_eq!(bench.counts("other").await, [0, 1, 0, 0, 0, 0]);
}

pub(super) async fn oldest_is_the_longest_ready_of_any_priority(bench: &Bench) {
    let oldest = async || bench.stats().await[0].oldest;
    bench.add(NewJob { priority: -3, ..new_job(1) }).await;
    bench.add(NewJob { when: When::After(secs(5)), ..new_job(2) }).await;
    bench.advance(secs(10));
    bench.add(NewJob { priority: 9, ..new_job(3) }).await;
    assert_eq!(oldest().await, Some(secs(10)), "though it will be claimed last");
    bench.cancel(id(1)).await;
    assert_eq!(oldest().await, Some(Duration::ZERO), "a scheduled job is not ready");
    bench.promote(MANY).await;
    assert_eq!(oldest().await, Some(secs(5)), "ready since it was due");
    bench.claim("w", MANY).await;
    assert_eq!(oldest().await, None);
    assert_eq!(bench.counts(QUEUE).await[State::Running as usize], 2);
}
