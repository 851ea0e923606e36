//! Jobs are taken back from silent holders: once, and only while everything is as it was seen.

use std::time::Duration;

use model::{Fence, Hold, LOST_REASON, LeaseTime, NewJob, Outcome, State};

use super::bench::{Bench, LEASE, MANY, QUEUE, TICK, completed, id, new_job, queue, secs, worker};
use crate::port::{Expired, Reaped};

pub(super) async fn lease_is_over_at_its_end_and_not_before(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let lease_until = bench.job(id(1)).await.lease_until.unwrap();
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(LEASE - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(TICK);
    let expected = Expired {
        hold,
        holder: worker("w"),
        registry: None,
        beats_itself: false,
        exclusive: false,
        timed_out: false,
        lease_until,
    };
    assert_eq!(bench.expired(MANY).await, [expected]);
    assert_eq!(bench.job(id(1)).await.state, State::Running, "looking changes nothing");
}

pub(super) async fn expired_are_listed_oldest_first(bench: &Bench) {
    for (number, lease) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 99)] {
        bench.add(NewJob { heartbeat_timeout: Some(secs(lease)), ..new_job(number) }).await;
    }
    bench.claim("w", MANY).await;
    bench.advance(secs(60));
    let listed = async |limit| -> Vec<_> {
        bench.expired(limit).await.into_iter().map(|expired| expired.hold.job).collect()
    };
    assert_eq!(listed(MANY).await, [2, 4, 3, 1].map(id));
    assert_eq!(listed(2).await, [2, 4].map(id));
    assert_eq!(listed(0).await, []);
}

pub(super) async fn reaped_job_is_without_holder_and_lease(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE + secs(4));
    let seen = bench.expired(MANY).await;
    let reaped = bench.reap(seen).await;
    let expected = Reaped {
        hold,
        holder: worker("w"),
        queue: queue(QUEUE),
        state: State::Available,
        due_in: None,
        late: secs(4),
        exclusive: false,
    };
    assert_eq!(reaped, [expected]);
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.fence, job.reported_fence), (State::Available, hold.fence, Fence::NONE));
    assert_eq!((job.attempt, job.lost, job.last_error.as_deref()), (0, 1, Some(LOST_REASON)));
    assert_eq!(bench.expired(MANY).await, []);
}

pub(super) async fn reap_needs_an_expired_lease(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    let seen = bench.seen(id(1)).await;
    bench.advance(LEASE - TICK);
    assert_eq!(bench.reap(vec![seen]).await, []);
    assert_eq!(bench.job(id(1)).await.state, State::Running);
}

pub(super) async fn reap_needs_the_fence_that_was_seen(bench: &Bench) {
    let first = bench.running(new_job(1), "w").await;
    let seen = bench.seen(id(1)).await;
    // Claimed again within one tick of the clock, by the same worker: only the fence is another.
    bench.end("w", first, Outcome::HandedBack).await;
    let second = bench.take("w").await;
    assert_eq!(bench.seen(id(1)).await, Expired { hold: second, ..seen.clone() });
    bench.advance(LEASE);
    assert_eq!(bench.reap(vec![seen]).await, []);
    assert_eq!(bench.end("w", second, completed()).await, State::Completed);
}

pub(super) async fn late_reaper_does_not_take_from_the_next_holder(bench: &Bench) {
    bench.running(new_job(1), "w1").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen.clone()).await.len(), 1);
    bench.take("w2").await;
    assert_eq!(bench.reap(seen.clone()).await, [], "while the new lease runs");
    bench.advance(LEASE * 2);
    assert_eq!(bench.reap(seen).await, [], "nor when it is over");
    assert_eq!(bench.job(id(1)).await.holder, Some(worker("w2")));
}

pub(super) async fn renewed_lease_is_not_reaped_by_a_late_reaper(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    bench.renew("w", &[hold]).await;
    assert_eq!(bench.reap(seen.clone()).await, [], "while the renewed lease runs");
    bench.advance(LEASE * 2);
    assert_eq!(bench.reap(seen).await, [], "nor when it is over: the reaper has to look again");
    assert_eq!(bench.job(id(1)).await.state, State::Running);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1);
}

pub(super) async fn two_reapers_reap_once(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let (one, other) = (bench.expired(MANY).await, bench.expired(MANY).await);
    assert_eq!(bench.reap(one).await.len(), 1);
    assert_eq!(bench.reap(other).await, []);
    assert_eq!(bench.job(id(1)).await.lost, 1);
}

pub(super) async fn finished_job_is_not_reaped(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    bench.end("w", hold, completed()).await;
    let before = bench.job(id(1)).await;
    assert_eq!(bench.reap(seen).await, []);
    assert_eq!(bench.job(id(1)).await, before);
}

pub(super) async fn mixed_reap_answers_those_taken_in_input_order(bench: &Bench) {
    bench.enqueue([1, 2, 3, 4].map(new_job).to_vec()).await;
    bench.claim("w", 3).await;
    bench.advance(LEASE);
    bench.take("w").await;
    let mut seen = Vec::new();
    for number in [3, 4, 1, 2, 1] {
        seen.push(bench.seen(id(number)).await);
    }
    let unknown = Expired { hold: Hold { job: id(9), ..seen[0].hold }, ..seen[0].clone() };
    seen.insert(1, unknown);
    seen[4].lease_until = LeaseTime::from_micros(seen[4].lease_until.as_micros() - 1);
    let reaped: Vec<_> = bench.reap(seen).await.into_iter().map(|reaped| reaped.hold.job).collect();
    assert_eq!(reaped, [3, 1].map(id), "not the unknown, the unexpired, the misseen and the repeated");
    assert_eq!(bench.counts(QUEUE).await, [0, 2, 2, 0, 0, 0]);
    assert_eq!(bench.reap(vec![]).await, []);
}

pub(super) async fn cancelled_job_ends_when_it_is_lost(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.cancel(id(1)).await;
    let reaped = bench.lose(id(1)).await;
    assert_eq!((reaped.state, reaped.due_in), (State::Cancelled, None));
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.finished_at), (State::Cancelled, Some(bench.wall())));
    assert_eq!(job.last_error.as_deref(), Some(LOST_REASON));
    assert_eq!(bench.claim("w", MANY).await, []);
}

pub(super) async fn cancelled_poison_pill_is_not_buried(bench: &Bench) {
    bench.running(NewJob { max_lost: Some(1), ..new_job(1) }, "w").await;
    bench.cancel(id(1)).await;
    assert_eq!(bench.lose(id(1)).await.state, State::Cancelled);
    let job = bench.job(id(1)).await;
    assert_eq!(job.last_error.as_deref(), Some(LOST_REASON), "nor does its reason say that it was");
}

pub(super) async fn loss_of_one_holder_leaves_the_others(bench: &Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    bench.take("silent").await;
    let alive = bench.take("alive").await;
    bench.advance(Duration::from_secs(20));
    bench.renew("alive", &[alive]).await;
    bench.advance(Duration::from_secs(15));
    let seen = bench.expired(MANY).await;
    let reaped = bench.reap(seen).await;
    assert_eq!(reaped.iter().map(|reaped| reaped.hold.job).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(bench.end("alive", alive, completed()).await, State::Completed);
}
