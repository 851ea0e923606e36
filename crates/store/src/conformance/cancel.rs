//! Jobs are called off.

use model::{NewJob, Outcome, Retry, State, When};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, failed, failed_with, id, new_job, secs, text, worker,
};
use crate::port::{Cancelled, Renewed};

pub(super) async fn waiting_job_is_cancelled_at_once(bench: &Bench) {
    bench.enqueue(vec![new_job(1), NewJob { when: When::After(secs(9)), ..new_job(2) }]).await;
    bench.advance(secs(1));
    for number in [1, 2] {
        assert_eq!(bench.cancel(id(number)).await, Cancelled::Now);
        let job = bench.job(id(number)).await;
        assert_eq!((job.state, job.finished_at), (State::Cancelled, Some(bench.wall())));
    }
    bench.promote_in(secs(60)).await;
    assert_eq!(bench.claim("w", MANY).await, []);
}

pub(super) async fn running_job_is_cancelled_by_asking_its_holder(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let asked = Cancelled::Asked { hold, holder: worker("w") };
    assert_eq!(bench.cancel(id(1)).await, asked);
    let job = bench.job(id(1)).await;
    assert_eq!((job.state, job.cancel_requested), (State::Running, true));
    assert_eq!(bench.cancel(id(1)).await, asked, "asking again asks again");
    assert!(bench.progress("w", hold, "stopping").await, "the hold stands until it ends");
    assert_eq!(
        bench.renew("w", &[hold]).await,
        [Renewed::Held { lease: LEASE, cancel: true, exclusive: false }]
    );
}

pub(super) async fn cancelled_attempt_ends_in_cancelled_whatever_its_outcome(bench: &Bench) {
    let outcomes = [completed(), failed(), failed_with(Retry::Never), Outcome::HandedBack];
    for (number, outcome) in (1..).zip(outcomes) {
        let hold = bench.running(new_job(number), "w").await;
        bench.cancel(id(number)).await;
        assert_eq!(bench.end("w", hold, outcome.clone()).await, State::Cancelled, "{outcome:?}");
        let job = bench.job(id(number)).await;
        assert_eq!((job.state, job.finished_at), (State::Cancelled, Some(bench.wall())));
        assert_eq!(job.reported_fence, hold.fence);
        let expected = match outcome {
            Outcome::Completed { .. } => (Some(text("result")), None),
            Outcome::Failed { .. } => (None, Some("boom")),
            Outcome::HandedBack => (None, None),
        };
        assert_eq!((job.result, job.last_error.as_deref()), expected, "what was reported is kept");
    }
    bench.promote_in(secs(7_200)).await;
    assert_eq!(bench.claim("w", MANY).await, []);
}

pub(super) async fn ended_job_cannot_be_cancelled(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    let hold = bench.running(new_job(2), "w").await;
    bench.end("w", hold, failed_with(Retry::Never)).await;
    bench.add(new_job(3)).await;
    bench.cancel(id(3)).await;
    bench.advance(secs(1));
    for (number, state) in [(1, State::Completed), (2, State::Dead), (3, State::Cancelled)] {
        let before = bench.job(id(number)).await;
        assert_eq!(bench.cancel(id(number)).await, Cancelled::AlreadyEnded(state));
        assert_eq!(bench.job(id(number)).await, before);
    }
}

pub(super) async fn mixed_cancels_are_answered_in_input_order(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.enqueue([2, 3].map(new_job).to_vec()).await;
    let answers = bench.cancel_all([3, 9, 1, 2, 3].map(id).to_vec()).await;
    let expected = [
        Cancelled::Now,
        Cancelled::Unknown,
        Cancelled::Asked { hold, holder: worker("w") },
        Cancelled::Now,
        Cancelled::AlreadyEnded(State::Cancelled),
    ];
    assert_eq!(answers, expected);
    assert_eq!(bench.counts(QUEUE).await, [0, 0, 1, 0, 2, 0]);
    assert_eq!(bench.cancel_all(vec![]).await, []);
}
