//! Holders that are known to be gone, and those of them that may come back.

use model::{HolderEnd, LOST_REASON, Limits, NewJob, State};

use super::bench::{
    Bench, LEASE, MANY, MILLI, QUEUE, completed, enlist, enlist_pinging, id, job_in, new_job, queue, secs,
    worker,
};
use crate::port::{EnlistAnswer, Finished, Reaped, Renewed, Retention};

pub(super) async fn retired_holder_loses_everything_whatever_the_leases_say(bench: &Bench) {
    bench.enqueue(vec![new_job(1), job_in("b", 2), new_job(3)]).await;
    let claimed = bench.claim_from("gone", &[QUEUE, "b"], 2).await;
    bench.take("alive").await;
    bench.retire("gone").await;
    let reaped = bench.reap_holder("gone", true).await;
    let expected: Vec<Reaped> = claimed
        .iter()
        .zip([queue(QUEUE), queue("b")])
        .map(|(claimed, queue)| Reaped {
            hold: claimed.hold,
            holder: worker("gone"),
            queue,
            state: State::Available,
            due_in: None,
            late: secs(0),
            exclusive: false,
        })
        .collect();
    assert_eq!(reaped, expected);
    let job = bench.job(id(1)).await;
    assert_eq!((job.attempt, job.lost, job.last_error.as_deref()), (0, 1, Some(LOST_REASON)));
    assert_eq!(bench.job(id(3)).await.holder, Some(worker("alive")), "others lose nothing");
    assert_eq!(bench.reap_holder("gone", true).await, [], "it is done once");
}

pub(super) async fn holder_that_is_not_retired_loses_nothing(bench: &Bench) {
    bench.running(new_job(1), "w").await;
    bench.retire("other").await;
    bench.advance(LEASE * 2);
    assert_eq!(bench.reap_holder("w", true).await, []);
    assert_eq!(bench.job(id(1)).await.state, State::Running);
}

pub(super) async fn retirement_is_final_and_idempotent(bench: &Bench) {
    bench.retire("w").await;
    bench.retire("w").await;
    bench.add(new_job(1)).await;
    bench.advance(Retention::WORKERS - MILLI);
    bench.purge_ended().await;
    assert_eq!(bench.claim("w", MANY).await, []);
    assert_eq!(bench.reap_holder("w", true).await, [], "it holds nothing");
}

pub(super) async fn retired_holder_may_report_what_was_not_taken_yet(bench: &Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let claimed = bench.claim("w", 2).await;
    bench.retire("w").await;
    let renewed = bench.renew("w", &[claimed[0].hold]).await;
    assert_eq!(renewed, [Renewed::Held { lease: LEASE, cancel: false, exclusive: false }]);
    assert_eq!(bench.end("w", claimed[0].hold, completed()).await, State::Completed);
    assert_eq!(bench.reap_holder("w", true).await.len(), 1, "what it finished is not taken back");
    let late = bench.finish("w", claimed[1].hold, completed()).await;
    assert_eq!(late, Finished::Stale { current: claimed[1].hold.fence });
}

pub(super) async fn uncounted_loss_is_offered_at_once(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), Limits::LOST_DEFAULT - 1).await;
    bench.promote_in(secs(24 * 3_600)).await;
    bench.take("drained").await;
    bench.retire("drained").await;
    let reaped = bench.reap_holder("drained", false).await;
    assert_eq!((reaped.len(), reaped[0].state, reaped[0].due_in), (1, State::Available, None));
    let job = bench.job(id(1)).await;
    assert_eq!((job.lost, job.attempt), (Limits::LOST_DEFAULT - 1, 0), "neither loss nor attempt counts");
}

pub(super) async fn counted_loss_by_name_backs_off_and_buries(bench: &Bench) {
    bench.add(NewJob { max_lost: Some(3), ..new_job(1) }).await;
    let mut states = Vec::new();
    for holder in ["w1", "w2", "w3"] {
        bench.promote_in(secs(3_600)).await;
        bench.take(holder).await;
        bench.retire(holder).await;
        let reaped = bench.reap_holder(holder, true).await;
        assert_eq!(reaped[0].due_in.is_some(), reaped[0].state == State::Scheduled);
        states.push(reaped[0].state);
    }
    assert_eq!(states, [State::Available, State::Scheduled, State::Dead]);
}

