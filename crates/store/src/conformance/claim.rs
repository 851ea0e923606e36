//! Available jobs are given to holders, each under a new fence and a lease.

use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, JobId, LeaseTime, NewJob, Outcome, QueuePatch, Retry, State, When};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, failed_with, id, ids, job_in, kind, new_job, queue, secs, worker,
};
use crate::port::{Claim, Claimed, Progress};

/// A wish for jobs of these queues with this many bytes.
fn claim_of(queues: &[&str], bytes_max: usize) -> Claim {
    let queues = queues.iter().map(|name| queue(name)).collect();
    Claim { holder: worker("w"), queues, limit: MANY, bytes_max, lease: LEASE, exclusive: false }
}

/// A job with a payload of this length.
fn sized(job: NewJob, bytes: usize) -> NewJob {
    NewJob { payload: Bytes::from(vec![7; bytes]), ..job }
}

pub(super) async fn claim_gives_all_a_worker_needs(bench: &Bench) {
    let new = NewJob {
        kind: kind("resize"),
        payload: Bytes::from_static(&[0, 1, 2]),
        content_type: "image/png".into(),
        priority: 3,
        max_attempts: Some(4),
        timeout: Some(secs(600)),
        traceparent: Some("00-aa-bb-01".to_owned()),
        ..new_job(1)
    };
    bench.add(new.clone()).await;
    bench.advance(secs(7));
    let claimed = bench.claim("w", 1).await;
    let job = bench.job(id(1)).await;
    let expected = Claimed {
        hold: Hold { job: id(1), fence: job.fence },
        queue: queue(QUEUE),
        kind: new.kind,
        payload: new.payload,
        content_type: new.content_type,
        priority: 3,
        attempt: 1,
        max_attempts: 4,
        lease: LEASE,
        heartbeat_timeout: None,
        timeout: Some(secs(600)),
        checkpoint: None,
        traceparent: new.traceparent,
        exclusive: false,
        waited: secs(7),
    };
    assert_eq!(claimed, [expected]);
    assert_eq!((job.state, job.attempt, job.holder), (State::Running, 1, Some(worker("w"))));
    assert_eq!(job.started_at, Some(bench.wall()));
}

pub(super) async fn claims_go_by_priority_then_time_then_id(bench: &Bench) {
    let at = |number, priority, secs| NewJob {
        priority,
        when: When::At(bench.wall() - Duration::from_secs(secs)),
        ..new_job(number)
    };
    bench
        .enqueue(vec![
            at(1, -5, 900),
            at(2, 0, 1),
            at(3, 0, 5),
            at(7, 9, 0),
            at(4, 9, 0),
            at(5, 0, 5),
            at(6, 1, 0),
        ])
        .await;
    let order = [4, 7, 6, 3, 5, 2, 1].map(id);
    assert_eq!(ids(&bench.claim("w", 4).await), order[..4]);
    assert_eq!(ids(&bench.claim("w", MANY).await), order[4..]);
}

pub(super) async fn claims_are_ordered_across_queues(bench: &Bench) {
    let at = |name, number, priority, secs| NewJob {
        priority,
        when: When::At(bench.wall() - Duration::from_secs(secs)),
        ..job_in(name, number)
    };
    let jobs = [
        at("a", 1, 0, 1),
        at("a", 2, 5, 1),
        at("b", 3, 5, 2),
        at("b", 4, 0, 9),
        at("b", 5, 1, 0),
        at("c", 6, 7, 0),
        at("d", 7, 99, 99),
    ];
    bench.enqueue(jobs.to_vec()).await;
    let queues = ["a", "b", "c"];
    assert_eq!(ids(&bench.claim_from("w", &queues, 3).await), [6, 3, 2].map(id));
    assert_eq!(ids(&bench.claim_from("w", &queues, MANY).await), [5, 4, 1].map(id));
    assert_eq!(bench.job(id(7)).await.state, State::Available, "its queue was not asked for");
}

pub(super) async fn claim_takes_at_most_its_limit(bench: &Bench) {
    bench.enqueue((1..=5).map(new_job).chain((6..=10).map(|number| job_in("b", number))).collect()).await;
    assert_eq!(bench.claim_from("w", &[QUEUE, "b"], 0).await, []);
    assert_eq!(bench.claim_from("w", &[QUEUE, "b"], 3).await.len(), 3);
    assert_eq!(bench.claim_from("w", &[QUEUE, "b"], 6).await.len(), 6);
    assert_eq!(bench.claim_from("w", &[QUEUE, "b"], 6).await.len(), 1);
}

