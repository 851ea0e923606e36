//! What a durable store promises when nobody but its one server uses it: opening it means that no holder was heard until
//! then, so leases begin anew and losses are not held against jobs; and its lease clock is its own, so that it never goes
//! back. A shared store is opened while others are at work, and its lease clock is that of the database.

use std::time::Duration;

use model::{JobId, Limits, NewJob, QueuePatch, State};

use super::bench::{Bench, LEASE, MANY, MILLI, QUEUE, completed, enlist, id, new_job, secs};

const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// A lease so long that nobody wants to wait for it.
const LONG: Duration = Limits::LEASE_MAX;

/// Claims a job for each of these leases, the first numbered 1, and closes the store until all of them are over.
async fn running_while_closed(bench: &mut Bench, leases: &[Duration]) {
    let jobs = (1..)
        .zip(leases)
        .map(|(number, lease)| NewJob { heartbeat_timeout: Some(*lease), ..new_job(number) });
    bench.enqueue(jobs.collect()).await;
    assert_eq!(bench.claim("w", MANY).await.len(), leases.len());
    bench.advance(LONG * 2);
    bench.reopen().await;
}

/// No job can be taken back now.
async fn assert_nothing_is_reaped(bench: &Bench, numbers: &[u64]) {
    assert_eq!(bench.expired(MANY).await, [], "no lease may be seen as over");
    let mut seen = Vec::new();
    for number in numbers {
        seen.push(bench.seen(id(*number)).await);
    }
    assert_eq!(bench.reap(seen).await, [], "no job may be taken back");
}

/// Takes back what is over and answers what that was, by id.
async fn reap_expired(bench: &Bench) -> Vec<JobId> {
    let seen = bench.expired(MANY).await;
    let mut reaped: Vec<JobId> = bench.reap(seen).await.iter().map(|reaped| reaped.hold.job).collect();
    reaped.sort_unstable();
    reaped
}

pub(super) async fn nothing_is_reaped_until_workers_had_time_to_come_back(bench: &mut Bench) {
    running_while_closed(bench, &[secs(5), secs(60), LONG]).await;
    assert_nothing_is_reaped(bench, &[1, 2, 3]).await;
    bench.advance(Limits::LEASE_DEFAULT - MILLI);
    assert_nothing_is_reaped(bench, &[1, 2, 3]).await;
}

pub(super) async fn short_leases_wait_no_longer_than_the_longest_after_reopening(bench: &mut Bench) {
    running_while_closed(bench, &[secs(5), secs(10)]).await;
    bench.advance(secs(10) - MILLI);
    assert_nothing_is_reaped(bench, &[1, 2]).await;
    bench.advance(MILLI * 2);
    assert_eq!(reap_expired(bench).await, [1, 2].map(id));
}

pub(super) async fn long_lease_does_not_keep_others_from_rescue_after_reopening(bench: &mut Bench) {
    running_while_closed(bench, &[secs(5), LONG, secs(60)]).await;
    bench.advance(Limits::LEASE_DEFAULT + MILLI);
    assert_eq!(reap_expired(bench).await, [id(1)], "its lease is short");
    bench.advance(secs(60) - Limits::LEASE_DEFAULT);
    assert_eq!(reap_expired(bench).await, [id(3)], "its own lease has passed");
    assert_eq!(bench.job(id(2)).await.state, State::Running);
}

pub(super) async fn long_lease_is_granted_in_full_after_reopening(bench: &mut Bench) {
    running_while_closed(bench, &[LONG]).await;
    bench.advance(LONG - MILLI);
    assert_nothing_is_reaped(bench, &[1]).await;
    bench.advance(MILLI * 2);
    assert_eq!(reap_expired(bench).await, [id(1)]);
}

pub(super) async fn loss_caused_by_our_own_restart_does_not_count(bench: &mut Bench) {
    bench.add(NewJob { max_lost: Some(2), ..new_job(1) }).await;
    bench.lose_again(id(1), 1).await;
    bench.take("w").await;
    bench.reopen().await;
    bench.advance(LEASE + secs(1));
    let seen = bench.expired(MANY).await;
    let reaped = bench.reap(seen).await;
    assert_eq!(
        (reaped.len(), reaped[0].state, reaped[0].due_in),
        (1, State::Available, None),
        "offered at once"
    );
    let job = bench.job(id(1)).await;
    assert_eq!((job.lost, job.attempt), (1, 0), "neither loss nor attempt counts");
}

