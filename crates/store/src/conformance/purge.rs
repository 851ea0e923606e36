//! Finished jobs and ended workers leave after their retention.

use std::time::Duration;

use model::{HolderEnd, NewJob, Retry, State, When};

use super::bench::{
    Bench, FIRST, LEASE, MANY, MILLI, QUEUE, completed, enlist, enlist_pinging, failed_with, id, inserted,
    new_job, secs, worker,
};
use crate::port::{EnlistAnswer, Finished, Renewed, Retention};

const RETENTION: Retention =
    Retention { completed: Duration::from_secs(100), dead: Duration::from_secs(300) };

/// One job in each terminal state, all ended now: 1 completed, 2 cancelled, 3 dead.
async fn one_of_each(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    bench.add(new_job(2)).await;
    bench.cancel(id(2)).await;
    let hold = bench.running(new_job(3), "w").await;
    bench.end("w", hold, failed_with(Retry::Never)).await;
}

pub(super) async fn finished_jobs_go_after_their_retention(bench: &Bench) {
    one_of_each(bench).await;
    bench.advance(RETENTION.completed - MILLI);
    assert_eq!(bench.purge(RETENTION, MANY).await, 0);
    bench.advance(MILLI);
    assert_eq!(bench.purge(RETENTION, MANY).await, 2, "the completed and the cancelled one");
    assert_eq!((bench.get(id(1)).await, bench.get(id(2)).await), (None, None));
    assert_eq!(bench.counts(QUEUE).await, [0, 0, 0, 0, 0, 1]);
    bench.advance(RETENTION.dead - RETENTION.completed - MILLI);
    assert_eq!(bench.purge(RETENTION, MANY).await, 0);
    bench.advance(MILLI);
    assert_eq!(bench.purge(RETENTION, MANY).await, 1, "the dead one");
    assert_eq!(bench.counts(QUEUE).await, [0; 6], "the queue stays");
}

pub(super) async fn retention_counts_from_the_end(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.advance(RETENTION.dead * 2);
    let hold = bench.take("w").await;
    bench.advance(RETENTION.dead * 2);
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.purge(RETENTION, MANY).await, 0);
    assert!(bench.get(id(1)).await.is_some());
}

pub(super) async fn live_jobs_are_never_purged(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    let far = NewJob { when: When::After(secs(10 * 86_400)), ..new_job(2) };
    bench.enqueue(vec![far, new_job(3)]).await;
    bench.advance(RETENTION.dead * 10);
    assert_eq!(bench.purge_ended().await, 0);
    assert_eq!(bench.all().await.len(), 3);
}

pub(super) async fn redriven_job_is_not_purged(bench: &Bench) {
    one_of_each(bench).await;
    bench.redrive(id(3)).await;
    bench.advance(RETENTION.dead);
    assert_eq!(bench.purge(RETENTION, MANY).await, 2);
    assert_eq!(bench.job(id(3)).await.state, State::Available);
}

pub(super) async fn purge_takes_at_most_its_limit(bench: &Bench) {
    bench.enqueue((1..=7).map(new_job).collect()).await;
    for claimed in bench.claim("w", MANY).await {
        bench.end("w", claimed.hold, completed()).await;
    }
    bench.enqueue_as("r1", vec![]).await;
    bench.advance(Retention::REQUEST_IDS);
    assert_eq!(bench.purge(RETENTION, 0).await, 0);
    let mut went = Vec::new();
    while went.last().is_none_or(|last| *last >= 3) {
        went.push(bench.purge(RETENTION, 3).await);
        assert!(went.len() < 10, "a purge that never comes to an end: {went:?}");
    }
    assert_eq!(went.iter().sum::<u64>(), 8, "seven jobs and one request");
    assert!(went.iter().all(|count| *count <= 6), "at most three of each: {went:?}");
    assert_eq!(bench.all().await, []);
}

pub(super) async fn purge_follows_the_wall_clock(bench: &Bench) {
    one_of_each(bench).await;
    bench.clock().step_wall(-3_600_000);
    bench.advance(RETENTION.dead);
    assert_eq!(bench.purge(RETENTION, MANY).await, 0, "by its date nothing is old");
    bench.clock().step_wall(3_600_000);
    assert_eq!(bench.purge(RETENTION, MANY).await, 3);
}

