//! A worker whose lease lapsed on its own side goes on under a new key, with what it still holds.

use model::{Fence, Hold, HolderEnd, NewJob, Outcome, State};

use super::bench::{Bench, FIRST, LEASE, MANY, QUEUE, completed, enlist, id, job_in, new_job, secs, worker};
use crate::port::{Finished, Renewed};

/// Enlists both keys and gives this many jobs to `former`, the first numbered 1.
async fn former_with(bench: &Bench, jobs: u64) -> Vec<Hold> {
    bench.enlist(enlist("former")).await;
    bench.enlist(enlist("new")).await;
    bench.enqueue((1..=jobs).map(new_job).collect()).await;
    bench.claim("former", MANY).await.into_iter().map(|claimed| claimed.hold).collect()
}

/// Nothing moved: each of these jobs is held as it was, and the former worker goes on.
async fn assert_nothing_moved(bench: &Bench, former: &str, successor: &str, holds: &[Hold]) {
    let (jobs, end) = (bench.all().await, bench.end_of(former).await);
    assert_eq!(bench.succeed(former, successor, holds).await, vec![false; holds.len()]);
    assert_eq!((bench.all().await, bench.end_of(former).await), (jobs, end));
}

pub(super) async fn successor_goes_on_with_what_moved(bench: &Bench) {
    let holds = former_with(bench, 2).await;
    bench.advance(secs(4));
    let before = bench.job(id(1)).await;
    assert_eq!(bench.succeed("former", "new", &holds).await, [true, true]);
    let after = bench.job(id(1)).await;
    assert_eq!(after.holder, Some(worker("new")));
    assert_eq!((after.fence, after.lease_until, after.attempt), (before.fence, before.lease_until, 1));

    assert_eq!(bench.renew("former", &holds).await, [Renewed::Lost, Renewed::Lost]);
    let stale = Finished::Stale { current: holds[0].fence };
    assert_eq!(bench.finish("former", holds[0], completed()).await, stale);
    assert_eq!(
        bench.renew("new", &holds[..1]).await,
        [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]
    );
    assert_eq!(bench.end("new", holds[0], completed()).await, State::Completed);
    assert_eq!(bench.end("new", holds[1], Outcome::HandedBack).await, State::Available);
}

pub(super) async fn succession_ends_the_former(bench: &Bench) {
    let holds = former_with(bench, 3).await;
    bench.succeed("former", "new", &holds[..1]).await;
    assert_eq!(bench.end_of("former").await, Some((HolderEnd::Succeeded, bench.wall())));
    assert_eq!(bench.roster(FIRST).await, [enlist("new")]);
    bench.add(new_job(4)).await;
    assert_eq!(bench.claim("former", MANY).await, []);
    let reaped = bench.reap_holder("former", false).await;
    let reaped: Vec<Hold> = reaped.into_iter().map(|reaped| reaped.hold).collect();
    assert_eq!(reaped, holds[1..], "what it did not name is taken back, what moved is not");
    assert_eq!(bench.claim("new", MANY).await.len(), 3);
}

pub(super) async fn succession_without_holds_ends_the_former(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    assert_eq!(bench.succeed("former", "new", &[]).await, [false; 0]);
    assert_eq!(bench.end_of("former").await, Some((HolderEnd::Succeeded, bench.wall())));
    assert_eq!(bench.reap_holder("former", true).await[0].hold, holds[0]);
}

pub(super) async fn succession_needs_the_fence(bench: &Bench) {
    let hold = former_with(bench, 1).await[0];
    bench.end("former", hold, Outcome::HandedBack).await;
    let again = bench.take("former").await;
    let future = Hold { fence: Fence::new(again.fence.get() + 1), ..again };
    assert_eq!(bench.succeed("former", "new", &[hold, future]).await, [false, false]);
    assert_eq!(
        bench.job(id(1)).await.holder,
        Some(worker("former")),
        "the zombie's job is the later claim's"
    );
}

pub(super) async fn succession_takes_only_from_the_former(bench: &Bench) {
    let own = former_with(bench, 1).await[0];
    bench.enlist(enlist("other")).await;
    let others = bench.running(new_job(2), "other").await;
    assert_eq!(bench.succeed("former", "new", &[others, own]).await, [false, true]);
    assert_eq!(bench.job(id(2)).await.holder, Some(worker("other")));
    assert_eq!(bench.end("other", others, completed()).await, State::Completed);
}

pub(super) async fn terminal_worker_has_no_successor(bench: &Bench) {
    let holds = former_with(bench, 2).await;
    bench.retire_as("former", HolderEnd::Expired).await;
    let own = bench.running(new_job(3), "new").await;
    assert_nothing_moved(bench, "former", "new", &[holds[0], own, holds[1]]).await;
    assert_eq!(bench.reap_holder("former", true).await.len(), 2, "it loses everything, as was decided");
}