pub(super) async fn loss_after_a_renewal_counts_again(bench: &mut Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.reopen().await;
    assert_eq!(bench.renew("w", &[hold]).await.len(), 1);
    bench.advance(LEASE + secs(1));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1);
    assert_eq!(bench.job(id(1)).await.lost, 1, "its holder had found us again");
}

pub(super) async fn loss_by_restart_does_not_count_after_an_extension(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    bench.reopen().await;
    bench.advance(secs(5));
    assert_eq!(bench.extend_leases(secs(5)).await, 1);
    bench.advance(LEASE - MILLI);
    assert_eq!(bench.expired(MANY).await, [], "the extension counts from what opening granted");
    bench.advance(secs(1));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1);
    assert_eq!(bench.job(id(1)).await.lost, 0, "its holder has still not found us");
}

pub(super) async fn loss_of_a_claim_made_after_reopening_counts(bench: &mut Bench) {
    bench.add(new_job(1)).await;
    bench.reopen().await;
    bench.take("w").await;
    bench.advance(LEASE + secs(1));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1);
    assert_eq!(bench.job(id(1)).await.lost, 1);
}

pub(super) async fn loss_by_restart_does_not_count_after_a_push(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    bench.reopen().await;
    bench.advance(LEASE + secs(1));
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen, secs(1)).await, 1);
    bench.advance(secs(1));
    assert_eq!(reap_expired(bench).await, [id(1)]);
    assert_eq!(bench.job(id(1)).await.lost, 0, "its holder has still not found us");
}

pub(super) async fn loss_after_a_succession_counts_again(bench: &mut Bench) {
    bench.enlist_all(["w", "new"].map(enlist).to_vec()).await;
    let hold = bench.running(new_job(1), "w").await;
    bench.reopen().await;
    assert_eq!(bench.succeed("w", "new", &[hold]).await, [true]);
    bench.advance(LEASE + secs(1));
    assert_eq!(reap_expired(bench).await, [id(1)]);
    assert_eq!(bench.job(id(1)).await.lost, 1, "its holder had found us again");
}

pub(super) async fn reopening_leaves_a_pushed_lease_as_it_is(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    bench.advance(LONG);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen, LEASE * 2).await, 1);
    bench.clock().step_wall(-DAY_MS);
    bench.reopen().await;
    assert_eq!(
        bench.deadlines().await.next_lease_in,
        Some(LEASE * 2),
        "as long as before the clock was set back"
    );
}

pub(super) async fn volatile_queue_survives_a_reopening(bench: &mut Bench) {
    for volatile in [true, false] {
        let patch = QueuePatch { volatile: Some(volatile), ..QueuePatch::default() };
        bench.set_queue(QUEUE, patch).await;
        let settings =
            bench.set_queue(QUEUE, QueuePatch { paused: Some(true), ..QueuePatch::default() }).await;
        assert_eq!(settings.volatile, volatile, "it stays as it was set");
        bench.reopen().await;
        assert_eq!(bench.stats().await[0].settings.volatile, volatile);
        assert_eq!(bench.queue_settings().await[0].1, bench.stats().await[0].settings);
    }
}

pub(super) async fn fence_of_a_reused_id_grows_over_a_reopening(bench: &mut Bench) {
    let first = bench.running(new_job(1), "w").await;
    bench.end("w", first, completed()).await;
    assert_eq!(bench.purge_ended().await, 1);
    bench.clock().step_wall(-DAY_MS);
    bench.reopen().await;
    bench.advance(MILLI);
    let second = bench.running(new_job(1), "w").await;
    assert!(second.fence > first.fence, "{} must exceed {}", second.fence, first.fence);
}

pub(super) async fn many_reopenings_end_no_lease(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    for _ in 0..5 {
        bench.advance(secs(3_600));
        bench.reopen().await;
    }
    assert_eq!(bench.expired(MANY).await, []);
}
