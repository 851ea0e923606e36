//! What happens only once: requests with an id, jobs with a unique key.

use model::{NewJob, Retry, State, UniqueScope, When};

use super::bench::{
    Bench, MANY, MILLI, QUEUE, completed, duplicate, failed, failed_with, id, inserted, job_in, keyed,
    new_job, secs, text,
};
use crate::port::{Cancelled, EnqueueAnswer, Retention};

pub(super) async fn repeated_request_answers_as_the_first_time(bench: &Bench) {
    bench.add(new_job(2)).await;
    let batch = vec![new_job(1), new_job(2), NewJob { when: When::After(secs(9)), ..new_job(3) }];
    let first = bench.enqueue_as("r", batch.clone()).await;
    assert_eq!(first.jobs, [inserted(id(1)), duplicate(id(2)), inserted(id(3))]);
    assert!(!first.repeated && first.next_run_in == Some(secs(9)));

    let again = bench.enqueue_as("r", batch.clone()).await;
    let expected = EnqueueAnswer { jobs: first.jobs, repeated: true, ..EnqueueAnswer::default() };
    assert_eq!(again, expected, "the same entries, and nothing new to do");
    let other = bench.enqueue_as("other", batch).await;
    assert_eq!(other.jobs, [1, 2, 3].map(|number| duplicate(id(number))), "another request is another");
}

pub(super) async fn repeated_request_inserts_nothing_whatever_it_carries(bench: &Bench) {
    bench.enqueue_as("r", vec![new_job(1)]).await;
    let answer = bench.enqueue_as("r", vec![new_job(2), job_in("elsewhere", 3)]).await;
    assert_eq!((answer.repeated, answer.jobs), (true, vec![inserted(id(1))]));
    assert_eq!(bench.get(id(2)).await, None);
    assert_eq!(bench.stats().await.len(), 1, "nor does it create a queue");
}

pub(super) async fn repeated_request_is_answered_after_its_job_is_gone(bench: &Bench) {
    bench.enqueue_as("r", vec![new_job(1)]).await;
    let hold = bench.take("w").await;
    bench.end("w", hold, completed()).await;
    bench.purge_ended().await;
    assert_eq!(bench.get(id(1)).await, None);
    let answer = bench.enqueue_as("r", vec![new_job(1)]).await;
    assert_eq!((answer.repeated, answer.jobs), (true, vec![inserted(id(1))]));
    assert_eq!(bench.get(id(1)).await, None, "the work was done; it must not be done again");
}

pub(super) async fn request_of_an_empty_batch_is_remembered(bench: &Bench) {
    assert_eq!(bench.enqueue_as("r", vec![]).await, EnqueueAnswer::default());
    let again = bench.enqueue_as("r", vec![new_job(1)]).await;
    assert_eq!(again, EnqueueAnswer { repeated: true, ..EnqueueAnswer::default() });
}

pub(super) async fn request_is_remembered_for_a_day(bench: &Bench) {
    bench.enqueue_as("r", vec![new_job(1)]).await;
    bench.advance(Retention::REQUEST_IDS - MILLI);
    assert_eq!(bench.purge_ended().await, 0, "a request of less than a day ago must be kept");
    assert!(bench.enqueue_as("r", vec![new_job(2)]).await.repeated);
    bench.advance(MILLI);
    assert_eq!(bench.purge_ended().await, 1, "a day later it is forgotten, and counted as a row that went");
    let answer = bench.enqueue_as("r", vec![new_job(2)]).await;
    assert_eq!((answer.repeated, answer.jobs), (false, vec![inserted(id(2))]));
}

pub(super) async fn taken_unique_key_is_answered_with_its_owner(bench: &Bench) {
    bench.add(NewJob { when: When::After(secs(1)), ..keyed("key", 1) }).await;
    let try_again = async |number| bench.enqueue(vec![keyed("key", number)]).await;
    assert_eq!(try_again(2).await.jobs, [duplicate(id(1))], "while scheduled");
    bench.promote_in(secs(1)).await;
    assert_eq!(
        try_again(3).await,
        EnqueueAnswer { jobs: vec![duplicate(id(1))], ..EnqueueAnswer::default() }
    );
    let hold = bench.take("w").await;
    assert_eq!(try_again(4).await.jobs, [duplicate(id(1))], "while running");
    bench.end("w", hold, failed()).await;
    assert_eq!(try_again(5).await.jobs, [duplicate(id(1))], "while waiting for its next attempt");
    assert_eq!(bench.all().await.len(), 1);
}

pub(super) async fn unique_key_is_free_once_its_job_ended(bench: &Bench) {
    let hold = bench.running(keyed("key", 1), "w").await;
    bench.end("w", hold, completed()).await;
    let hold = bench.running(keyed("key", 2), "w").await;
    bench.end("w", hold, failed_with(Retry::Never)).await;
    bench.add(keyed("key", 3)).await;
    assert_eq!(bench.cancel(id(3)).await, Cancelled::Now);
    bench.add(keyed("key", 4)).await;
}

pub(super) async fn retained_unique_key_stays_taken_until_purge(bench: &Bench) {
    let retained = |number| NewJob { unique_scope: UniqueScope::Retained, ..keyed("key", number) };
    let hold = bench.running(retained(1), "w").await;
    bench.end("w", hold, completed()).await;
    assert_eq!(bench.enqueue(vec![keyed("key", 2)]).await.jobs, [duplicate(id(1))]);
    assert_eq!(bench.enqueue(vec![retained(2)]).await.jobs, [duplicate(id(1))]);
    assert_eq!(bench.purge_ended().await, 1);
    bench.add(retained(2)).await;
}

pub(super) async fn unique_key_is_per_queue(bench: &Bench) {
    let elsewhere = NewJob { unique_key: keyed("key", 2).unique_key, ..job_in("elsewhere", 2) };
    let answer = bench.enqueue(vec![keyed("key", 1), elsewhere, keyed("other", 3)]).await;
    assert_eq!(answer.jobs, [1, 2, 3].map(|number| inserted(id(number))));
}

pub(super) async fn same_unique_key_twice_in_one_batch_inserts_once(bench: &Bench) {
    let answer = bench.enqueue(vec![keyed("key", 1), keyed("key", 2), new_job(3)]).await;
    assert_eq!(answer.jobs, [inserted(id(1)), duplicate(id(1)), inserted(id(3))]);
    assert_eq!(bench.counts(QUEUE).await[State::Available as usize], 2);
}

pub(super) async fn existing_id_is_answered_before_a_taken_key(bench: &Bench) {
    bench.enqueue(vec![keyed("key", 1), new_job(2)]).await;
    let both = NewJob { payload: text("both"), ..keyed("key", 2) };
    assert_eq!(bench.enqueue(vec![both]).await.jobs, [duplicate(id(2))]);
    assert_eq!(bench.claim("w", MANY).await.len(), 2);
}
