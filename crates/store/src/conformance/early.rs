//! Reports that come before their jobs, and those that come after their jobs were taken back.

use std::time::Duration;

use model::{NewJob, Outcome, Retry, State};

use super::adopted::{alarm, claimed_before, volatile_job};
use super::bench::{
    Bench, LEASE, MANY, QUEUE, TICK, completed, failed, failed_with, inserted, secs, text, worker,
};
use super::clock::TestClock;
use crate::port::{Finished, Renewed};

pub(super) async fn result_before_its_job_ends_it(bench: &Bench) {
    let client = bench.attend().await;
    let hold = claimed_before(client.job(1), 7_000);
    assert_eq!(bench.finish("before", hold, completed()).await, Finished::AlreadyDone);
    assert_eq!(
        bench.finish("before", hold, completed()).await,
        Finished::AlreadyDone,
        "as often as it comes"
    );
    assert_eq!((bench.inheritance().unclaimed, bench.get(hold.job).await), (1, None));

    let answer = bench.enqueue(vec![volatile_job(hold.job), volatile_job(client.job(2))]).await;
    assert_eq!(answer.jobs, [inserted(hold.job), inserted(client.job(2))]);
    assert_eq!(answer.ended, [hold.job]);
    let job = bench.job(hold.job).await;
    assert_eq!((job.state, job.result, job.attempt), (State::Completed, Some(text("result")), 1));
    assert_eq!(job.reported_fence, hold.fence);
    assert_eq!(bench.finish("before", hold, completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.inheritance().unclaimed, 0);
    assert_eq!(bench.start("other").await.job, client.job(2), "only the other one is run");
}

pub(super) async fn failure_before_its_job_counts(bench: &Bench) {
    let client = bench.attend().await;
    let [later, never] = [1, 2].map(|number| claimed_before(client.job(number), 7_000));
    bench.finish("before", later, failed_with(Retry::After(secs(60)))).await;
    bench.finish("before", never, failed_with(Retry::Never)).await;
    let answer = bench.enqueue([later, never].map(|hold| volatile_job(hold.job)).to_vec()).await;
    assert_eq!((answer.next_run_in, answer.ended), (Some(secs(60)), vec![never.job]));
    let job = bench.job(later.job).await;
    assert_eq!((job.state, job.attempt, job.last_error), (State::Scheduled, 1, Some("boom".to_owned())));
    assert_eq!(bench.job(never.job).await.state, State::Dead);
    bench.promote_in(secs(60)).await;
    assert_eq!(bench.start("other").await.job, later.job);
}

pub(super) async fn result_of_a_job_that_waits_ends_it(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    assert_eq!(bench.end("before", claimed_before(id, 7_000), completed()).await, State::Completed);
    assert_eq!(bench.claim_exclusive("other", &[QUEUE], MANY).await, []);
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn adopted_claim_ends_with_its_holders_report_alone(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let hold = claimed_before(id, 7_000);
    bench.renew("before", &[hold]).await;
    let stale = Finished::Stale { current: hold.fence };
    assert_eq!(bench.finish("other", claimed_before(id, 7_001), completed()).await, stale);
    assert_eq!(bench.finish("before", claimed_before(id, 6_999), completed()).await, stale);
    assert_eq!(bench.inheritance().stale_reports, 2);
    assert_eq!(bench.finish("before", hold, failed_with(Retry::Never)).await, Finished::AlreadyDone);
    bench.enqueue(vec![volatile_job(id)]).await;
    assert_eq!(bench.job(id).await.state, State::Dead, "the holder's word and no other");
}

pub(super) async fn early_result_is_its_process_s_under_its_next_key_too(bench: &Bench) {
    let client = bench.attend().await;
    let [adopted, reported] = [1, 2].map(|number| claimed_before(client.job(number), 7_000));
    bench.renew("old", &[adopted]).await;
    assert_eq!(bench.finish("new", adopted, completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.finish("old", reported, completed()).await, Finished::AlreadyDone);
    // The answer was lost with the old key.
    assert_eq!(bench.renew("new", &[reported]).await, [Renewed::Lost]);
    assert_eq!(bench.finish("new", reported, completed()).await, Finished::AlreadyDone);
    assert_eq!((bench.inheritance().double_starts, bench.inheritance().stale_reports), (0, 0));
    let answer = bench.enqueue([1, 2].map(|number| volatile_job(client.job(number))).to_vec()).await;
    assert_eq!(answer.ended, [adopted.job, reported.job]);
    assert_eq!(bench.claim_exclusive("other", &[QUEUE], MANY).await, []);
}

pub(super) async fn adopted_job_can_be_handed_back(bench: &Bench) {
    let id = bench.attend().await.job(1);
    let hold = claimed_before(id, 7_000);
    bench.renew("before", &[hold]).await;
    assert_eq!(bench.finish("before", hold, Outcome::HandedBack).await, Finished::AlreadyDone);
    assert_eq!(bench.inheritance().unclaimed, 0);
    bench.add(volatile_job(id)).await;
    assert_eq!(bench.start("other").await.job, id);
}

pub(super) async fn later_of_two_results_counts(bench: &Bench) {
    let client = bench.attend().await;
    for (number, order) in [(1, [0, 1]), (2, [1, 0])] {
        let attempts = [("one", 7_000, failed()), ("two", 7_001, completed())];
        for which in order {
            let (holder, fence, outcome) = attempts[which].clone();
            bench.finish(holder, claimed_before(client.job(number), fence), outcome).await;
        }
        bench.enqueue(vec![volatile_job(client.job(number))]).await;
        assert_eq!(bench.job(client.job(number)).await.state, State::Completed, "in the order {order:?}");
    }
    assert_eq!(bench.inheritance().double_starts, 0, "a failed attempt is followed by another");
}

pub(super) async fn retry_that_runs_replaces_the_failure_before_it(bench: &Bench) {
    let client = bench.attend().await;
    // Heard of before the job was submitted, and after.
    for number in [1, 2] {
        let id = client.job(number);
        bench.finish("one", claimed_before(id, 7_000), failed()).await;
        if number == 2 {
            bench.enqueue(vec![volatile_job(id)]).await;
        }
        let retry = claimed_before(id, 7_001);
        assert!(matches!(bench.renew("two", &[retry]).await[..], [Renewed::Held { .. }]));
        if number == 1 {
            bench.enqueue(vec![volatile_job(id)]).await;
        }
        let job = bench.job(id).await;
        assert_eq!((job.state, job.fence), (State::Running, retry.fence));
    }
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn completed_job_does_not_run_again_unnoticed(bench: &Bench) {
    let client = bench.attend().await;
    let (done, copy) = (claimed_before(client.job(1), 7_000), claimed_before(client.job(1), 7_001));
    bench.finish("one", done, completed()).await;
    assert!(matches!(bench.renew("two", &[copy]).await[..], [Renewed::Held { .. }]), "it runs");
    assert_eq!(bench.take_alarms(), [alarm(("one", done), ("two", copy))]);
    let (done, older) = (claimed_before(client.job(2), 7_001), claimed_before(client.job(2), 7_000));
    bench.finish("one", done, completed()).await;
    assert_eq!(bench.renew("two", &[older]).await, [Renewed::Lost]);
    assert_eq!(bench.finish("two", older, completed()).await, Finished::Stale { current: done.fence });
    assert_eq!(bench.take_alarms(), vec![alarm(("one", done), ("two", older)); 2]);
}

pub(super) async fn unattended_result_is_not_kept(bench: &Bench) {
    bench.attend().await;
    let nobody = model::ClientId::unattended(TestClock::START, 5);
    let hold = claimed_before(nobody.job(1), 7_000);
    assert!(matches!(bench.renew("before", &[hold]).await[..], [Renewed::Held { .. }]));
    assert_eq!(bench.inheritance().unclaimed, 1, "it runs, whoever submitted it");
    assert_eq!(bench.finish("before", hold, completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.inheritance().unclaimed, 0, "nobody will ask for it");
}

pub(super) async fn late_report_beats_a_loss(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("slow").await;
    bench.retire("slow").await;
    assert_eq!(bench.reap_holder("slow", true).await.len(), 1);
    assert_eq!(bench.end("slow", hold, completed()).await, State::Completed);
    let job = bench.job(id).await;
    assert_eq!((job.result, job.attempt), (Some(text("result")), 1));
    assert_eq!(bench.finish("slow", hold, completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.inheritance().double_starts, 0);
}

pub(super) async fn late_report_beats_a_burial(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(NewJob { max_lost: Some(1), ..volatile_job(id) }).await;
    let hold = bench.start("slow").await;
    bench.retire("slow").await;
    bench.reap_holder("slow", true).await;
    assert_eq!(bench.job(id).await.state, State::Dead);
    assert_eq!(bench.end("slow", hold, completed()).await, State::Completed);
}

pub(super) async fn late_report_beats_a_hand_back(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("slow").await;
    assert_eq!(bench.end("slow", hold, Outcome::HandedBack).await, State::Available);
    assert_eq!(bench.finish("slow", hold, Outcome::HandedBack).await, Finished::AlreadyDone);
    assert_eq!(bench.end("slow", hold, completed()).await, State::Completed, "it had started all the same");
}

pub(super) async fn late_report_after_the_next_start_is_an_alarm(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("slow").await;
    bench.advance(LEASE);
    assert_eq!(bench.reap(bench.expired(MANY).await).await.len(), 1);
    bench.promote_in(Duration::from_secs(3600)).await;
    let next = bench.start("next").await;
    assert_eq!(bench.finish("slow", hold, completed()).await, Finished::Stale { current: next.fence });
    assert_eq!(bench.take_alarms(), [alarm(("next", next), ("slow", hold))]);
    let job = bench.job(id).await;
    assert_eq!((job.state, job.holder, job.result), (State::Running, Some(worker("next")), None));
    assert_eq!(bench.end("next", next, completed()).await, State::Completed);
    assert_eq!(bench.finish("slow", hold, completed()).await, Finished::Stale { current: next.fence });
    assert_eq!(bench.inheritance().double_starts, 2);
}

/// When it had stopped is said elsewhere. Here its result is only late.
pub(super) async fn late_report_of_a_holder_that_is_over_is_no_alarm(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("slow").await;
    bench.retire("slow").await;
    bench.reap_holder("slow", true).await;
    bench.advance(TICK);
    let next = bench.start("next").await;
    for holder in ["slow", "slow-again"] {
        assert_eq!(bench.finish(holder, hold, completed()).await, Finished::Stale { current: next.fence });
    }
    assert_eq!((bench.take_alarms(), bench.inheritance().double_starts), (vec![], 0));
    assert_eq!(bench.end("next", next, completed()).await, State::Completed);
}

pub(super) async fn result_of_a_former_life_after_our_start_is_an_alarm(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let ours = bench.start("ours").await;
    let stale = Finished::Stale { current: ours.fence };
    assert_eq!(bench.finish("before", claimed_before(id, 7_000), failed()).await, stale);
    assert_eq!(bench.inheritance().double_starts, 0, "a failure may be followed by our start");
    assert_eq!(bench.inheritance().stale_reports, 1);
    let copy = claimed_before(id, 7_001);
    assert_eq!(bench.finish("before", copy, completed()).await, stale);
    assert_eq!(bench.take_alarms(), [alarm(("ours", ours), ("before", copy))]);
}

pub(super) async fn loss_after_a_report_changes_nothing(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("quick").await;
    bench.end("quick", hold, completed()).await;
    bench.retire("quick").await;
    assert_eq!(bench.reap_holder("quick", true).await, []);
    assert_eq!(bench.job(id).await.state, State::Completed);
}

pub(super) async fn report_of_nobody_is_stale_and_counted(bench: &Bench) {
    let id = bench.attend().await.job(1);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("ours").await;
    let stale = Finished::Stale { current: hold.fence };
    assert_eq!(bench.finish("other", hold, completed()).await, stale);
    let made_up = claimed_before(id, hold.fence.get() + 1);
    assert_eq!(bench.finish("ours", made_up, completed()).await, stale);
    assert_eq!((bench.inheritance().stale_reports, bench.inheritance().double_starts), (2, 0));
    assert_eq!(bench.job(id).await.state, State::Running);
}
