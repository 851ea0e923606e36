//! Clients that come back for what became of their submissions, and say what they know.

use model::{ClientId, NewJob, Outcome, Retry, State};

use super::adopted::{claimed_before, volatile_job};
use super::bench::{Bench, MANY, QUEUE, completed, duplicate, failed_with, ids, inserted, secs, worker};
use super::clock::TestClock;
use crate::port::{Finished, Renewed, Retention};

const DAY: u64 = 24 * 3600;

/// Nothing that ended goes by itself.
const KEEPS: Retention = Retention { completed: secs_const(30 * DAY), dead: secs_const(30 * DAY) };

const fn secs_const(secs: u64) -> std::time::Duration {
    std::time::Duration::from_secs(secs)
}

pub(super) async fn ids_below_the_mark_are_refused(bench: &Bench) {
    let client = bench.attend().await;
    assert_eq!(bench.acknowledge(&[], Some(client.job(5))).await, []);
    assert_eq!(bench.acknowledge(&[], Some(client.job(3))).await, [], "a mark never goes back");
    let answer = bench.enqueue([4, 5].map(|number| volatile_job(client.job(number))).to_vec()).await;
    assert_eq!(answer.jobs, [duplicate(client.job(4)), inserted(client.job(5))]);
    assert_eq!(bench.get(client.job(4)).await, None);
    assert_eq!(ids(&bench.claim_exclusive("w", &[QUEUE], MANY).await), [client.job(5)]);
    assert_eq!(bench.renew("before", &[claimed_before(client.job(4), 7_000)]).await, [Renewed::Lost]);
    let another = ClientId::new(TestClock::START, 2);
    bench.add(volatile_job(another.job(4))).await;
}

pub(super) async fn acknowledged_job_is_not_run_again(bench: &Bench) {
    let client = bench.attend().await;
    let id = client.job(3);
    bench.add(volatile_job(id)).await;
    let hold = bench.start("w").await;
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.acknowledge(&[id], Some(client.job(1))).await, [(worker("w"), hold)]);
    assert_eq!(bench.acknowledge(&[id], None).await, [], "its worker is told once");
    assert_eq!(bench.get(id).await, None, "nobody needs it");
    assert_eq!(bench.enqueue(vec![volatile_job(id)]).await.jobs, [duplicate(id)]);
    assert_eq!(bench.claim_exclusive("w", &[QUEUE], MANY).await, []);
    assert_eq!(bench.renew("w", &[hold]).await, [Renewed::Lost]);
    bench.add(volatile_job(client.job(2))).await;
}

pub(super) async fn ended_jobs_are_told_until_they_are_acknowledged(bench: &Bench) {
    let client = bench.attend().await;
    bench.enqueue([1, 2, 3, 4].map(|number| volatile_job(client.job(number))).to_vec()).await;
    bench.add(volatile_job(ClientId::new(TestClock::START, 2).job(9))).await;
    for outcome in [completed(), failed_with(Retry::Never)] {
        let hold = bench.start("w").await;
        bench.end("w", hold, outcome).await;
    }
    bench.cancel(client.job(3)).await;
    let [one, two, three] =
        [(client.job(1), State::Completed), (client.job(2), State::Dead), (client.job(3), State::Cancelled)];
    assert_eq!(bench.ended_of(client).await, [one, two, three]);
    bench.acknowledge(&[client.job(2)], None).await;
    assert_eq!(bench.ended_of(client).await, [one, three]);
    bench.acknowledge(&[], Some(client.job(4))).await;
    assert_eq!(bench.ended_of(client).await, []);
}

pub(super) async fn mark_takes_what_waits_away(bench: &Bench) {
    let client = bench.attend().await;
    bench.enqueue([1, 2, 3].map(|number| volatile_job(client.job(number))).to_vec()).await;
    bench.acknowledge(&[client.job(3)], Some(client.job(2))).await;
    assert_eq!(ids(&bench.claim_exclusive("w", &[QUEUE], MANY).await), [client.job(2)]);
    assert_eq!(bench.get(client.job(1)).await, None);
}

