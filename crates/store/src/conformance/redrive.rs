//! Dead and cancelled jobs are offered again.

use std::time::Duration;

use model::{JobId, NewJob, QueueName, Retry, State, UniqueScope, When};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, failed, failed_with, id, ids, job_in, keyed, kind, new_job, queue,
    secs,
};
use crate::port::{Finished, JobFilter, Redriven, Renewed, Selection};

fn again(name: &str) -> Redriven {
    Redriven::Again(queue(name))
}

/// All that match.
fn matching(filter: JobFilter) -> Selection {
    Selection::Filter { filter, after: None }
}

/// A job that failed for good.
async fn dead(bench: &Bench, job: NewJob) -> JobId {
    let (id, queue) = (job.id, job.queue.clone());
    bench.add(job).await;
    let claimed = bench.claim_from("undertaker", &[queue.as_str()], MANY).await;
    for claimed in claimed {
        bench.end("undertaker", claimed.hold, failed_with(Retry::Never)).await;
    }
    id
}

pub(super) async fn dead_job_is_offered_again(bench: &Bench) {
    bench.add(NewJob { max_attempts: Some(2), ..new_job(1) }).await;
    let hold = bench.take("w").await;
    bench.end("w", hold, failed_with(Retry::After(Duration::ZERO))).await;
    let hold = bench.take("w").await;
    assert_eq!(bench.end("w", hold, failed()).await, State::Dead);
    bench.advance(secs(60));
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.run_at, job.finished_at), (State::Available, bench.wall(), None));
    assert_eq!((job.attempt, job.lost, job.max_attempts), (0, 0, 2));
    assert_eq!((job.fence, job.reported_fence), (hold.fence, hold.fence), "both are kept");
    let claimed = bench.claim("w", 1).await.remove(0);
    assert_eq!(claimed.attempt, 1);
    let ended = bench.end("w", claimed.hold, failed()).await;
    assert_eq!(ended, State::Scheduled, "it has all its attempts again");
}

pub(super) async fn poison_pill_has_all_its_losses_again(bench: &Bench) {
    bench.add(NewJob { max_lost: Some(2), ..new_job(1) }).await;
    bench.lose_again(id(1), 2).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
    bench.take("w").await;
    assert_eq!(bench.lose(id(1)).await.state, State::Available);
}

pub(super) async fn cancelled_job_is_offered_again(bench: &Bench) {
    bench.add(NewJob { when: When::After(secs(3_600)), ..new_job(1) }).await;
    bench.cancel(id(1)).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
    let hold = bench.take("w").await;
    bench.cancel(id(1)).await;
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
    assert!(!bench.job(id(1)).await.cancel_requested, "the cancel is forgotten");
    let hold = bench.take("w").await;
    assert_eq!(
        bench.renew("w", &[hold]).await,
        [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]
    );
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
}

pub(super) async fn redrive_keeps_the_fence_growing(bench: &Bench) {
    let zombie = bench.running(NewJob { max_lost: Some(1), ..new_job(1) }, "w").await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    // The clock stands from here on, so only the row itself can keep the fences apart.
    bench.reap(seen).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
    assert_eq!(bench.job(id(1)).await.fence, zombie.fence);
    let first = bench.take("w").await;
    assert!(first.fence > zombie.fence);
    bench.end("w", first, failed_with(Retry::Never)).await;
    bench.redrive(id(1)).await;
    let second = bench.take("w").await;
    assert!(second.fence > first.fence, "{} must exceed {}", second.fence, first.fence);
    assert_eq!(bench.finish("w", zombie, completed()).await, Finished::Stale { current: second.fence });
}

pub(super) async fn live_and_completed_jobs_are_not_redriven(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    bench.running(new_job(2), "w").await;
    bench.enqueue(vec![new_job(3), NewJob { when: When::After(secs(9)), ..new_job(4) }]).await;
    let states = [(1, State::Completed), (2, State::Running), (3, State::Available), (4, State::Scheduled)];
    for (number, state) in states {
        let before = bench.job(id(number)).await;
        assert_eq!(bench.redrive(id(number)).await, Redriven::NotEnded(state));
        assert_eq!(bench.job(id(number)).await, before);
    }
}

pub(super) async fn redrive_is_refused_while_another_has_the_unique_key(bench: &Bench) {
    dead(bench, keyed("key", 1)).await;
    bench.add(keyed("key", 2)).await;
    let before = bench.job(id(1)).await;
    assert_eq!(bench.redrive(id(1)).await, Redriven::KeyTaken);
    assert_eq!(bench.job(id(1)).await, before);
    let hold = bench.take("w").await;
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE), "the key is free again");
    let taken = bench.enqueue(vec![keyed("key", 3)]).await.jobs[0];
    assert_eq!((taken.id, taken.duplicate), (id(1), true), "and taken by the job that came back");
}

pub(super) async fn redriven_job_may_have_kept_its_own_key(bench: &Bench) {
    let retained = NewJob { unique_scope: UniqueScope::Retained, ..keyed("key", 1) };
    dead(bench, retained).await;
    assert_eq!(bench.redrive(id(1)).await, again(QUEUE));
}