pub(super) async fn terminal_worker_succeeds_nobody(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    bench.retire("new").await;
    assert_nothing_moved(bench, "former", "new", &holds).await;
    assert_eq!(
        bench.renew("former", &holds).await,
        [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]
    );
}

pub(super) async fn succession_needs_both_enlisted(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    let plain = bench.running(new_job(2), "plain").await;
    assert_nothing_moved(bench, "former", "plain", &holds).await;
    assert_nothing_moved(bench, "former", "unheard-of", &holds).await;
    assert_nothing_moved(bench, "plain", "new", &[plain]).await;
    bench.running(new_job(4), "as-plain").await;
    assert_nothing_moved(bench, "plain", "as-plain", &[plain]).await;
    assert_nothing_moved(bench, "unheard-of", "new", &holds).await;
    assert_eq!(bench.worker("unheard-of").await, None, "nor is it made known");
    bench.add(new_job(3)).await;
    assert_eq!(bench.claim("plain", MANY).await.len(), 1, "nor terminal");
}

pub(super) async fn nobody_succeeds_itself(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    assert_nothing_moved(bench, "former", "former", &holds).await;
    assert_eq!(bench.end_of("former").await, None);
}

pub(super) async fn repeated_succession_answers_as_the_first_time(bench: &Bench) {
    let holds = former_with(bench, 3).await;
    bench.end("former", holds[0], completed()).await;
    let first = bench.succeed("former", "new", &holds[..2]).await;
    assert_eq!(first, [false, true]);
    bench.advance(secs(1));
    assert_eq!(
        bench.succeed("former", "new", &holds).await,
        [false, true, false],
        "what was not named stays"
    );
    assert_eq!(bench.job(id(3)).await.holder, Some(worker("former")));
    assert_eq!(bench.end_of("former").await, Some((HolderEnd::Succeeded, bench.wall() - secs(1))));

    bench.enlist(enlist("newer")).await;
    assert_eq!(bench.succeed("new", "newer", &holds).await, [false, true, false]);
    assert_eq!(bench.succeed("former", "new", &holds).await, [false; 3], "it is someone else's by now");
    bench.end("newer", holds[1], completed()).await;
    assert_eq!(bench.succeed("new", "newer", &holds).await, [false; 3], "it has ended by now");
}

pub(super) async fn mixed_succession_is_answered_in_input_order(bench: &Bench) {
    let holds = former_with(bench, 4).await;
    bench.end("former", holds[1], completed()).await;
    let unknown = Hold { job: id(9), ..holds[0] };
    let stale = Hold { fence: Fence::new(holds[3].fence.get() - 1), ..holds[3] };
    let named = [holds[2], holds[1], unknown, holds[0], stale, holds[2]];
    assert_eq!(bench.succeed("former", "new", &named).await, [true, false, false, true, false, true]);
    assert_eq!(bench.job(id(4)).await.holder, Some(worker("former")));
}

pub(super) async fn succession_keeps_the_cancel(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    bench.cancel(id(1)).await;
    assert_eq!(bench.succeed("former", "new", &holds).await, [true]);
    assert_eq!(
        bench.renew("new", &holds).await,
        [Renewed::Held { lease: LEASE, cancel: true, exclusive: false }]
    );
    assert_eq!(bench.end("new", holds[0], completed()).await, State::Cancelled);
}

pub(super) async fn reaper_that_saw_the_former_does_not_take_from_its_successor(bench: &Bench) {
    let holds = former_with(bench, 1).await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.succeed("former", "new", &holds).await, [true]);
    assert_eq!(bench.reap(seen.clone()).await, [], "the former is gone, its successor is not");
    assert_eq!(bench.job(id(1)).await.holder, Some(worker("new")));
    let again = bench.expired(MANY).await;
    assert_eq!(again[0].holder, worker("new"), "the lease is still over, and the successor is to be asked");
    let reaped = bench.reap([seen, again].concat()).await;
    assert_eq!((reaped.len(), &reaped[0].holder), (1, &worker("new")));
}

pub(super) async fn succession_moves_jobs_of_every_queue(bench: &Bench) {
    former_with(bench, 0).await;
    let own = NewJob { heartbeat_timeout: Some(secs(9)), ..job_in("b", 2) };
    bench.enqueue(vec![new_job(1), own]).await;
    let claimed = bench.claim_from("former", &[QUEUE, "b"], MANY).await;
    let holds: Vec<Hold> = claimed.iter().map(|claimed| claimed.hold).collect();
    assert_eq!(bench.succeed("former", "new", &holds).await, [true, true]);
    let held = |secs_held| Renewed::Held { lease: secs(secs_held), cancel: false, exclusive: false };
    assert_eq!(bench.renew("new", &holds).await, [held(LEASE.as_secs()), held(9)]);
    assert_eq!(bench.counts("b").await, [0, 0, 1, 0, 0, 0]);
}
