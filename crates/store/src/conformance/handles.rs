//! Two servers at work on one store at the same time, each with a handle of its own.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use model::{HolderEnd, JobId, State};

use super::bench::{
    Bench, FIRST, LEASE, MANY, QUEUE, SECOND, THIRD, completed, duplicate, enlist, enlist_in, id, ids,
    inserted, keyed, new_job, queue, worker,
};
use super::harness::together;
use crate::port::{EnlistAnswer, Finished, News};

/// How often each race is run: a store with real concurrency does not lose it at the first try.
const ROUNDS: u64 = 20;

/// The next news that is more than a warning. A store may give that one at any time.
async fn heard(bench: &Bench) -> News {
    loop {
        match bench.next_news().await {
            News::Missed => {}
            news => return news,
        }
    }
}

pub(super) async fn handles_show_the_same_jobs(bench: &Bench) {
    let other = bench.join().await;
    bench.add(new_job(1)).await;
    let hold = other.take("w").await;
    assert_eq!(bench.job(id(1)).await.holder, Some(worker("w")));
    bench.renew("w", &[hold]).await;
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
    assert_eq!(other.finish("w", hold, completed()).await, Finished::AlreadyDone);
    assert_eq!(other.all().await, bench.all().await);
    assert_eq!(other.stats().await, bench.stats().await);
}

pub(super) async fn settings_count_for_every_handle(bench: &Bench) {
    let other = bench.join().await;
    bench.add(new_job(1)).await;
    assert_eq!(other.counts(QUEUE).await, [0, 1, 0, 0, 0, 0]);
    bench.pause(QUEUE, true).await;
    assert_eq!(other.claim("w", MANY).await, []);
    bench.pause(QUEUE, false).await;
    other.set_exclusive(QUEUE, true).await;
    assert_eq!(bench.claim("w", MANY).await, []);
    assert!(bench.claim_exclusive("w", &[QUEUE], MANY).await[0].exclusive);
}

pub(super) async fn handle_that_goes_leaves_the_others(bench: &Bench) {
    let other = bench.join().await;
    let hold = other.running(new_job(1), "w").await;
    drop(other);
    bench.tell(News::Scheduled);
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
}

pub(super) async fn two_handles_never_claim_one_job_twice(bench: &Bench) {
    let other = bench.join().await;
    let numbers = 1..=ROUNDS * 10;
    bench.enqueue(numbers.clone().map(new_job).collect()).await;
    let mut claimed: Vec<JobId> = Vec::new();
    for _ in 0..ROUNDS {
        let (ours, theirs) = together(bench.claim("w1", 7), other.claim("w2", 7)).await;
        claimed.extend(ids(&ours).into_iter().chain(ids(&theirs)));
    }
    claimed.extend(ids(&bench.claim("w1", MANY).await));
    let different: BTreeSet<JobId> = claimed.iter().copied().collect();
    assert_eq!(different.len(), claimed.len(), "no job goes to two holders");
    assert_eq!(different, numbers.map(id).collect(), "and none is forgotten");
}

pub(super) async fn two_handles_reap_a_job_once(bench: &Bench) {
    let other = bench.join().await;
    bench.enqueue((1..=ROUNDS).map(new_job).collect()).await;
    bench.claim("w", MANY).await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(other.expired_in(SECOND, MANY).await, seen, "a plain holder is everybody's");
    let (ours, theirs) = together(bench.reap(seen.clone()), other.reap(seen)).await;
    assert_eq!(ours.len() + theirs.len(), ROUNDS as usize);
    for job in bench.all().await {
        assert_eq!((job.state, job.lost), (State::Available, 1));
    }
}

pub(super) async fn report_and_reap_do_not_both_win(bench: &Bench) {
    let other = bench.join().await;
    for number in 1..=ROUNDS {
        let hold = bench.running(new_job(number), "w").await;
        bench.advance(LEASE);
        let seen = vec![bench.seen(id(number)).await];
        let (finished, reaped) = together(bench.finish("w", hold, completed()), other.reap(seen)).await;
        match finished {
            Finished::Done { state: State::Completed, .. } => assert_eq!(reaped, []),
            Finished::Stale { .. } => assert_eq!(reaped.len(), 1),
            strange => panic!("{strange:?}"),
        }
        bench.cancel(id(number)).await;
    }
}

pub(super) async fn unique_key_is_given_once_by_two_handles(bench: &Bench) {
    let other = bench.join().await;
    for round in 0..ROUNDS {
        let (key, one, two) = (format!("key-{round}"), round * 2 + 1, round * 2 + 2);
        let (ours, theirs) =
            together(bench.enqueue(vec![keyed(&key, one)]), other.enqueue(vec![keyed(&key, two)])).await;
        let answers = (ours.jobs[0], theirs.jobs[0]);
        let first = (inserted(id(one)), duplicate(id(one)));
        let second = (duplicate(id(two)), inserted(id(two)));
        assert!(answers == first || answers == second, "{answers:?}");
    }
}

