//! What a durable store keeps when it is closed and opened again, and what it must not do to those who were not told.

use std::time::Duration;

use model::{HolderEnd, Job, Limits, NewJob, Outcome, QueuePatch, Retry, State, UniqueScope, When};

use super::bench::{
    Bench, FIRST, LEASE, MANY, QUEUE, completed, duplicate, enlist, failed, failed_with, id, ids, inserted,
    job_in, keyed, new_job, secs, worker,
};
use crate::port::{Enlist, EnlistAnswer, Finished, Progress, Renewed};

const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// A lease so long that nobody wants to wait for it.
const LONG: Duration = Limits::LEASE_MAX;

/// A store may prolong leases while opening, so they are left out of comparisons.
fn but_for_leases(jobs: Vec<Job>) -> Vec<Job> {
    jobs.into_iter().map(|job| Job { lease_until: None, ..job }).collect()
}

pub(super) async fn reopening_keeps_everything_acknowledged(bench: &mut Bench) {
    let rich = NewJob {
        heartbeat_timeout: Some(secs(40)),
        timeout: Some(secs(9)),
        unique_scope: UniqueScope::Retained,
        ..keyed("k", 1)
    };
    bench.enqueue(vec![rich, new_job(2), new_job(3), new_job(4), new_job(5), job_in("b", 6)]).await;
    bench.add(NewJob { when: When::After(secs(60)), ..new_job(7) }).await;
    let claimed = bench.claim("w", 4).await;
    bench.advance(secs(3));
    let holds: Vec<_> = claimed.iter().map(|claimed| claimed.hold).collect();
    bench.progress("w", holds[0], "half").await;
    bench.end("w", holds[1], completed()).await;
    bench.end("w", holds[2], failed_with(Retry::Never)).await;
    bench.end("w", holds[3], failed()).await;
    bench.cancel(id(5)).await;
    bench.cancel(id(1)).await;
    let settings = QueuePatch {
        heartbeat_timeout: Some(Some(secs(33))),
        max_attempts: Some(Some(2)),
        ..QueuePatch::default()
    };
    bench.set_queue("b", settings).await;

    let before =
        (but_for_leases(bench.all().await), bench.stats().await, bench.deadlines().await.next_run_in);
    bench.reopen().await;
    let after = (but_for_leases(bench.all().await), bench.stats().await, bench.deadlines().await.next_run_in);
    assert_eq!(after, before);
}

pub(super) async fn waiting_jobs_go_on_after_reopening(bench: &mut Bench) {
    bench.enqueue(vec![new_job(1), NewJob { priority: 5, ..new_job(2) }]).await;
    bench.add(NewJob { when: When::After(secs(60)), priority: 9, ..new_job(3) }).await;
    bench.reopen().await;
    bench.promote_in(secs(60)).await;
    assert_eq!(ids(&bench.claim("w", MANY).await), [3, 2, 1].map(id));
}

pub(super) async fn holder_goes_on_after_reopening(bench: &mut Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let claimed = bench.claim("w", 2).await;
    let (first, second) = (claimed[0].hold, claimed[1].hold);
    bench.end("w", second, Outcome::HandedBack).await;
    bench.reopen().await;
    assert_eq!(bench.renew("thief", &[first]).await, [Renewed::Lost]);
    assert_eq!(
        bench.renew("w", &[first]).await,
        [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]
    );
    let note = Progress { hold: first, note: None, checkpoint: Some(bytes::Bytes::from_static(b"row 7")) };
    assert_eq!(bench.progress_all("w", vec![note]).await, [true]);
    assert_eq!(bench.end("w", first, completed()).await, State::Completed);
    assert_eq!(bench.finish("w", second, Outcome::HandedBack).await, Finished::AlreadyDone);
    bench.reopen().await;
    assert_eq!(bench.finish("w", first, completed()).await, Finished::AlreadyDone);
}

pub(super) async fn fence_never_goes_back_over_a_reopening(bench: &mut Bench) {
    let mut last = bench.running(new_job(1), "w").await;
    for _ in 0..3 {
        bench.end("w", last, Outcome::HandedBack).await;
        bench.clock().step_wall(-DAY_MS);
        bench.reopen().await;
        let next = bench.take("w").await;
        assert!(next.fence > last.fence, "{} must exceed {}", next.fence, last.fence);
        last = next;
    }
}

pub(super) async fn reopening_shortens_no_lease(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    assert_eq!(bench.extend_leases(LONG).await, 1);
    let before = bench.job(id(1)).await.lease_until;
    bench.reopen().await;
    assert_eq!(bench.job(id(1)).await.lease_until, before);
}

pub(super) async fn request_ids_survive_a_reopening(bench: &mut Bench) {
    bench.enqueue_as("r", vec![new_job(1)]).await;
    bench.reopen().await;
    let answer = bench.enqueue_as("r", vec![new_job(2)]).await;
    assert_eq!((answer.repeated, answer.jobs), (true, vec![inserted(id(1))]));
    assert_eq!(bench.get(id(2)).await, None);
}

