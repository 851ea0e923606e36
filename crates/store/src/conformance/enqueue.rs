//! Jobs come in, now or for later.

use std::time::Duration;

use bytes::Bytes;
use model::{
    Fence, Growth, Job, Limits, NewJob, QueuePatch, RetryPolicy, State, UniqueKey, UniqueScope, WallTime,
    When,
};

use super::bench::{
    Bench, MANY, MILLI, QUEUE, completed, duplicate, id, inserted, job_in, kind, new_job, queue, secs, text,
};
use crate::port::EnqueueAnswer;

pub(super) async fn new_job_keeps_what_the_producer_gave(bench: &Bench) {
    let policy = RetryPolicy { growth: Growth::Quadratic, base: secs(2), delay_max: secs(60) };
    let new = NewJob {
        id: id(1),
        queue: queue("mail.high"),
        kind: kind("send-mail"),
        payload: Bytes::from_static(&[0, 255, 10, 0, 39, 34]),
        content_type: "application/octet-stream".into(),
        priority: -7,
        when: When::Now,
        max_attempts: Some(3),
        max_lost: Some(2),
        heartbeat_timeout: Some(secs(45)),
        timeout: Some(Duration::from_millis(90_001)),
        retry: Some(policy),
        unique_key: Some(UniqueKey::new("user 7 / 'welcome' ✓").unwrap()),
        unique_scope: UniqueScope::Retained,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    };
    bench.add(new.clone()).await;
    let expected = Job {
        id: new.id,
        queue: new.queue,
        kind: new.kind,
        payload: new.payload,
        content_type: new.content_type,
        priority: -7,
        state: State::Available,
        run_at: bench.wall(),
        attempt: 0,
        max_attempts: 3,
        lost: 0,
        max_lost: 2,
        fence: Fence::NONE,
        holder: None,
        lease_until: None,
        cancel_requested: false,
        heartbeat_timeout: new.heartbeat_timeout,
        timeout: new.timeout,
        retry: Some(policy),
        unique_key: new.unique_key,
        unique_scope: UniqueScope::Retained,
        reported_fence: Fence::NONE,
        enqueued_at: bench.wall(),
        started_at: None,
        finished_at: None,
        last_error: None,
        progress: None,
        checkpoint: None,
        result: None,
        traceparent: new.traceparent,
    };
    assert_eq!(bench.job(id(1)).await, expected);
}

pub(super) async fn extreme_values_survive(bench: &Bench) {
    let large = NewJob { payload: Bytes::from(vec![0xa5; 1 << 20]), priority: i16::MAX, ..new_job(1) };
    let tiny = NewJob {
        payload: Bytes::new(),
        content_type: "".into(),
        priority: i16::MIN,
        when: When::After(Limits::DELAY_MAX),
        max_attempts: Some(Limits::ATTEMPTS_MAX),
        heartbeat_timeout: Some(Limits::LEASE_MAX),
        timeout: Some(Limits::TIMEOUT_MAX),
        ..new_job(2)
    };
    bench.enqueue(vec![large.clone(), tiny.clone()]).await;
    let (kept_large, kept_tiny) = (bench.job(id(1)).await, bench.job(id(2)).await);
    assert_eq!((kept_large.payload, kept_large.priority), (large.payload, i16::MAX));
    assert_eq!((kept_tiny.payload, kept_tiny.priority), (Bytes::new(), i16::MIN));
    assert_eq!((kept_tiny.heartbeat_timeout, kept_tiny.timeout), (tiny.heartbeat_timeout, tiny.timeout));
    assert_eq!(kept_tiny.run_at, bench.wall() + Limits::DELAY_MAX);
    assert_eq!((kept_tiny.content_type.as_ref(), kept_tiny.max_attempts), ("", Limits::ATTEMPTS_MAX));
}

pub(super) async fn limits_come_from_the_job_else_the_queue_else_the_default(bench: &Bench) {
    bench.add(job_in("plain", 1)).await;
    let patch = QueuePatch { max_attempts: Some(Some(9)), ..QueuePatch::default() };
    bench.set_queue("set", patch).await;
    bench.add(job_in("set", 2)).await;
    bench.add(NewJob { max_attempts: Some(1), max_lost: Some(1), ..job_in("set", 3) }).await;
    let limits = async |number| {
        let job = bench.job(id(number)).await;
        (job.max_attempts, job.max_lost)
    };
    assert_eq!(limits(1).await, (Limits::ATTEMPTS_DEFAULT, Limits::LOST_DEFAULT));
    assert_eq!(limits(2).await, (9, Limits::LOST_DEFAULT));
    assert_eq!(limits(3).await, (1, 1));
}