pub(super) async fn request_is_answered_once_by_two_handles(bench: &Bench) {
    let other = bench.join().await;
    for round in 0..ROUNDS {
        let (request, one, two) = (format!("request-{round}"), round * 2 + 1, round * 2 + 2);
        let (ours, theirs) = together(
            bench.enqueue_as(&request, vec![new_job(one)]),
            other.enqueue_as(&request, vec![new_job(two)]),
        )
        .await;
        assert_ne!(ours.repeated, theirs.repeated, "one of them is the repeat");
        assert_eq!(ours.jobs, theirs.jobs, "and is answered as the first");
    }
    assert_eq!(bench.all().await.len(), ROUNDS as usize);
}

pub(super) async fn claim_during_a_retirement_keeps_nothing(bench: &Bench) {
    let other = bench.join().await;
    for number in 1..=ROUNDS {
        let holder = format!("w{number}");
        bench.enlist(enlist(&holder)).await;
        bench.add(new_job(number)).await;
        let retire = async {
            bench.retire_as(&holder, HolderEnd::Expired).await;
            bench.reap_holder(&holder, false).await.len()
        };
        let (reaped, claimed) = together(retire, other.claim(&holder, 1)).await;
        assert_eq!(
            reaped,
            claimed.len(),
            "what was claimed before the end is taken back, and nothing after it"
        );
        assert_eq!(bench.job(id(number)).await.state, State::Available);
        bench.cancel(id(number)).await;
    }
}

pub(super) async fn of_two_take_overs_one_succeeds(bench: &Bench) {
    let other = bench.join().await;
    for round in 0..ROUNDS {
        let key = format!("w{round}");
        let gone = bench.found("gone").await;
        bench.enlist(enlist_in(gone, &key)).await;
        let (ours, theirs) =
            together(bench.take_over(gone, 0, FIRST), other.take_over(gone, 0, SECOND)).await;
        let registry = match (ours, theirs) {
            (Some(taken), None) => {
                assert_eq!(taken, [enlist(&key)]);
                FIRST
            }
            (None, Some(taken)) => {
                assert_eq!(taken, [enlist_in(SECOND, &key)]);
                SECOND
            }
            both => panic!("one of them must have them: {both:?}"),
        };
        assert_eq!(bench.worker(&key).await.unwrap().worker.registry, registry);
    }
}

pub(super) async fn enlisting_during_a_take_over_is_refused_or_moved(bench: &Bench) {
    let other = bench.join().await;
    for round in 0..ROUNDS {
        let key = format!("w{round}");
        let gone = bench.found("gone").await;
        let (answer, taken) =
            together(bench.enlist(enlist_in(gone, &key)), other.take_over(gone, 0, FIRST)).await;
        let taken = taken.expect("nobody else takes it");
        match answer {
            EnlistAnswer::Known => assert_eq!(taken, [enlist(&key)], "who is answered is not left behind"),
            EnlistAnswer::Disowned => assert_eq!((taken, bench.worker(&key).await), (vec![], None)),
            strange => panic!("{strange:?}"),
        }
    }
}

pub(super) async fn beat_and_take_over_do_not_both_win(bench: &Bench) {
    let other = bench.join().await;
    for _ in 0..ROUNDS {
        let slow = bench.found("slow").await;
        let (beaten, taken) = together(bench.beat(slow), other.take_over(slow, 0, THIRD)).await;
        assert_ne!(beaten.is_some(), taken.is_some(), "it goes on, or it is taken");
        assert_eq!(bench.beat(slow).await.is_some(), beaten.is_some());
    }
}

pub(super) async fn news_reach_the_others(bench: &Bench) {
    let (one, two) = (bench.join().await, bench.join().await);
    let hold = bench.running(new_job(1), "w").await;
    let all = [
        News::Ready(vec![queue("a"), queue("b")]),
        News::Scheduled,
        News::QueueSet(queue("a")),
        News::CancelAsked { holder: worker("w"), hold },
        News::Watching,
        News::Changed(vec![id(1), id(2)]),
    ];
    for news in all {
        bench.tell(news.clone());
        assert_eq!(heard(&one).await, news);
        assert_eq!(heard(&two).await, news);
    }
}

pub(super) async fn news_do_not_come_back(bench: &Bench) {
    let other = bench.join().await;
    bench.tell(News::Watching);
    assert_eq!(heard(&other).await, News::Watching);
    other.tell(News::Scheduled);
    assert_eq!(heard(bench).await, News::Scheduled, "its own would have come first");
}

pub(super) async fn news_are_kept_while_nobody_waits(bench: &Bench) {
    let other = bench.join().await;
    {
        let mut waiting = pin!(heard(&other));
        let asleep = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(asleep, Poll::Pending, "there are none yet");
        bench.tell(News::Watching);
    }
    assert_eq!(heard(&other).await, News::Watching, "whoever waited before has gone");
}