pub(super) async fn unique_keys_survive_a_reopening(bench: &mut Bench) {
    bench.add(keyed("key", 1)).await;
    bench.reopen().await;
    assert_eq!(bench.enqueue(vec![keyed("key", 2)]).await.jobs, [duplicate(id(1))]);
}

pub(super) async fn pause_survives_a_reopening(bench: &mut Bench) {
    bench.add(new_job(1)).await;
    bench.pause(QUEUE, true).await;
    bench.reopen().await;
    assert_eq!(bench.claim("w", MANY).await, []);
    bench.pause(QUEUE, false).await;
    assert_eq!(ids(&bench.claim("w", MANY).await), [id(1)]);
}

pub(super) async fn exclusive_queue_survives_a_reopening(bench: &mut Bench) {
    bench.add(new_job(1)).await;
    bench.set_exclusive(QUEUE, true).await;
    bench.reopen().await;
    assert!(bench.stats().await[0].settings.exclusive);
    assert_eq!(bench.claim("plain", MANY).await, []);
    assert!(bench.claim_exclusive("able", &[QUEUE], MANY).await[0].exclusive);
}

pub(super) async fn exclusive_claim_survives_a_reopening(bench: &mut Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    bench.take("before").await;
    bench.set_exclusive(QUEUE, true).await;
    let claimed = bench.claim_exclusive("w", &[QUEUE], 2).await;
    bench.set_exclusive(QUEUE, false).await;
    bench.reopen().await;
    let held = Renewed::Held { lease: LEASE, cancel: false, exclusive: true };
    assert_eq!(bench.renew("w", &[claimed[0].hold]).await, [held]);
    bench.reopen().await;
    bench.advance(LEASE + secs(1));
    let mut seen = bench.expired(MANY).await;
    seen.sort_by_key(|seen| seen.hold.job);
    let told: Vec<bool> = seen.iter().map(|seen| seen.exclusive).collect();
    assert_eq!(told, [false, true, true], "as each was claimed");
    let told: Vec<bool> = bench.reap(seen).await.iter().map(|reaped| reaped.exclusive).collect();
    assert_eq!(told, [false, true, true]);
}

pub(super) async fn cancel_survives_a_reopening(bench: &mut Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.cancel(id(1)).await;
    bench.reopen().await;
    assert_eq!(
        bench.renew("w", &[hold]).await,
        [Renewed::Held { lease: LEASE, cancel: true, exclusive: false }]
    );
    assert_eq!(bench.end("w", hold, completed()).await, State::Cancelled);
}

pub(super) async fn retired_holders_survive_a_reopening(bench: &mut Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    bench.take("gone").await;
    bench.retire("gone").await;
    bench.reopen().await;
    assert_eq!(bench.claim("gone", MANY).await, []);
    let reaped = bench.reap_holder("gone", true).await;
    assert_eq!((reaped.len(), &reaped[0].holder), (1, &worker("gone")));
}

pub(super) async fn workers_survive_a_reopening(bench: &mut Bench) {
    let granted = Enlist { grant: secs(77), ..enlist("a") };
    bench.enlist_all(vec![enlist("b"), granted.clone(), enlist("gone"), enlist("a")]).await;
    bench.retire_as("gone", HolderEnd::Kicked).await;
    let gone = bench.worker("gone").await;
    bench.advance(secs(10));
    bench.reopen().await;
    assert_eq!(bench.roster(FIRST).await, [granted, enlist("b")]);
    assert_eq!(bench.worker("gone").await, gone);
    assert_eq!(bench.enlist(enlist("gone")).await, EnlistAnswer::Terminal(HolderEnd::Kicked));
    assert_eq!(bench.enlist(enlist("b")).await, EnlistAnswer::Known);
}

pub(super) async fn succession_survives_a_reopening(bench: &mut Bench) {
    bench.enlist_all(["w", "new"].map(enlist).to_vec()).await;
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let holds: Vec<_> = bench.claim("w", 2).await.iter().map(|claimed| claimed.hold).collect();
    assert_eq!(bench.succeed("w", "new", &holds[..1]).await, [true]);
    bench.reopen().await;
    assert_eq!(bench.succeed("w", "new", &holds).await, [true, false], "a repeat changes nothing");
    assert_eq!(bench.renew("w", &holds[..1]).await, [Renewed::Lost]);
    assert_eq!(bench.end("new", holds[0], completed()).await, State::Completed);
    assert_eq!(bench.reap_holder("w", true).await[0].hold, holds[1]);
}

pub(super) async fn many_reopenings_change_nothing(bench: &mut Bench) {
    bench.running(new_job(1), "w").await;
    bench.add(new_job(2)).await;
    let before = but_for_leases(bench.all().await);
    for _ in 0..5 {
        bench.advance(Duration::from_secs(3_600));
        bench.reopen().await;
    }
    assert_eq!(but_for_leases(bench.all().await), before);
}
