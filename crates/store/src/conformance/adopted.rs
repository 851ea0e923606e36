//! What workers say of claims that this life of the store did not make.

use std::time::Duration;

use model::{Fence, Hold, JobId, NewJob, State, When};

use super::bench::{Bench, LEASE, MANY, QUEUE, completed, failed, ids, inserted, new_job, secs, worker};
use crate::port::{Alarm, Cancelled, Finished, Renewed};

/// A claim of a former life.
pub(super) fn claimed_before(job: JobId, fence: i64) -> Hold {
    Hold { job, fence: Fence::new(fence) }
}

/// A job of the volatile queue.
pub(super) fn volatile_job(id: JobId) -> NewJob {
    NewJob { id, ..new_job(1) }
}

pub(super) fn alarm(known: (&str, Hold), other: (&str, Hold)) -> Alarm {
    Alarm {
        job: known.1.job,
        known: Some((worker(known.0), known.1.fence)),
        other: (worker(other.0), other.1.fence),
    }
}

const HELD: Renewed = Renewed::Held { lease: LEASE, cancel: false, exclusive: true };

pub(super) async fn unknown_hold_is_adopted(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let hold = claimed_before(id, 7_000);
    assert_eq!(bench.renew("before", &[hold]).await, [HELD]);
    assert_eq!(bench.renew("before", &[hold]).await, [HELD], "as often as it is asked");
    assert_eq!((bench.inheritance().unclaimed, bench.get(id).await), (1, None), "nobody submitted it yet");

    let answer = bench.enqueue(vec![volatile_job(id)]).await;
    assert_eq!((answer.jobs, answer.ready), (vec![inserted(id)], vec![]), "it is not offered");
    assert_eq!(bench.claim_exclusive("other", &[QUEUE], MANY).await, []);
    let job = bench.job(id).await;
    assert_eq!((job.state, job.holder, job.fence), (State::Running, Some(worker("before")), hold.fence));
    assert_eq!((job.attempt, bench.inheritance().unclaimed), (1, 0));
    assert_eq!(bench.renew("before", &[hold]).await, [HELD]);
    assert_eq!(bench.end("before", hold, completed()).await, State::Completed);
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn job_that_waits_is_adopted(bench: &Bench) {
    let client = bench.attend().await;
    let delayed = NewJob { when: When::After(secs(60)), ..volatile_job(client.job(2)) };
    bench.enqueue(vec![volatile_job(client.job(1)), delayed]).await;
    for number in [1, 2] {
        let hold = claimed_before(client.job(number), 7_000);
        assert_eq!(bench.renew("before", &[hold]).await, [HELD]);
        let job = bench.job(hold.job).await;
        assert_eq!((job.state, job.holder, job.fence), (State::Running, Some(worker("before")), hold.fence));
    }
    bench.promote_in(secs(60)).await;
    assert_eq!(bench.claim_exclusive("other", &[QUEUE], MANY).await, []);
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn job_that_was_called_off_is_adopted_and_told(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    assert_eq!(bench.cancel(id).await, Cancelled::Now);
    let hold = claimed_before(id, 7_000);
    let told = Renewed::Held { lease: LEASE, cancel: true, exclusive: true };
    assert_eq!(bench.renew("before", &[hold]).await, [told], "it runs all the same, and is to be stopped");
    assert_eq!(bench.end("before", hold, completed()).await, State::Cancelled);
}

pub(super) async fn second_copy_of_an_unknown_job_is_lost(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let (first, second) = (claimed_before(id, 7_000), claimed_before(id, 7_001));
    assert_eq!(bench.renew("one", &[first]).await, [HELD]);
    assert_eq!(bench.renew("two", &[second]).await, [Renewed::Lost]);
    assert_eq!(bench.inheritance().double_starts, 1);
    assert_eq!(bench.take_alarms(), [alarm(("one", first), ("two", second))]);
    assert_eq!(bench.take_alarms(), [], "each is told once");
    bench.add(volatile_job(id)).await;
    assert_eq!(bench.job(id).await.holder, Some(worker("one")), "the first stays");
}

pub(super) async fn second_copy_of_a_running_job_is_lost(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("ours").await;
    let copy = claimed_before(id, 7_000);
    assert_eq!(bench.renew("before", &[copy]).await, [Renewed::Lost]);
    assert_eq!(bench.take_alarms(), [alarm(("ours", hold), ("before", copy))]);
    assert_eq!(bench.renew("before", &[hold]).await, [Renewed::Lost], "nor does another have its claim");
    assert_eq!(bench.inheritance().double_starts, 1, "but that is no second copy");
    assert_eq!(bench.end("ours", hold, completed()).await, State::Completed);
}

pub(super) async fn second_copy_of_an_ended_job_is_lost(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("ours").await;
    bench.end("ours", hold, completed()).await;
    let copy = claimed_before(id, hold.fence.get() + 5);
    assert_eq!(bench.renew("before", &[copy]).await, [Renewed::Lost]);
    assert_eq!(bench.take_alarms(), [alarm(("ours", hold), ("before", copy))]);
    assert_eq!(bench.job(id).await.state, State::Completed);
}

pub(super) async fn claim_that_reported_is_lost_without_an_alarm(bench: &Bench) {
    let client = bench.attend().await;
    bench.add(volatile_job(client.job(1))).await;
    let ended = bench.start("ours").await;
    bench.end("ours", ended, failed()).await;
    let unknown = claimed_before(client.job(2), 7_000);
    bench.finish("before", unknown, completed()).await;
    assert_eq!(bench.renew("ours", &[ended]).await, [Renewed::Lost]);
    assert_eq!(bench.renew("before", &[unknown]).await, [Renewed::Lost]);
    bench.promote_in(secs(3600)).await;
    bench.start("next").await;
    assert_eq!(bench.renew("ours", &[ended]).await, [Renewed::Lost], "nor when the next attempt runs");
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn terminal_holder_is_not_believed(bench: &Bench) {
    let client = bench.attend().await;
    bench.retire("gone").await;
    bench.add(volatile_job(client.job(1))).await;
    for number in [1, 2] {
        assert_eq!(bench.renew("gone", &[claimed_before(client.job(number), 7_000)]).await, [Renewed::Lost]);
    }
    assert_eq!(bench.inheritance().unclaimed, 0);
    assert_eq!(bench.start("other").await.job, client.job(1));
}

pub(super) async fn holder_that_is_gone_runs_nothing(bench: &Bench) {
    let client = bench.attend().await;
    let holds = [1, 2].map(|number| claimed_before(client.job(number), 7_000));
    assert_eq!(bench.renew("before", &holds).await, [HELD, HELD]);
    let elsewhere = claimed_before(client.job(3), 7_000);
    assert_eq!(bench.renew("stays", &[elsewhere]).await, [HELD]);
    bench.retire("before").await;
    assert_eq!(bench.reap_holder("before", true).await, [], "nobody knows the queue of what is not here");
    assert_eq!(bench.inheritance().unclaimed, 1);
    bench.enqueue([1, 2, 3].map(|number| volatile_job(client.job(number))).to_vec()).await;
    let claimed = bench.claim_exclusive("other", &[QUEUE], MANY).await;
    assert_eq!(ids(&claimed), [client.job(1), client.job(2)]);
    assert!(claimed.iter().all(|claimed| claimed.hold.fence > Fence::new(7_000)));
}

pub(super) async fn adopted_job_is_lost_once(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let hold = claimed_before(id, 7_000);
    bench.renew("before", &[hold]).await;
    bench.add(volatile_job(id)).await;
    bench.retire("before").await;
    let reaped = bench.reap_holder("before", true).await;
    assert_eq!(
        reaped.iter().map(|reaped| (reaped.hold, reaped.exclusive)).collect::<Vec<_>>(),
        [(hold, true)]
    );
    assert_eq!(bench.reap_holder("before", true).await, []);
    let job = bench.job(id).await;
    assert_eq!((job.state, job.lost, job.attempt), (State::Available, 1, 0));
}

pub(super) async fn adopted_lease_runs_out_like_any_other(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let hold = claimed_before(id, 7_000);
    bench.renew("before", &[hold]).await;
    bench.add(volatile_job(id)).await;
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(seen.iter().map(|seen| (seen.hold, seen.exclusive)).collect::<Vec<_>>(), [(hold, true)]);
    assert_eq!(bench.reap(seen).await.len(), 1);
    assert_eq!(bench.start("other").await.job, id);
}

pub(super) async fn hold_that_was_taken_back_is_believed_until_the_next_start(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("slow").await;
    bench.advance(LEASE);
    assert_eq!(bench.reap(bench.expired(MANY).await).await.len(), 1);
    assert_eq!(bench.renew("slow", &[hold]).await, [HELD], "it runs there, whatever was thought");
    assert_eq!(bench.claim_exclusive("other", &[QUEUE], MANY).await, []);

    bench.advance(LEASE);
    assert_eq!(bench.reap(bench.expired(MANY).await).await.len(), 1);
    bench.promote_in(Duration::from_secs(3600)).await;
    let next = bench.start("other").await;
    assert_eq!(bench.renew("slow", &[hold]).await, [Renewed::Lost]);
    assert_eq!(bench.take_alarms(), [alarm(("other", next), ("slow", hold))]);
}

pub(super) async fn claim_is_its_process_s_under_its_next_key_too(bench: &Bench) {
    let client = bench.attend().await;
    let jobs = [1, 2, 3, 4].map(|number| volatile_job(client.job(number)));
    bench.enqueue(jobs.to_vec()).await;
    let holds: Vec<Hold> =
        bench.claim_exclusive("old", &[QUEUE], MANY).await.iter().map(|claimed| claimed.hold).collect();
    let [completed_cut_off, still_running, reported, left] = holds[..] else { panic!("four of {holds:?}") };
    bench.end("old", reported, completed()).await;
    // One is not taken back yet.
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    bench.reap(seen.into_iter().filter(|seen| seen.hold != left).collect()).await;
    assert_eq!(bench.end("new", completed_cut_off, completed()).await, State::Completed);
    assert_eq!(bench.renew("new", &[still_running]).await, [HELD], "it runs there");
    assert_eq!(bench.renew("new", &[reported]).await, [Renewed::Lost]);
    assert_eq!(bench.finish("new", reported, completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.renew("new", &[left]).await, [Renewed::Lost], "but not from a key that may be alive");
    let stale = Finished::Stale { current: left.fence };
    assert_eq!(bench.finish("new", left, completed()).await, stale);
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn adopted_claim_is_its_process_s_under_its_next_key_too(bench: &Bench) {
    let client = bench.attend().await;
    let holds = [1, 2].map(|number| claimed_before(client.job(number), 7_000));
    assert_eq!(bench.renew("old", &holds).await, [HELD, HELD]);
    assert_eq!(bench.renew("new", &holds[..1]).await, [Renewed::Lost], "not from a key that may be alive");
    bench.retire("old").await;
    assert_eq!(bench.renew("new", &holds[..1]).await, [HELD]);
    bench.reap_holder("old", true).await;
    assert_eq!(bench.inheritance().unclaimed, 1, "one goes on, the other went with its holder");
    bench.enqueue([1, 2].map(|number| volatile_job(client.job(number))).to_vec()).await;
    assert_eq!(bench.job(client.job(1)).await.holder, Some(worker("new")));
    assert_eq!(bench.start("other").await.job, client.job(2));
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn fences_grow_past_what_was_reported(bench: &Bench) {
    let client = bench.attend().await;
    bench.enqueue([1, 2].map(|number| volatile_job(client.job(number))).to_vec()).await;
    let ahead = bench.start("ours").await.fence.get() + 1_000_000_000;
    bench.renew("before", &[claimed_before(client.job(7), ahead)]).await;
    let hold = bench.start("ours").await;
    assert!(hold.fence.get() > ahead, "{hold:?} after {ahead}");
    bench.finish("before", claimed_before(client.job(8), ahead + 10), completed()).await;
    bench.add(volatile_job(client.job(3))).await;
    let hold = bench.start("ours").await;
    assert!(hold.fence.get() > ahead + 10, "{hold:?} after {ahead}");
}

pub(super) async fn absurd_fence_is_refused(bench: &Bench) {
    let client = bench.attend().await;
    // A year from now is ahead of every clock; all later fences would have to be greater still.
    let far = bench.wall().as_millis() * 1_000 + 367 * 24 * 3_600_000_000;
    for fence in [i64::MAX, (1 << 53) - 2, far, 0, -1] {
        let hold = claimed_before(client.job(7), fence);
        assert_eq!(bench.renew("before", &[hold]).await, [Renewed::Lost]);
        assert_eq!(bench.finish("before", hold, completed()).await, Finished::Unknown);
    }
    bench.add(volatile_job(client.job(1))).await;
    assert!(bench.start("ours").await.fence.get() < 1 << 52, "what is no fence moves none");
}
