//! Retry or bury: the branch that failures and losses share.

use std::time::Duration;

use model::{Growth, LOST_REASON, Limits, NewJob, QueuePatch, Retry, RetryPolicy, State};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, failed, failed_with, id, ids, job_in, new_job, queue, secs,
};
use crate::port::Finished;
use crate::reason::poison_reason;

pub(super) async fn failed_job_comes_back_with_backoff(bench: &Bench) {
    bench.add(new_job(1)).await;
    for attempt in 1..Limits::ATTEMPTS_DEFAULT {
        let claimed = bench.claim("w", 1).await.remove(0);
        assert_eq!(claimed.attempt, attempt);
        bench.advance(secs(2));
        let delay = RetryPolicy::default().delay(attempt, claimed.hold.fence);
        let answer = bench.finish("w", claimed.hold, failed()).await;
        let queue = queue(QUEUE);
        let expected = Finished::Done { state: State::Scheduled, queue, due_in: Some(delay), ran: secs(2) };
        assert_eq!(answer, expected, "after attempt {attempt}");
        let job = bench.job(id(1)).await;
        assert_eq!((job.state, job.run_at), (State::Scheduled, bench.wall() + delay));
        assert_eq!((job.attempt, job.last_error.as_deref()), (attempt, Some("boom")));
        assert_eq!((job.reported_fence, job.result), (claimed.hold.fence, None));
        bench.promote_in(delay).await;
    }
    let hold = bench.take("w").await;
    assert_eq!(bench.end("w", hold, failed()).await, State::Dead, "the last attempt");
    let job = bench.job(id(1)).await;
    assert_eq!((job.attempt, job.finished_at), (Limits::ATTEMPTS_DEFAULT, Some(bench.wall())));
    assert_eq!(job.last_error.as_deref(), Some("boom"));
}

pub(super) async fn retry_policy_is_the_jobs_own_else_the_queues_else_the_default(bench: &Bench) {
    let fixed = RetryPolicy { growth: Growth::Fixed, base: secs(100), delay_max: secs(100) };
    let quadratic = RetryPolicy { growth: Growth::Quadratic, base: secs(900), delay_max: secs(900) };
    bench.set_queue("set", QueuePatch { retry: Some(Some(fixed)), ..QueuePatch::default() }).await;
    let own = NewJob { retry: Some(quadratic), ..job_in("set", 3) };
    bench.enqueue(vec![new_job(1), job_in("set", 2), own]).await;
    let claimed = bench.claim_from("w", &[QUEUE, "set"], MANY).await;
    assert_eq!(ids(&claimed), [1, 2, 3].map(id));
    for (claimed, policy) in claimed.iter().zip([RetryPolicy::default(), fixed, quadratic]) {
        bench.end("w", claimed.hold, failed()).await;
        let waits = bench.job(claimed.hold.job).await.run_at.since(bench.wall());
        assert_eq!(waits, policy.delay(1, claimed.hold.fence), "job {}", claimed.hold.job);
    }
}

pub(super) async fn asked_delay_is_kept(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, failed_with(Retry::After(secs(77)))).await;
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.run_at), (State::Scheduled, bench.wall() + secs(77)));
}

pub(super) async fn asked_delay_of_zero_means_at_once(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(secs(3));
    let answer = bench.finish("w", hold, failed_with(Retry::After(Duration::ZERO))).await;
    let expected =
        Finished::Done { state: State::Available, queue: queue(QUEUE), due_in: None, ran: secs(3) };
    assert_eq!(answer, expected);
    let job = bench.job(id(1)).await;
    assert_eq!((job.run_at, job.last_error.as_deref()), (bench.wall(), Some("boom")));
    assert_eq!(bench.claim("w", 1).await[0].attempt, 2, "the failed attempt counts");
}

pub(super) async fn asked_delay_does_not_buy_another_attempt(bench: &Bench) {
    let hold = bench.running(NewJob { max_attempts: Some(1), ..new_job(1) }, "w").await;
    assert_eq!(bench.end("w", hold, failed_with(Retry::After(secs(1)))).await, State::Dead);
}