pub(super) async fn of_two_with_one_key_the_first_is_redriven(bench: &Bench) {
    dead(bench, keyed("key", 1)).await;
    dead(bench, keyed("key", 2)).await;
    let answers = bench.redrive_all(Selection::Ids([2, 1].map(id).to_vec()), MANY).await;
    assert_eq!(answers, [(id(2), again(QUEUE)), (id(1), Redriven::KeyTaken)]);
}

pub(super) async fn mixed_redrives_are_answered_in_input_order(bench: &Bench) {
    dead(bench, new_job(1)).await;
    dead(bench, job_in("b", 2)).await;
    bench.add(new_job(3)).await;
    let selection = Selection::Ids([2, 9, 3, 1, 2].map(id).to_vec());
    let answers = bench.redrive_all(selection, 1).await;
    let expected = [
        (id(2), again("b")),
        (id(9), Redriven::Unknown),
        (id(3), Redriven::NotEnded(State::Available)),
        (id(1), again(QUEUE)),
        (id(2), Redriven::NotEnded(State::Available)),
    ];
    assert_eq!(answers, expected, "the limit is for filters");
    assert_eq!(bench.redrive_all(Selection::Ids(vec![]), MANY).await, []);
}

pub(super) async fn filter_redrives_the_oldest_first_up_to_the_limit(bench: &Bench) {
    for number in [4, 2, 5, 1, 3] {
        dead(bench, new_job(number)).await;
    }
    let some = async |limit| bench.redrive_all(matching(JobFilter::default()), limit).await;
    assert_eq!(some(0).await, []);
    assert_eq!(some(2).await, [1, 2].map(|number| (id(number), again(QUEUE))));
    assert_eq!(some(MANY).await, [3, 4, 5].map(|number| (id(number), again(QUEUE))));
    assert_eq!(some(MANY).await, []);
}

pub(super) async fn filter_redrives_only_what_matches_and_has_ended(bench: &Bench) {
    dead(bench, new_job(1)).await;
    dead(bench, job_in("b", 2)).await;
    dead(bench, NewJob { kind: kind("other"), ..new_job(3) }).await;
    let hold = bench.running(new_job(4), "w").await;
    bench.end("w", hold, completed()).await;
    bench.add(new_job(5)).await;
    bench.cancel(id(5)).await;
    bench.add(new_job(6)).await;

    let filter = |queue: Option<QueueName>, states: &[State]| JobFilter {
        queue,
        kind: Some(kind("k")),
        states: states.to_vec(),
    };
    let redrive = async |filter| bench.redrive_all(matching(filter), MANY).await;
    assert_eq!(redrive(filter(Some(queue(QUEUE)), &[State::Dead])).await, [(id(1), again(QUEUE))]);
    assert_eq!(redrive(filter(None, &[State::Completed, State::Available])).await, []);
    let rest = [(id(2), again("b")), (id(5), again(QUEUE))];
    assert_eq!(redrive(filter(None, &[])).await, rest, "any state means any that can be re-driven");
    assert_eq!(bench.job(id(3)).await.state, State::Dead, "of another kind");
}

pub(super) async fn filter_answers_for_jobs_whose_key_is_taken(bench: &Bench) {
    dead(bench, keyed("key", 1)).await;
    dead(bench, new_job(2)).await;
    bench.add(keyed("key", 3)).await;
    let answers = bench.redrive_all(matching(JobFilter::default()), MANY).await;
    assert_eq!(answers, [(id(1), Redriven::KeyTaken), (id(2), again(QUEUE))]);
    assert_eq!(ids(&bench.claim("w", MANY).await), [2, 3].map(id));
}

pub(super) async fn redrive_by_filter_pages_past_taken_keys(bench: &Bench) {
    // Dead and cancelled in turns, the youngest ended first: only the ids make this order.
    for number in [7, 6, 5, 4, 3, 2, 1] {
        let job = if number <= 4 { keyed(&format!("key {number}"), number) } else { new_job(number) };
        if number % 2 == 0 {
            dead(bench, job).await;
        } else {
            bench.add(job).await;
            bench.cancel(id(number)).await;
        }
        bench.advance(secs(1));
    }
    for number in 1..=4 {
        bench.add(keyed(&format!("key {number}"), 10 + number)).await;
    }
    let page = async |after: Option<u64>| {
        let selection = Selection::Filter { filter: JobFilter::default(), after: after.map(id) };
        bench.redrive_all(selection, 3).await
    };
    let taken = |number| (id(number), Redriven::KeyTaken);
    let offered = |number| (id(number), again(QUEUE));
    assert_eq!(page(None).await, [1, 2, 3].map(taken));
    assert_eq!(page(None).await, [1, 2, 3].map(taken), "without the last id there is no end to them");
    assert_eq!(page(Some(3)).await, [taken(4), offered(5), offered(6)]);
    assert_eq!(page(Some(6)).await, [offered(7)]);
    assert_eq!(page(Some(7)).await, []);
}
