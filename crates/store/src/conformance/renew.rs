//! Holders keep their leases alive, and learn at once when a hold is gone.

use model::{Fence, Hold, NewJob, QueuePatch, State};

use super::bench::{Bench, LEASE, MANY, MILLI, QUEUE, TICK, completed, id, job_in, new_job, secs};
use crate::port::Renewed;

const HELD: Renewed = Renewed::Held { lease: LEASE, cancel: false, exclusive: false };

pub(super) async fn renewal_moves_the_lease(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let first = bench.job(id(1)).await;
    bench.advance(secs(10));
    assert_eq!(bench.renew("w", &[hold]).await, [HELD]);
    let renewed = bench.job(id(1)).await;
    assert_eq!(renewed.lease_until.unwrap().since(first.lease_until.unwrap()), secs(10));
    let unchanged = |job: &model::Job| model::Job { lease_until: None, ..job.clone() };
    assert_eq!(unchanged(&renewed), unchanged(&first), "nothing but the lease moves");
    bench.advance(LEASE - TICK);
    assert_eq!(bench.expired(MANY).await, [], "the new lease counts");
}

pub(super) async fn renewal_with_a_stale_fence_is_lost(bench: &Bench) {
    let old = bench.running(new_job(1), "w").await;
    bench.lose(id(1)).await;
    let new = bench.take("w").await;
    let lease = bench.job(id(1)).await.lease_until;
    bench.advance(secs(1));
    assert_eq!(bench.renew("w", &[old]).await, [Renewed::Lost]);
    let made_up = Hold { fence: Fence::new(new.fence.get() + 1), ..new };
    assert_eq!(bench.renew("w", &[made_up]).await, [Renewed::Lost]);
    assert_eq!(bench.job(id(1)).await.lease_until, lease, "a lost hold must not move the lease");
}

pub(super) async fn renewal_by_another_holder_is_lost(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(secs(1));
    let before = bench.job(id(1)).await;
    assert_eq!(bench.renew("thief", &[hold]).await, [Renewed::Lost]);
    assert_eq!(bench.job(id(1)).await, before);
}

pub(super) async fn renewal_of_an_unknown_job_is_lost(bench: &Bench) {
    assert_eq!(bench.renew("w", &[Hold { job: id(1), fence: Fence::new(1) }]).await, [Renewed::Lost]);
}

pub(super) async fn renewal_does_not_revive_a_reaped_job(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.lose(id(1)).await;
    assert_eq!(bench.renew("w", &[hold]).await, [Renewed::Lost]);
    assert_eq!(bench.job(id(1)).await.state, State::Available);
}

pub(super) async fn renewal_does_not_revive_a_finished_job(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    let before = bench.job(id(1)).await;
    assert_eq!(bench.renew("w", &[hold]).await, [Renewed::Lost]);
    assert_eq!(bench.job(id(1)).await, before);
}

pub(super) async fn expired_hold_can_be_renewed_before_the_reaper_comes(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE + secs(5));
    assert_eq!(bench.expired(MANY).await.len(), 1);
    assert_eq!(bench.renew("w", &[hold]).await, [HELD]);
    assert_eq!(bench.expired(MANY).await, []);
}

pub(super) async fn renewal_grants_the_jobs_own_lease_else_the_queues_else_the_given(bench: &Bench) {
    let own = NewJob { heartbeat_timeout: Some(secs(70)), ..job_in("set", 3) };
    bench.enqueue(vec![new_job(1), job_in("set", 2), own]).await;
    let claimed = bench.claim_from("w", &[QUEUE, "set"], MANY).await;
    bench
        .set_queue("set", QueuePatch { heartbeat_timeout: Some(Some(secs(50))), ..QueuePatch::default() })
        .await;
    let holds: Vec<Hold> = claimed.iter().map(|claimed| claimed.hold).collect();
    let renewed = bench.renew_for("w", &holds, secs(20)).await;
    let expected =
        [20, 50, 70].map(|lease| Renewed::Held { lease: secs(lease), cancel: false, exclusive: false });
    assert_eq!(renewed, expected);
    bench.advance(secs(50) - MILLI);
    let over: Vec<_> = bench.expired(MANY).await.iter().map(|expired| expired.hold.job).collect();
    assert_eq!(over, [id(1)], "leases last as long as was answered");
}

pub(super) async fn renewal_tells_of_a_cancel(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.cancel(id(1)).await;
    assert_eq!(
        bench.renew("w", &[hold]).await,
        [Renewed::Held { lease: LEASE, cancel: true, exclusive: false }]
    );
}

pub(super) async fn mixed_renewals_are_answered_in_input_order(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    let mine = bench.claim("w", 2).await;
    let other = bench.take("other").await;
    let (first, second) = (mine[0].hold, mine[1].hold);
    let stale = Hold { fence: Fence::new(first.fence.get() - 1), ..first };
    let unknown = Hold { job: id(9), ..first };
    let answers = bench.renew("w", &[second, stale, other, first, unknown, second]).await;
    assert_eq!(answers, [HELD, Renewed::Lost, Renewed::Lost, HELD, Renewed::Lost, HELD]);
    assert_eq!(bench.renew("w", &[]).await, []);
}

pub(super) async fn renewal_is_not_progress(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), 1).await;
    let hold = bench.take("w").await;
    bench.renew("w", &[hold]).await;
    assert_eq!(bench.job(id(1)).await.lost, 1, "losses in a row end by progress, not by a beat");
}