pub(super) async fn cancelled_job_ends_when_its_holder_is_gone(bench: &Bench) {
    for (number, holder, counted) in [(1, "w1", true), (2, "w2", false)] {
        bench.running(new_job(number), holder).await;
        bench.cancel(id(number)).await;
        bench.retire(holder).await;
        assert_eq!(bench.reap_holder(holder, counted).await[0].state, State::Cancelled);
    }
}

pub(super) async fn first_end_stays(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    let ended_at = bench.wall();
    for end in [HolderEnd::Left, HolderEnd::Expired, HolderEnd::Left] {
        bench.retire_as("w", end).await;
        assert_eq!(bench.end_of("w").await, Some((HolderEnd::Left, ended_at)));
        bench.advance(secs(5));
    }
    assert_eq!(bench.worker("w").await.unwrap().worker, enlist("w"), "who it was is still known");
    for end in HolderEnd::ALL {
        bench.retire_as(&format!("plain-{}", end as u8), end).await;
        assert_eq!(bench.end_of(&format!("plain-{}", end as u8)).await, Some((end, bench.wall())));
    }
}

/// What became of a holder that someone wanted to readmit: it may claim again, or it may not.
async fn is_admitted(bench: &Bench, key: &str) -> bool {
    bench.readmit(key).await;
    bench.end_of(key).await.is_none()
}

pub(super) async fn every_end_is_remembered(bench: &Bench) {
    for end in HolderEnd::ALL {
        let key = format!("{end:?}");
        bench.enlist(enlist(&key)).await;
        bench.retire_as(&key, end).await;
        assert_eq!(bench.end_of(&key).await, Some((end, bench.wall())));
        assert_eq!(bench.enlist(enlist(&key)).await, EnlistAnswer::Terminal(end));
    }
}

pub(super) async fn silent_pinger_starts_over(bench: &Bench) {
    bench.enlist(enlist_pinging("w")).await;
    let hold = bench.running(new_job(1), "w").await;
    bench.retire_as("w", HolderEnd::Silent).await;
    bench.reap_holder("w", true).await;
    assert!(is_admitted(bench, "w").await);
    assert!(is_admitted(bench, "w").await, "a repeat changes nothing");
    assert_eq!(bench.enlist(enlist_pinging("w")).await, EnlistAnswer::Known);
    assert_eq!(bench.renew("w", &[hold]).await, [Renewed::Lost], "what it held stays lost");
    assert_eq!(bench.take("w").await.job, id(1), "and may come to it again");
    assert_eq!(bench.reap_holder("w", true).await, [], "it is not terminal any more");
    bench.retire_as("w", HolderEnd::Left).await;
    assert_eq!(bench.end_of("w").await, Some((HolderEnd::Left, bench.wall())), "its next end is its own");
}

pub(super) async fn only_silence_is_forgiven(bench: &Bench) {
    for end in HolderEnd::ALL.into_iter().filter(|end| *end != HolderEnd::Silent) {
        let key = format!("w{}", end as u8);
        bench.enlist(enlist_pinging(&key)).await;
        bench.retire_as(&key, end).await;
        assert!(!is_admitted(bench, &key).await, "{end:?}");
    }
}

pub(super) async fn worker_with_a_lease_is_not_readmitted(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    for key in ["w", "never-enlisted"] {
        bench.retire_as(key, HolderEnd::Silent).await;
        assert!(!is_admitted(bench, key).await, "{key}");
    }
    bench.readmit("unheard-of").await;
    assert_eq!(bench.worker("unheard-of").await, None);
}

pub(super) async fn holder_is_not_readmitted_with_what_it_held(bench: &Bench) {
    bench.enlist(enlist_pinging("w")).await;
    bench.running(new_job(1), "w").await;
    bench.retire_as("w", HolderEnd::Silent).await;
    assert!(!is_admitted(bench, "w").await, "its new life would keep alive what only its old one knew");
    assert_eq!(bench.reap_holder("w", true).await.len(), 1);
    assert!(is_admitted(bench, "w").await);
}