pub(super) async fn running_job_below_the_mark_is_not_retried(bench: &Bench) {
    let client = bench.attend().await;
    bench.add(volatile_job(client.job(1))).await;
    let hold = bench.start("w").await;
    assert_eq!(bench.acknowledge(&[], Some(client.job(2))).await, []);
    assert!(
        matches!(bench.renew("w", &[hold]).await[..], [Renewed::Held { cancel: true, .. }]),
        "it is told"
    );
    assert_eq!(bench.end("w", hold, Outcome::HandedBack).await, State::Cancelled);
    assert_eq!(bench.ended_of(client).await, []);
}

pub(super) async fn early_results_below_the_mark_are_unneeded(bench: &Bench) {
    let client = bench.attend().await;
    let holds = [1, 2, 3].map(|number| claimed_before(client.job(number), 7_000));
    bench.finish("before", holds[0], completed()).await;
    bench.finish("before", holds[2], completed()).await;
    let unneeded = bench.acknowledge(&[], Some(client.job(3))).await;
    assert_eq!(unneeded, [(worker("before"), holds[0])]);
    assert_eq!(bench.finish("late", holds[1], completed()).await, Finished::AlreadyDone);
    assert_eq!(bench.inheritance().unclaimed, 1, "of the third alone");
    assert_eq!(bench.acknowledge(&[], Some(client.job(3))).await, [(worker("late"), holds[1])]);
    assert_eq!(bench.acknowledge(&[client.job(3)], None).await, [(worker("before"), holds[2])]);
    assert_eq!(bench.inheritance().unclaimed, 0);
}

pub(super) async fn known_id_is_a_duplicate(bench: &Bench) {
    let client = bench.attend().await;
    let job = || volatile_job(client.job(1));
    bench.add(job()).await;
    assert_eq!(bench.enqueue(vec![job()]).await.jobs, [duplicate(client.job(1))]);
    let hold = bench.start("w").await;
    assert_eq!(bench.enqueue(vec![job()]).await.jobs, [duplicate(client.job(1))]);
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.enqueue(vec![job()]).await.jobs, [duplicate(client.job(1))]);
    assert_eq!(bench.job(client.job(1)).await.state, State::Completed);
}

pub(super) async fn client_is_forgotten_after_a_day_of_silence(bench: &Bench) {
    let client = bench.attend().await;
    bench.add(volatile_job(client.job(6))).await;
    let hold = bench.start("w").await;
    bench.end("w", hold, completed()).await;
    bench.acknowledge(&[], Some(client.job(5))).await;
    bench.advance(secs(DAY - 1));
    bench.purge(KEEPS, MANY).await;
    assert_eq!(bench.enqueue(vec![volatile_job(client.job(4))]).await.jobs, [duplicate(client.job(4))]);
    // It was heard of just now.
    bench.advance(secs(DAY - 1));
    bench.purge(KEEPS, MANY).await;
    assert!(bench.get(client.job(6)).await.is_some());
    bench.advance(secs(1));
    bench.purge(KEEPS, MANY).await;
    assert_eq!(bench.get(client.job(6)).await, None, "with all it has");
    bench.add(volatile_job(client.job(4))).await;
}

pub(super) async fn client_whose_job_waits_is_not_forgotten(bench: &Bench) {
    let client = bench.attend().await;
    bench.acknowledge(&[], Some(client.job(5))).await;
    bench.add(volatile_job(client.job(6))).await;
    bench.advance(secs(2 * DAY));
    bench.purge(KEEPS, MANY).await;
    assert_eq!(bench.enqueue(vec![volatile_job(client.job(4))]).await.jobs, [duplicate(client.job(4))]);
    assert_eq!(bench.start("w").await.job, client.job(6));
}

pub(super) async fn ended_job_is_kept_by_retention(bench: &Bench) {
    let client = bench.attend().await;
    let nobody = ClientId::unattended(TestClock::START, 3);
    let jobs = [client, nobody].map(|client| NewJob { priority: 1, ..volatile_job(client.job(1)) });
    let both = jobs.clone().map(|job| job.id);
    bench.enqueue(jobs.to_vec()).await;
    for _ in both {
        let hold = bench.start("w").await;
        bench.end("w", hold, completed()).await;
    }
    let retention = Retention { completed: secs(60), dead: secs(60) };
    bench.advance(secs(59));
    bench.purge(retention, MANY).await;
    for id in both {
        assert_eq!(bench.job(id).await.state, State::Completed);
    }
    bench.advance(secs(1));
    assert_eq!(bench.purge(retention, MANY).await, 2);
    for id in both {
        assert_eq!(bench.get(id).await, None);
    }
}