pub(super) async fn claim_stops_when_its_bytes_are_reached(bench: &Bench) {
    // The first has been claimed before and left a checkpoint, which counts as well.
    let hold = bench.running(sized(new_job(1), 40), "w").await;
    let checkpoint = Some(Bytes::from(vec![7; 60]));
    assert_eq!(bench.progress_all("w", vec![Progress { hold, note: None, checkpoint }]).await, [true]);
    bench.end("w", hold, Outcome::HandedBack).await;
    let jobs = [
        sized(job_in("b", 2), 100),
        sized(new_job(3), 1_000),
        sized(job_in("b", 4), 1_000),
        sized(new_job(5), 0),
        sized(new_job(6), 100),
    ];
    bench.enqueue(jobs.to_vec()).await;
    let queues = [QUEUE, "b"];
    assert_eq!(ids(&bench.claim_as(claim_of(&queues, 101)).await), [1, 2].map(id), "reached by the second");
    for number in 3..=6 {
        let job = bench.job(id(number)).await;
        assert_eq!((job.state, job.attempt, job.fence), (State::Available, 0, Fence::NONE), "not touched");
    }
    assert_eq!(ids(&bench.claim_as(claim_of(&queues, 2_000)).await), [3, 4].map(id), "exactly reached");
    assert_eq!(ids(&bench.claim_as(claim_of(&[QUEUE], 1)).await), [5, 6].map(id), "nothing counts nothing");
}

pub(super) async fn claim_takes_a_single_job_larger_than_its_bytes(bench: &Bench) {
    bench.enqueue((1..=4).map(|number| sized(new_job(number), 10_000)).collect()).await;
    assert_eq!(ids(&bench.claim_as(claim_of(&[QUEUE], 9_999)).await), [id(1)]);
    assert_eq!(ids(&bench.claim_as(claim_of(&[QUEUE], 0)).await), [id(2)], "even if it may have none");
    assert_eq!(
        bench.claim_as(Claim { limit: 0, ..claim_of(&[QUEUE], 0) }).await,
        [],
        "but not beyond the limit"
    );
    assert_eq!(ids(&bench.claim_as(claim_of(&[QUEUE], usize::MAX)).await), [3, 4].map(id));
}

pub(super) async fn claim_from_an_unknown_queue_gets_nothing(bench: &Bench) {
    assert_eq!(bench.claim_from("w", &["unknown"], MANY).await, []);
    assert_eq!(bench.stats().await, [], "asking does not create a queue");
    bench.add(new_job(1)).await;
    assert_eq!(ids(&bench.claim_from("w", &["unknown", QUEUE], MANY).await), [id(1)]);
}

pub(super) async fn queue_named_twice_gives_each_job_once(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    assert_eq!(ids(&bench.claim_from("w", &[QUEUE, QUEUE], MANY).await), [1, 2, 3].map(id));
}

pub(super) async fn running_job_is_not_claimed_again(bench: &Bench) {
    bench.running(new_job(1), "w1").await;
    assert_eq!(bench.claim("w2", MANY).await, []);
    bench.advance(LEASE * 2);
    assert_eq!(bench.claim("w2", MANY).await, [], "a lease that is over is for the reaper to take");
}

pub(super) async fn ended_jobs_are_not_claimed(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    let hold = bench.running(new_job(2), "w").await;
    bench.end("w", hold, failed_with(Retry::Never)).await;
    bench.add(new_job(3)).await;
    bench.cancel(id(3)).await;
    assert_eq!(bench.claim("w", MANY).await, []);
}

pub(super) async fn paused_queue_offers_nothing(bench: &Bench) {
    bench.enqueue(vec![NewJob { priority: 9, ..job_in("paused", 1) }, new_job(2)]).await;
    bench.pause("paused", true).await;
    bench.add(job_in("paused", 3)).await;
    assert_eq!(ids(&bench.claim_from("w", &["paused", QUEUE], MANY).await), [id(2)]);
    bench.pause("paused", false).await;
    assert_eq!(ids(&bench.claim_from("w", &["paused"], MANY).await), [id(1), id(3)]);
}

