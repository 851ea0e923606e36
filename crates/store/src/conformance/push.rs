//! Leases are pushed out for holders that are known to be alive, while everything is as it was seen.

use model::{Hold, NewJob, Outcome};

use super::bench::{Bench, LEASE, MANY, TICK, completed, id, new_job, secs};
use crate::port::Expired;

pub(super) async fn push_moves_leases_out(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    bench.claim("w1", 2).await;
    bench.take("w2").await;
    bench.advance(LEASE + secs(3));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen[..2].to_vec(), secs(120)).await, 2);
    let left = bench.expired(MANY).await;
    assert_eq!(left, seen[2..], "only those that were named");
    bench.reap(left).await;
    bench.advance(secs(120) - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(TICK);
    let again = bench.expired(MANY).await;
    let expected: Vec<Expired> = seen[..2]
        .iter()
        .map(|seen| Expired { lease_until: seen.lease_until + secs(3 + 120), ..seen.clone() })
        .collect();
    assert_eq!(again, expected, "counted from the push, all else as before");
    assert_eq!(bench.push(vec![], secs(120)).await, 0);
}

pub(super) async fn push_needs_the_fence_that_was_seen(bench: &Bench) {
    let first = bench.running(new_job(1), "w").await;
    let seen = bench.seen(id(1)).await;
    // Claimed again within one tick of the clock, by the same worker: only the fence is another.
    bench.end("w", first, Outcome::HandedBack).await;
    let second = bench.take("w").await;
    assert_eq!(bench.seen(id(1)).await, Expired { hold: second, ..seen.clone() });
    assert_eq!(bench.push(vec![seen.clone()], secs(120)).await, 0);
    assert_eq!(bench.job(id(1)).await.lease_until, Some(seen.lease_until));
}

pub(super) async fn push_needs_the_lease_that_was_seen(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    bench.renew("w", &[hold]).await;
    let renewed = bench.job(id(1)).await.lease_until;
    assert_eq!(bench.push(seen, secs(120)).await, 0);
    assert_eq!(bench.job(id(1)).await.lease_until, renewed);
}

pub(super) async fn push_never_moves_a_lease_back(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    let seen = bench.seen(id(1)).await;
    for by in [secs(0), LEASE - TICK, LEASE] {
        assert_eq!(bench.push(vec![seen.clone()], by).await, 0);
        assert_eq!(bench.job(id(1)).await.lease_until, Some(seen.lease_until));
    }
    assert_eq!(bench.push(vec![seen.clone()], LEASE + TICK).await, 1, "later is fine before it is over too");
    assert_eq!(bench.job(id(1)).await.lease_until, Some(seen.lease_until + TICK));
}

pub(super) async fn pushed_lease_is_not_reaped_by_a_late_reaper(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen.clone(), secs(1)).await, 1);
    assert_eq!(bench.reap(seen.clone()).await, [], "while the pushed lease runs");
    bench.advance(secs(2));
    assert_eq!(bench.reap(seen).await, [], "nor when it is over: the reaper has to look again");
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1);
}

pub(super) async fn push_leaves_jobs_that_ended(bench: &Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let claimed = bench.claim("w", 2).await;
    bench.advance(LEASE);
    let mut seen = bench.expired(MANY).await;
    bench.end("w", claimed[0].hold, completed()).await;
    bench.reap(vec![seen[1].clone()]).await;
    let before = bench.all().await;
    seen.push(Expired { hold: Hold { job: id(9), ..seen[0].hold }, ..seen[0].clone() });
    assert_eq!(bench.push(seen, secs(120)).await, 0);
    assert_eq!(bench.all().await, before);
}

pub(super) async fn push_moves_jobs_that_beat_themselves_too(bench: &Bench) {
    bench.running(NewJob { heartbeat_timeout: Some(secs(5)), ..new_job(1) }, "w").await;
    bench.advance(secs(5));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen, secs(120)).await, 1, "whether to push is the caller's choice");
    assert_eq!(bench.expired(MANY).await, []);
}

pub(super) async fn push_counts_a_job_once(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    let thrice = [&seen[..], &seen[..], &seen[..]].concat();
    assert_eq!(bench.push(thrice, secs(120)).await, 1);
}

pub(super) async fn push_grants_no_longer_lease(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    bench.push(seen, secs(3_600)).await;
    let deadlines = bench.deadlines().await;
    assert_eq!((deadlines.next_lease_in, deadlines.longest_lease), (Some(secs(3_600)), Some(LEASE)));
    bench.renew("w", &[hold]).await;
    assert_eq!(bench.deadlines().await.next_lease_in, Some(LEASE), "a renewal starts from the lease again");
}
