//! The lease clock: steps of the wall clock do not move it, our own stalls are given back.

use std::time::Duration;

use model::Outcome;

use super::bench::{Bench, LEASE, MANY, TICK, id, new_job, secs};

const DAY_MS: i64 = 24 * 3_600 * 1_000;

pub(super) async fn wall_clock_steps_do_not_move_leases(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    let seen = bench.seen(id(1)).await;
    bench.clock().step_wall(DAY_MS);
    assert_eq!(bench.expired(MANY).await, [], "a step forward ends no lease");
    assert_eq!(bench.reap(vec![seen.clone()]).await, []);
    bench.clock().step_wall(-2 * DAY_MS);
    bench.advance(LEASE);
    assert_eq!(bench.expired(MANY).await, std::slice::from_ref(&seen), "a step back prolongs none");
    assert_eq!(bench.reap(vec![seen]).await.len(), 1);
}

pub(super) async fn fences_grow_while_the_wall_clock_steps_back(bench: &Bench) {
    let mut last = bench.running(new_job(1), "w").await;
    for _ in 0..5 {
        bench.end("w", last, Outcome::HandedBack).await;
        bench.clock().step_wall(-DAY_MS);
        bench.advance(TICK);
        let next = bench.take("w").await;
        assert!(next.fence > last.fence, "{} must exceed {}", next.fence, last.fence);
        last = next;
    }
}

pub(super) async fn lease_after_a_step_is_as_long_as_before(bench: &Bench) {
    bench.clock().step_wall(-DAY_MS);
    let hold = bench.running(new_job(1), "w").await;
    bench.clock().step_wall(DAY_MS * 3);
    bench.advance(LEASE - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.renew("w", &[hold]).await;
    bench.clock().step_wall(-DAY_MS);
    bench.advance(LEASE - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(TICK);
    assert_eq!(bench.expired(MANY).await.len(), 1);
}

pub(super) async fn extension_moves_every_lease(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    bench.take("w1").await;
    bench.advance(secs(10));
    bench.take("w2").await;
    let before = [bench.seen(id(1)).await.lease_until, bench.seen(id(2)).await.lease_until];
    assert_eq!(bench.extend_leases(secs(25)).await, 2, "the waiting job has no lease");
    let after = [bench.seen(id(1)).await.lease_until, bench.seen(id(2)).await.lease_until];
    assert_eq!(after, before.map(|until| until + secs(25)));
    bench.advance(LEASE - secs(10) + secs(25) - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(TICK);
    assert_eq!(bench.expired(MANY).await.len(), 1);
}

pub(super) async fn extended_lease_is_not_reaped_by_a_late_reaper(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.extend_leases(secs(1)).await, 1);
    assert_eq!(bench.reap(seen.clone()).await, []);
    bench.advance(secs(2));
    assert_eq!(bench.reap(seen).await, []);
}

pub(super) async fn extension_of_nothing_is_nothing(bench: &Bench) {
    bench.add(new_job(1)).await;
    assert_eq!(bench.extend_leases(secs(60)).await, 0);
    bench.take("w").await;
    assert_eq!(bench.extend_leases(Duration::ZERO).await, 1, "it counts the leases, not the time");
}