pub(super) async fn pause_lets_running_jobs_end(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.pause(QUEUE, true).await;
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
}

pub(super) async fn retired_holder_claims_nothing(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.retire("old").await;
    assert_eq!(bench.claim("old", MANY).await, []);
    assert_eq!(bench.job(id(1)).await.state, State::Available);
    assert_eq!(ids(&bench.claim("new", MANY).await), [id(1)]);
}

pub(super) async fn lease_is_the_jobs_own_else_the_queues_else_the_claims(bench: &Bench) {
    bench
        .set_queue("set", QueuePatch { heartbeat_timeout: Some(Some(secs(50))), ..QueuePatch::default() })
        .await;
    let own = NewJob { heartbeat_timeout: Some(secs(70)), ..job_in("set", 3) };
    bench.enqueue(vec![new_job(1), job_in("set", 2), own]).await;
    let claimed = bench.claim_from("w", &[QUEUE, "set"], MANY).await;
    let timeouts: Vec<Option<Duration>> = claimed.iter().map(|claimed| claimed.heartbeat_timeout).collect();
    assert_eq!(timeouts, [None, Some(secs(50)), Some(secs(70))]);
    let leases: Vec<Duration> = claimed.iter().map(|claimed| claimed.lease).collect();
    assert_eq!(leases, [LEASE, secs(50), secs(70)]);
    let earliest = bench.job(id(1)).await.lease_until.unwrap();
    for (number, lease) in [(1, LEASE), (2, secs(50)), (3, secs(70))] {
        let until = bench.job(id(number)).await.lease_until.unwrap();
        assert_eq!(until.since(earliest), lease - LEASE, "the lease of job {number} is kept as granted");
    }
}

pub(super) async fn fence_is_the_time_of_the_claim(bench: &Bench) {
    bench.advance(Duration::from_micros(1_234_567));
    let hold = bench.running(new_job(1), "w").await;
    let claimed_at = LeaseTime::from_micros(hold.fence.get());
    assert_eq!(bench.job(id(1)).await.lease_until, Some(claimed_at + LEASE), "both come from one clock");
    let wall_micros = bench.wall().as_millis() * 1_000;
    assert!(hold.fence >= Fence::new(wall_micros), "the clock starts at the wall clock's date");
    bench.end("w", hold, failed_with(Retry::After(Duration::ZERO))).await;
    bench.advance(secs(60));
    let later = bench.take("w").await.fence;
    assert_eq!(later.get() - hold.fence.get(), 60_000_000, "in microseconds");
}

pub(super) async fn fence_grows_while_the_clock_stands(bench: &Bench) {
    bench.add(NewJob { max_attempts: Some(100), ..new_job(1) }).await;
    let mut last = Fence::NONE;
    for attempt in 1..=10 {
        let claimed = bench.claim("w", 1).await.remove(0);
        assert!(claimed.hold.fence > last, "claim {attempt}: {} must exceed {last}", claimed.hold.fence);
        assert_eq!(claimed.attempt, attempt);
        last = claimed.hold.fence;
        bench.end("w", claimed.hold, failed_with(Retry::After(Duration::ZERO))).await;
    }
}

pub(super) async fn fence_grows_when_an_id_is_reused_after_purge(bench: &Bench) {
    let first = bench.running(new_job(1), "w").await;
    bench.end("w", first, completed()).await;
    bench.advance(secs(1));
    assert_eq!(bench.purge_ended().await, 1);
    let second = bench.running(new_job(1), "w").await;
    assert!(second.fence > first.fence, "{} must exceed {}", second.fence, first.fence);
    assert_ne!(bench.end("w", second, completed()).await, State::Running);
}

pub(super) async fn each_job_goes_to_one_holder(bench: &Bench) {
    bench.enqueue((1..=20).map(new_job).collect()).await;
    let mut given: Vec<JobId> = Vec::new();
    for holder in ["w1", "w2", "w3", "w4", "w5"] {
        given.extend(ids(&bench.claim(holder, 6).await));
    }
    let expected: Vec<JobId> = (1..=20).map(id).collect();
    assert_eq!(given, expected, "all of them, in order, none twice");
}
