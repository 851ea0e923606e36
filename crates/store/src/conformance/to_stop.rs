//! Holders are told what they should stop: what was called off, and what has had its time.

use model::{NewJob, Outcome};

use super::bench::{Bench, LEASE, MANY, TICK, failed, id, new_job, secs};
use crate::port::ToStop;

pub(super) async fn holder_is_told_what_was_called_off_and_nothing_else(bench: &Bench) {
    bench.enqueue([1, 2, 3].map(new_job).to_vec()).await;
    let held = bench.claim("w", 2).await;
    bench.take("other").await;
    assert_eq!(bench.to_stop("w").await, []);
    for number in [1, 3] {
        bench.cancel(id(number)).await;
    }
    let told = ToStop { hold: held[0].hold, cancel: true, timed_out: false, exclusive: false };
    assert_eq!(bench.to_stop("w").await, [told]);
    assert_eq!(bench.to_stop("nobody").await, []);
    bench.end("w", held[0].hold, failed()).await;
    assert_eq!(bench.to_stop("w").await, [], "what has ended need not be stopped");
}

pub(super) async fn time_limit_runs_from_the_claim(bench: &Bench) {
    bench.add(NewJob { timeout: Some(secs(10)), ..new_job(1) }).await;
    bench.advance(secs(3600));
    let hold = bench.take("w").await;
    bench.advance(secs(10) - TICK);
    assert_eq!(bench.to_stop("w").await, []);
    bench.advance(TICK);
    let told = ToStop { hold, cancel: false, timed_out: true, exclusive: false };
    assert_eq!(bench.to_stop("w").await, [told]);
    bench.renew("w", &[hold]).await;
    assert_eq!(bench.to_stop("w").await, [told], "a renewal gives no more time");
    bench.cancel(id(1)).await;
    assert_eq!(bench.to_stop("w").await, [ToStop { cancel: true, ..told }]);
}

pub(super) async fn time_limit_begins_anew_with_each_attempt(bench: &Bench) {
    let first = bench.running(NewJob { timeout: Some(secs(10)), ..new_job(1) }, "w").await;
    bench.advance(secs(9));
    bench.end("w", first, Outcome::HandedBack).await;
    bench.take("w").await;
    bench.advance(secs(9));
    assert_eq!(bench.to_stop("w").await, []);
    bench.advance(secs(1));
    assert_eq!(bench.to_stop("w").await.len(), 1);
}

pub(super) async fn rows_say_whether_their_time_limit_is_over(bench: &Bench) {
    for (number, limit) in [(1, None), (2, Some(LEASE)), (3, Some(LEASE + TICK))] {
        bench.add(NewJob { timeout: limit, ..new_job(number) }).await;
    }
    bench.claim("w", MANY).await;
    bench.advance(LEASE);
    let timed_out: Vec<_> =
        bench.expired(MANY).await.iter().map(|row| (row.hold.job, row.timed_out)).collect();
    assert_eq!(timed_out, [(id(1), false), (id(2), true), (id(3), false)]);
}