pub(super) async fn delayed_job_is_scheduled(bench: &Bench) {
    let after = |number, secs| NewJob { when: When::After(Duration::from_secs(secs)), ..new_job(number) };
    let answer = bench.enqueue(vec![after(1, 60), after(2, 20), after(3, 40)]).await;
    assert_eq!(answer.next_run_in, Some(secs(20)), "the earliest of the batch");
    assert_eq!(answer.ready, [], "nothing may be claimed yet");
    let job = bench.job(id(2)).await;
    assert_eq!((job.state, job.run_at), (State::Scheduled, bench.wall() + secs(20)));
}

pub(super) async fn future_date_is_scheduled(bench: &Bench) {
    let date = bench.wall() + MILLI;
    let answer = bench.enqueue(vec![NewJob { when: When::At(date), ..new_job(1) }]).await;
    assert_eq!((answer.next_run_in, answer.ready), (Some(MILLI), vec![]));
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.run_at), (State::Scheduled, date));
}

pub(super) async fn zero_delay_and_past_date_mean_at_once(bench: &Bench) {
    let past = WallTime::from_millis(bench.wall().as_millis() - 5_000);
    let answer = bench
        .enqueue(vec![
            NewJob { when: When::After(Duration::ZERO), ..new_job(1) },
            NewJob { when: When::At(past), ..new_job(2) },
            NewJob { when: When::At(bench.wall()), ..new_job(3) },
        ])
        .await;
    assert_eq!((answer.next_run_in, answer.ready), (None, vec![queue(QUEUE)]));
    for (number, run_at) in [(1, bench.wall()), (2, past), (3, bench.wall())] {
        let job = bench.job(id(number)).await;
        assert_eq!((job.state, job.run_at), (State::Available, run_at), "job {number}; a past date is kept");
    }
}

pub(super) async fn enqueue_names_each_ready_queue_once(bench: &Bench) {
    let later = NewJob { when: When::After(secs(1)), ..job_in("later", 4) };
    let answer = bench.enqueue(vec![job_in("b", 1), job_in("a", 2), job_in("b", 3), later]).await;
    assert_eq!(answer.ready, [queue("a"), queue("b")], "by name, and only those with something to claim");
    let again = bench.enqueue(vec![job_in("a", 2)]).await;
    assert_eq!(again.ready, [], "a duplicate makes nothing ready");
}

pub(super) async fn existing_id_is_answered_as_duplicate(bench: &Bench) {
    bench.add(new_job(1)).await;
    let before = bench.job(id(1)).await;
    bench.advance(secs(5));
    let other = NewJob { payload: text("other"), priority: 9, ..new_job(1) };
    assert_eq!(bench.enqueue(vec![other.clone()]).await.jobs, [duplicate(id(1))]);
    assert_eq!(bench.job(id(1)).await, before, "the job that was there must not change");

    let hold = bench.take("w").await;
    assert_eq!(bench.enqueue(vec![other.clone()]).await.jobs, [duplicate(id(1))], "while running");
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.enqueue(vec![other]).await.jobs, [duplicate(id(1))], "after it ended");
}

pub(super) async fn same_id_twice_in_one_batch_inserts_once(bench: &Bench) {
    let second = NewJob { payload: text("second"), ..new_job(1) };
    let answer = bench.enqueue(vec![new_job(1), second]).await;
    assert_eq!(answer.jobs, [inserted(id(1)), duplicate(id(1))]);
    assert_eq!(bench.job(id(1)).await.payload, new_job(1).payload, "the first one counts");
    assert_eq!(bench.all().await.len(), 1);
}

pub(super) async fn mixed_batch_is_answered_in_input_order(bench: &Bench) {
    bench.enqueue(vec![new_job(5), new_job(3)]).await;
    let answer = bench.enqueue([9, 5, 1, 3, 7].map(new_job).to_vec()).await;
    let expected = [inserted(id(9)), duplicate(id(5)), inserted(id(1)), duplicate(id(3)), inserted(id(7))];
    assert_eq!(answer.jobs, expected);
    assert_eq!(bench.counts(QUEUE).await, [0, 5, 0, 0, 0, 0]);
}

pub(super) async fn empty_batch_changes_nothing(bench: &Bench) {
    assert_eq!(bench.enqueue(vec![]).await, EnqueueAnswer::default());
    assert_eq!(bench.stats().await, []);
}

pub(super) async fn large_batch_is_one_batch(bench: &Bench) {
    let answer = bench.enqueue((1..=2_500).map(new_job).collect()).await;
    let expected: Vec<_> = (1..=2_500).map(|number| inserted(id(number))).collect();
    assert_eq!(answer.jobs, expected);
    assert_eq!(bench.claim("w", MANY).await.len(), 2_500);
}
