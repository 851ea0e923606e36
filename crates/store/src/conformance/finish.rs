//! Attempts end by their holder's word, and by nobody else's.

use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Limits, Outcome, Retry, State};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, failed, failed_with, id, ids, new_job, queue, secs, text,
};
use crate::port::Finished;

pub(super) async fn completed_job_keeps_its_result(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(secs(3));
    let answer = bench.finish("w", hold, completed()).await;
    let expected =
        Finished::Done { state: State::Completed, queue: queue(QUEUE), due_in: None, ran: secs(3) };
    assert_eq!(answer, expected);
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.result), (State::Completed, Some(text("result"))));
    assert_eq!((job.finished_at, job.reported_fence), (Some(bench.wall()), hold.fence));
    assert_eq!((job.attempt, job.fence, job.last_error), (1, hold.fence, None));
}

pub(super) async fn empty_and_large_results_are_kept(bench: &Bench) {
    for (number, result) in [(1, Bytes::new()), (2, Bytes::from(vec![0; 1 << 20]))] {
        let hold = bench.running(new_job(number), "w").await;
        bench.end("w", hold, Outcome::Completed { result: result.clone() }).await;
        assert_eq!(bench.job(id(number)).await.result, Some(result));
    }
}

pub(super) async fn stale_fence_cannot_complete(bench: &Bench) {
    let old = bench.running(new_job(1), "w1").await;
    bench.lose(id(1)).await;
    let new = bench.take("w2").await;
    for outcome in [completed(), failed(), Outcome::HandedBack] {
        let before = bench.job(id(1)).await;
        for holder in ["w1", "w2"] {
            let answer = bench.finish(holder, old, outcome.clone()).await;
            assert_eq!(answer, Finished::Stale { current: new.fence }, "{outcome:?} by {holder}");
        }
        assert_eq!(bench.job(id(1)).await, before, "a refused report changes nothing");
    }
    assert_eq!(bench.end("w2", new, completed()).await, State::Completed);
}

pub(super) async fn same_worker_reclaim_fences_its_own_zombie(bench: &Bench) {
    let old = bench.running(new_job(1), "w").await;
    bench.lose(id(1)).await;
    let new = bench.take("w").await;
    let job = bench.job(id(1)).await;
    assert_eq!(job.attempt, 1, "the lost attempt was not counted, so both are the first");
    assert_eq!(bench.finish("w", old, completed()).await, Finished::Stale { current: new.fence });
    assert_eq!(bench.job(id(1)).await, job);
}

pub(super) async fn fence_from_the_future_is_stale(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let made_up = Hold { fence: Fence::new(hold.fence.get() + 1), ..hold };
    assert_eq!(bench.finish("w", made_up, completed()).await, Finished::Stale { current: hold.fence });
}

pub(super) async fn another_holder_cannot_complete(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let before = bench.job(id(1)).await;
    assert_eq!(bench.finish("thief", hold, completed()).await, Finished::Stale { current: hold.fence });
    assert_eq!(bench.job(id(1)).await, before);
}

pub(super) async fn waiting_job_cannot_be_finished(bench: &Bench) {
    bench.add(new_job(1)).await;
    let none = Hold { job: id(1), fence: Fence::NONE };
    assert_eq!(bench.finish("w", none, completed()).await, Finished::Stale { current: Fence::NONE });
    assert_eq!(bench.job(id(1)).await.state, State::Available);
}

pub(super) async fn unknown_job_is_answered_as_unknown(bench: &Bench) {
    let hold = Hold { job: id(1), fence: Fence::new(1) };
    assert_eq!(bench.finish("w", hold, completed()).await, Finished::Unknown);
}

pub(super) async fn late_report_counts_until_the_reaper_comes(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.advance(LEASE * 10);
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
    assert_eq!(bench.expired(MANY).await, []);
}

pub(super) async fn reaped_job_cannot_be_finished_by_its_former_holder(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.lose(id(1)).await;
    let before = bench.job(id(1)).await;
    assert_eq!(bench.finish("w", hold, completed()).await, Finished::Stale { current: hold.fence });
    assert_eq!(bench.job(id(1)).await, before, "its result came too late");
}