pub(super) async fn retry_never_buries_at_once(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    assert_eq!(bench.end("w", hold, failed_with(Retry::Never)).await, State::Dead);
    let job = bench.job(id(1)).await;
    assert_eq!((job.attempt, job.last_error.as_deref()), (1, Some("boom")));
}

pub(super) async fn failure_ends_a_row_of_losses(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), 2).await;
    bench.promote_in(secs(3_600)).await;
    let hold = bench.take("w").await;
    bench.end("w", hold, failed()).await;
    let job = bench.job(id(1)).await;
    assert_eq!((job.lost, job.attempt), (0, 1));
}

pub(super) async fn completion_keeps_the_error_before_it(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, failed_with(Retry::After(Duration::ZERO))).await;
    let hold = bench.take("w").await;
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.job(id(1)).await.last_error.as_deref(), Some("boom"));
}

pub(super) async fn first_loss_is_offered_at_once_second_backs_off(bench: &Bench) {
    bench.add(new_job(1)).await;
    let run_at = bench.job(id(1)).await.run_at;
    bench.take("w1").await;
    let reaped = bench.lose(id(1)).await;
    assert_eq!((reaped.state, reaped.due_in), (State::Available, None));
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.lost, job.run_at), (State::Available, 1, run_at), "it keeps its place");

    let second = bench.take("w2").await;
    let reaped = bench.lose(id(1)).await;
    let delay = RetryPolicy::default().delay(1, second.fence);
    assert_eq!((reaped.state, reaped.due_in), (State::Scheduled, Some(delay)));
    let job = bench.job(id(1)).await;
    assert_eq!((job.lost, job.run_at), (2, bench.wall() + delay));

    bench.promote_in(delay).await;
    let third = bench.take("w3").await;
    let reaped = bench.lose(id(1)).await;
    assert_eq!(reaped.due_in, Some(RetryPolicy::default().delay(2, third.fence)), "and grows");
}

pub(super) async fn loss_does_not_count_as_an_attempt(bench: &Bench) {
    bench.running(NewJob { max_attempts: Some(1), ..new_job(1) }, "w1").await;
    bench.lose(id(1)).await;
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.attempt), (State::Available, 0));
    assert_eq!(job.last_error.as_deref(), Some(LOST_REASON));
    let claimed = bench.claim("w2", 1).await.remove(0);
    assert_eq!(claimed.attempt, 1);
    assert_eq!(bench.end("w2", claimed.hold, failed()).await, State::Dead, "now its one attempt is spent");
}

pub(super) async fn poison_pill_is_buried_with_its_reason(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), Limits::LOST_DEFAULT - 1).await;
    assert_eq!(bench.job(id(1)).await.state, State::Scheduled);
    bench.lose_again(id(1), 1).await;
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.lost, job.attempt), (State::Dead, Limits::LOST_DEFAULT, 0));
    assert_eq!(job.last_error, Some(poison_reason(Limits::LOST_DEFAULT)));
    assert_eq!(job.finished_at, Some(bench.wall()));
}

pub(super) async fn loss_limit_is_the_jobs_own(bench: &Bench) {
    bench.running(NewJob { max_lost: Some(1), ..new_job(1) }, "w").await;
    let reaped = bench.lose(id(1)).await;
    assert_eq!((reaped.state, reaped.due_in), (State::Dead, None));
    assert_eq!(bench.job(id(1)).await.last_error, Some(poison_reason(1)));
}

pub(super) async fn loss_backs_off_by_the_jobs_policy(bench: &Bench) {
    let fixed = RetryPolicy { growth: Growth::Fixed, base: secs(600), delay_max: secs(600) };
    bench.add(NewJob { retry: Some(fixed), ..new_job(1) }).await;
    bench.lose_again(id(1), 1).await;
    let hold = bench.take("w").await;
    let reaped = bench.lose(id(1)).await;
    assert_eq!(reaped.due_in, Some(fixed.delay(1, hold.fence)));
    assert!(reaped.due_in.unwrap() > LEASE);
}
