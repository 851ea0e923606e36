//! Scheduled jobs become available when their time has come.

use std::time::Duration;

use model::{JobId, NewJob, State, When};

use super::bench::{Bench, MANY, MILLI, QUEUE, id, ids, job_in, new_job, queue, secs};
use crate::port::Promoted;

fn after(number: u64, delay: Duration) -> NewJob {
    NewJob { when: When::After(delay), ..new_job(number) }
}

pub(super) async fn due_jobs_become_available(bench: &Bench) {
    let elsewhere = NewJob { when: When::After(secs(10)), ..job_in("elsewhere", 3) };
    bench.enqueue(vec![after(1, secs(10)), after(2, secs(20)), elsewhere]).await;
    let due = bench.wall() + secs(10);
    bench.advance(secs(15));
    let promoted = bench.promote(MANY).await;
    assert_eq!(
        promoted,
        Promoted { jobs: vec![id(1), id(3)], ready: vec![queue("elsewhere"), queue(QUEUE)] }
    );
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.run_at), (State::Available, due), "it keeps the time it was due");
    assert_eq!(bench.job(id(2)).await.state, State::Scheduled);
}

pub(super) async fn jobs_are_not_promoted_early(bench: &Bench) {
    bench.add(after(1, secs(10))).await;
    bench.advance(secs(10) - MILLI);
    assert_eq!(bench.promote(MANY).await, Promoted::default());
    assert_eq!(bench.job(id(1)).await.state, State::Scheduled);
    bench.advance(MILLI);
    assert_eq!(bench.promote(MANY).await.jobs, [id(1)], "a job is due at its time");
}

pub(super) async fn promotion_follows_the_wall_clock(bench: &Bench) {
    bench.add(after(1, secs(3_600))).await;
    bench.clock().step_wall(-3_600_000);
    bench.advance(secs(3_600));
    assert_eq!(bench.promote(MANY).await.jobs, [], "the date has not come, though an hour has passed");
    bench.clock().step_wall(3_600_000);
    assert_eq!(bench.promote(MANY).await.jobs, [id(1)], "the date has come");
}

pub(super) async fn promotion_takes_at_most_its_limit_in_order_of_time(bench: &Bench) {
    bench.enqueue(vec![after(1, secs(3)), after(4, secs(1)), after(3, secs(2)), after(2, secs(1))]).await;
    bench.advance(secs(60));
    assert_eq!(bench.promote(0).await, Promoted::default());
    assert_eq!(bench.promote(2).await.jobs, [id(2), id(4)], "by id if due at the same time");
    let available = async || -> Vec<JobId> {
        let jobs = bench.all().await.into_iter().rev();
        jobs.filter(|job| job.state == State::Available).map(|job| job.id).collect()
    };
    assert_eq!(available().await, [id(2), id(4)]);
    assert_eq!(bench.promote(MANY).await.jobs, [id(3), id(1)], "by time first");
    assert_eq!(available().await, [id(1), id(2), id(3), id(4)]);
    assert_eq!(bench.promote(MANY).await, Promoted::default());
}

pub(super) async fn scheduled_jobs_are_not_claimed(bench: &Bench) {
    bench.enqueue(vec![NewJob { priority: 100, ..after(1, secs(10)) }, new_job(2)]).await;
    assert_eq!(ids(&bench.claim("w", MANY).await), [id(2)]);
    bench.advance(secs(20));
    assert_eq!(ids(&bench.claim("w", MANY).await), [], "a job is promoted before it is claimed");
    bench.promote(MANY).await;
    let claimed = bench.claim("w", MANY).await;
    assert_eq!((ids(&claimed), claimed[0].waited), (vec![id(1)], secs(10)), "it was ready for ten seconds");
}