pub(super) async fn repeated_report_is_already_done(bench: &Bench) {
    let outcomes = [completed(), failed(), failed_with(Retry::Never), Outcome::HandedBack];
    for (number, outcome) in (1..).zip(outcomes) {
        let hold = bench.running(new_job(number), "w").await;
        bench.end("w", hold, outcome.clone()).await;
        let before = bench.job(id(number)).await;
        bench.advance(secs(1));
        assert_eq!(bench.finish("w", hold, outcome.clone()).await, Finished::AlreadyDone, "{outcome:?}");
        assert_eq!(bench.job(id(number)).await, before, "a repeat of {outcome:?} changes nothing");
        bench.cancel(id(number)).await;
    }
}

pub(super) async fn repeated_report_is_already_done_while_the_next_attempt_runs(bench: &Bench) {
    let old = bench.running(new_job(1), "w").await;
    bench.end("w", old, Outcome::HandedBack).await;
    let new = bench.take("w").await;
    assert_eq!(bench.finish("w", old, Outcome::HandedBack).await, Finished::AlreadyDone);
    assert_eq!(bench.end("w", new, completed()).await, State::Completed);
    assert_eq!(bench.finish("w", new, completed()).await, Finished::AlreadyDone);
    let superseded = bench.finish("w", old, Outcome::HandedBack).await;
    assert_eq!(superseded, Finished::Stale { current: new.fence }, "only the last report is remembered");
}

pub(super) async fn report_that_was_never_accepted_is_stale_after_the_end(bench: &Bench) {
    let zombie = bench.running(new_job(1), "w1").await;
    bench.lose(id(1)).await;
    let hold = bench.take("w2").await;
    bench.end("w2", hold, completed()).await;
    assert_eq!(bench.finish("w1", zombie, completed()).await, Finished::Stale { current: hold.fence });
}

pub(super) async fn handed_back_job_is_offered_at_once(bench: &Bench) {
    bench.enqueue(vec![new_job(1), new_job(2)]).await;
    bench.advance(secs(5));
    let hold = bench.take("w1").await;
    let before = bench.job(id(1)).await;
    let answer = bench.finish("w1", hold, Outcome::HandedBack).await;
    let expected =
        Finished::Done { state: State::Available, queue: queue(QUEUE), due_in: None, ran: Duration::ZERO };
    assert_eq!(answer, expected);
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.attempt), (State::Available, 0), "the attempt does not count");
    assert_eq!((job.run_at, job.fence, job.lost, job.last_error), (before.run_at, hold.fence, 0, None));
    assert_eq!(ids(&bench.claim("w2", 1).await), [id(1)], "it keeps its place in the queue");
}

pub(super) async fn hand_back_keeps_the_losses(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), 1).await;
    let hold = bench.take("w").await;
    bench.end("w", hold, Outcome::HandedBack).await;
    assert_eq!(bench.job(id(1)).await.lost, 1, "giving a job back is no progress");
}

pub(super) async fn long_error_keeps_its_end(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let error = format!("{}: the cause", "é".repeat(Limits::ERROR_BYTES_MAX));
    bench.end("w", hold, Outcome::Failed { error: error.clone(), retry: Retry::ByPolicy }).await;
    let kept = bench.job(id(1)).await.last_error.expect("the error is kept");
    assert!(kept.len() <= Limits::ERROR_BYTES_MAX && kept.len() >= Limits::ERROR_BYTES_MAX - 3);
    assert!(error.ends_with(&kept), "the last part is kept, where the cause is");
}

pub(super) async fn mixed_reports_are_answered_in_input_order(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    let mine = bench.claim("w", 2).await;
    let other = bench.take("other").await;
    let (first, second) = (mine[0].hold, mine[1].hold);
    let reports = vec![
        (Hold { job: id(9), ..first }, completed()),
        (second, completed()),
        (other, completed()),
        (first, failed_with(Retry::Never)),
        (second, completed()),
        (Hold { fence: Fence::new(1), ..first }, completed()),
    ];
    let answers = bench.finish_all("w", reports).await;
    let done = |state| Finished::Done { state, queue: queue(QUEUE), due_in: None, ran: Duration::ZERO };
    let expected = [
        Finished::Unknown,
        done(State::Completed),
        Finished::Stale { current: other.fence },
        done(State::Dead),
        Finished::AlreadyDone,
        Finished::Stale { current: first.fence },
    ];
    assert_eq!(answers, expected);
    assert_eq!(bench.counts(QUEUE).await, [0, 0, 1, 1, 0, 1]);
    assert_eq!(bench.finish_all("w", vec![]).await, []);
}