pub(super) async fn purged_id_is_free_again(bench: &Bench) {
    one_of_each(bench).await;
    assert_eq!(bench.purge_ended().await, 3);
    let answer = bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    assert_eq!(answer.jobs, [1, 2, 3].map(|number| inserted(id(number))));
    let job = bench.job(id(3)).await;
    assert_eq!((job.attempt, job.last_error, job.result), (0, None, None), "nothing is left of the old one");
}

pub(super) async fn terminal_worker_is_remembered_for_a_day(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    bench.enlist(enlist("alive")).await;
    bench.retire_as("w", HolderEnd::Left).await;
    bench.advance(Retention::WORKERS - MILLI);
    assert_eq!(bench.purge_ended().await, 0);
    assert_eq!(bench.enlist(enlist("w")).await, EnlistAnswer::Terminal(HolderEnd::Left));
    bench.advance(MILLI);
    assert_eq!(bench.purge_ended().await, 1);
    assert_eq!(bench.worker("w").await, None);
    assert_eq!(bench.roster(FIRST).await, [enlist("alive")], "however long ago it was enlisted");
    assert_eq!(bench.enlist(enlist("w")).await, EnlistAnswer::Known, "the key is as new");
    bench.running(new_job(1), "w").await;
}

pub(super) async fn terminal_worker_is_remembered_while_it_holds(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    bench.running(new_job(1), "w").await;
    bench.retire("w").await;
    bench.advance(Retention::WORKERS * 2);
    assert_eq!(bench.purge_ended().await, 0);
    bench.add(new_job(2)).await;
    assert_eq!(bench.claim("w", MANY).await, []);
    assert_eq!(bench.reap_holder("w", true).await.len(), 1);
    assert_eq!(bench.purge_ended().await, 1);
    assert_eq!(bench.worker("w").await, None);
}

pub(super) async fn readmitted_holder_is_not_forgotten(bench: &Bench) {
    bench.enlist(enlist_pinging("w")).await;
    bench.retire_as("w", HolderEnd::Silent).await;
    bench.readmit("w").await;
    bench.advance(Retention::WORKERS * 2);
    assert_eq!(bench.purge_ended().await, 0);
    assert!(bench.worker("w").await.is_some());
}

pub(super) async fn purge_forgets_workers_up_to_its_limit_oldest_first(bench: &Bench) {
    for key in ["e", "d", "c", "b", "a"] {
        bench.retire(key).await;
        bench.advance(MILLI);
    }
    bench.advance(Retention::WORKERS);
    assert_eq!(bench.purge(RETENTION, 0).await, 0);
    assert_eq!(bench.purge(RETENTION, 2).await, 2);
    let mut left = Vec::new();
    for key in ["a", "b", "c", "d", "e"] {
        left.extend(bench.worker(key).await.map(|known| known.worker.key));
    }
    assert_eq!(left, ["a", "b", "c"].map(worker));
    assert_eq!(bench.purge(RETENTION, 10).await, 3);
}

pub(super) async fn purge_leaves_holders_of_running_jobs(bench: &Bench) {
    let hold = bench.running(new_job(1), "plain").await;
    assert_eq!(bench.purge_ended().await, 0);
    assert_eq!(bench.job(id(1)).await.holder, Some(worker("plain")));
    assert_eq!(
        bench.renew("plain", &[hold]).await,
        [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]
    );
    assert_eq!(bench.end("plain", hold, completed()).await, State::Completed);
    assert_eq!(bench.purge_ended().await, 1, "the job, and nothing that anyone could see");
    let hold = bench.running(new_job(2), "plain").await;
    assert_eq!(bench.end("plain", hold, completed()).await, State::Completed);
}

pub(super) async fn holder_that_was_forgotten_is_nobody_else(bench: &Bench) {
    bench.retire("terminal").await;
    let hold = bench.running(new_job(1), "plain").await;
    bench.end("plain", hold, completed()).await;
    bench.advance(Retention::WORKERS);
    bench.purge_ended().await;
    // A store that gives the numbers of its holders again must not mistake the old for the new.
    for (number, holder) in [(2, "a"), (3, "b"), (4, "c")] {
        let hold = bench.running(new_job(number), holder).await;
        for old in ["terminal", "plain"] {
            assert_eq!(bench.renew(old, &[hold]).await, [Renewed::Lost], "{old} is not {holder}");
            let stale = Finished::Stale { current: hold.fence };
            assert_eq!(bench.finish(old, hold, completed()).await, stale, "{old} is not {holder}");
        }
    }
}
