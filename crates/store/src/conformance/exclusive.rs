//! Exclusive queues: who gets their jobs, and what stays known of a claim until it ends.

use model::{Hold, HolderEnd, NewJob, Outcome, Retry, State};

use super::bench::{
    Bench, LEASE, MANY, QUEUE, completed, enlist, failed_with, id, ids, job_in, new_job, secs, worker,
};
use crate::port::{Claimed, Expired, Reaped, Redriven, Renewed};

fn held(exclusive: bool) -> Renewed {
    Renewed::Held { lease: LEASE, cancel: false, exclusive }
}

/// Makes queue `q` exclusive and gives the job with this number to `holder`.
async fn exclusive_hold(bench: &Bench, number: u64, holder: &str) -> Hold {
    bench.set_exclusive(QUEUE, true).await;
    bench.add(new_job(number)).await;
    let claimed = bench.claim_exclusive(holder, &[QUEUE], 1).await;
    assert_eq!((ids(&claimed), claimed[0].exclusive), (vec![id(number)], true));
    claimed[0].hold
}

/// The holder of this job learns by a renewal what its claim is, the reaper by looking.
async fn assert_is(bench: &Bench, holder: &str, hold: Hold, exclusive: bool) {
    assert_eq!(bench.renew(holder, &[hold]).await, [held(exclusive)]);
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    let told: Vec<_> = seen.iter().map(|seen| (seen.hold, seen.exclusive)).collect();
    assert_eq!(told, [(hold, exclusive)]);
}

fn told(reaped: &[Reaped]) -> Vec<(Hold, bool)> {
    reaped.iter().map(|reaped| (reaped.hold, reaped.exclusive)).collect()
}

pub(super) async fn exclusive_queue_gives_only_to_claims_that_say_so(bench: &Bench) {
    bench.set_exclusive(QUEUE, true).await;
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let before = bench.all().await;
    assert_eq!(bench.claim("plain", MANY).await, []);
    assert_eq!(bench.all().await, before, "nor does it change anything");
    let claimed = bench.claim_exclusive("able", &[QUEUE], 1).await;
    assert_eq!((ids(&claimed), claimed[0].exclusive), (vec![id(1)], true));
    bench.set_exclusive(QUEUE, false).await;
    assert_eq!(ids(&bench.claim("plain", MANY).await), [id(2)], "as soon as it is ordinary again");
}

pub(super) async fn claim_over_several_queues_gets_from_the_ordinary_ones(bench: &Bench) {
    bench.set_exclusive("x", true).await;
    let urgent = |number| NewJob { priority: 9, ..job_in("x", number) };
    bench.enqueue(vec![urgent(1), urgent(2), new_job(3), job_in("b", 4), new_job(5)]).await;
    let queues = ["x", QUEUE, "b"];
    let what = |claimed: &[Claimed]| -> Vec<_> {
        claimed.iter().map(|claimed| (claimed.hold.job, claimed.exclusive)).collect()
    };
    let plain = bench.claim_from("plain", &queues, 2).await;
    assert_eq!(what(&plain), [(id(3), false), (id(4), false)], "what is withheld takes no place");
    let able = bench.claim_exclusive("able", &queues, MANY).await;
    assert_eq!(what(&able), [(id(1), true), (id(2), true), (id(5), false)], "each as its queue is");
}

pub(super) async fn paused_exclusive_queue_offers_nothing(bench: &Bench) {
    bench.set_exclusive(QUEUE, true).await;
    bench.pause(QUEUE, true).await;
    bench.add(new_job(1)).await;
    assert_eq!(bench.claim_exclusive("able", &[QUEUE], MANY).await, []);
    bench.pause(QUEUE, false).await;
    assert_eq!(bench.claim("plain", MANY).await, [], "a pause leaves it exclusive");
    assert_eq!(ids(&bench.claim_exclusive("able", &[QUEUE], MANY).await), [id(1)]);
}

pub(super) async fn claim_from_an_ordinary_queue_is_ordinary(bench: &Bench) {
    bench.set_exclusive("other", true).await;
    bench.add(new_job(1)).await;
    let claimed = bench.claim_exclusive("able", &[QUEUE, "other"], MANY).await;
    assert_eq!((ids(&claimed), claimed[0].exclusive), (vec![id(1)], false));
    assert_is(bench, "able", claimed[0].hold, false).await;
}

pub(super) async fn renewal_and_rescue_tell_which_claims_are_exclusive(bench: &Bench) {
    let first = exclusive_hold(bench, 1, "w").await;
    assert_is(bench, "w", first, true).await;
    // What the row says counts, not what the reaper believes.
    let seen: Vec<Expired> = bench.expired(MANY).await;
    let mistaken = seen.into_iter().map(|seen| Expired { exclusive: false, ..seen }).collect();
    assert_eq!(told(&bench.reap(mistaken).await), [(first, true)]);

    let second = bench.claim_exclusive("w", &[QUEUE], 1).await[0].hold;
    bench.add(job_in("b", 2)).await;
    let ordinary = bench.claim_from("w", &["b"], 1).await[0].hold;
    bench.retire_as("w", HolderEnd::Crashed).await;
    assert_eq!(told(&bench.reap_holder("w", true).await), [(second, true), (ordinary, false)]);
}

pub(super) async fn exclusive_claim_stays_so_when_its_queue_changes(bench: &Bench) {
    let first = exclusive_hold(bench, 1, "w").await;
    bench.set_exclusive(QUEUE, false).await;
    assert_is(bench, "w", first, true).await;
    let seen = bench.expired(MANY).await;
    assert_eq!(told(&bench.reap(seen).await), [(first, true)]);

    bench.set_exclusive(QUEUE, true).await;
    let second = bench.claim_exclusive("gone", &[QUEUE], 1).await[0].hold;
    bench.set_exclusive(QUEUE, false).await;
    bench.retire("gone").await;
    assert_eq!(told(&bench.reap_holder("gone", true).await), [(second, true)]);
}

pub(super) async fn ordinary_claim_stays_so_when_its_queue_changes(bench: &Bench) {
    let first = bench.running(new_job(1), "plain").await;
    bench.set_exclusive(QUEUE, true).await;
    assert_is(bench, "plain", first, false).await;
    let seen = bench.expired(MANY).await;
    assert_eq!(told(&bench.reap(seen).await), [(first, false)]);
    assert_eq!(bench.claim("plain", MANY).await, [], "the next claim is another matter");

    bench.set_exclusive(QUEUE, false).await;
    let second = bench.take("plain").await;
    bench.set_exclusive(QUEUE, true).await;
    bench.retire("plain").await;
    assert_eq!(told(&bench.reap_holder("plain", true).await), [(second, false)]);
}

/// However a claim ends, nothing of it is left for the next.
pub(super) async fn next_claim_follows_the_queue(bench: &Bench) {
    let endings = ["hand-back", "fail", "cancel", "reap", "reap-holder"];
    for (number, ending) in (1..).zip(endings) {
        let hold = exclusive_hold(bench, number, ending).await;
        bench.set_exclusive(QUEUE, false).await;
        match ending {
            "hand-back" => {
                bench.end(ending, hold, Outcome::HandedBack).await;
            }
            "fail" => {
                bench.end(ending, hold, failed_with(Retry::After(secs(0)))).await;
            }
            "cancel" => {
                bench.cancel(hold.job).await;
                assert_eq!(bench.end(ending, hold, completed()).await, State::Cancelled);
                assert!(matches!(bench.redrive(hold.job).await, Redriven::Again(_)));
            }
            "reap" => {
                bench.lose(hold.job).await;
            }
            _ => {
                bench.retire(ending).await;
                assert_eq!(bench.reap_holder(ending, true).await.len(), 1);
            }
        }
        let claimed = bench.claim("plain", MANY).await;
        assert_eq!((ids(&claimed), claimed[0].exclusive), (vec![hold.job], false), "after {ending}");
        assert_is(bench, "plain", claimed[0].hold, false).await;
        assert_eq!(bench.end("plain", claimed[0].hold, completed()).await, State::Completed);
    }
}

pub(super) async fn nothing_but_its_end_changes_what_a_claim_is(bench: &Bench) {
    let hold = exclusive_hold(bench, 1, "w").await;
    bench.set_exclusive(QUEUE, false).await;
    assert!(bench.progress("w", hold, "half").await);
    assert_eq!(bench.extend_leases(secs(1)).await, 1);
    assert_is(bench, "w", hold, true).await;
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen, LEASE * 2).await, 1);
    assert_is(bench, "w", hold, true).await;
    bench.cancel(id(1)).await;
    let cancelled = Renewed::Held { lease: LEASE, cancel: true, exclusive: true };
    assert_eq!(bench.renew("w", &[hold]).await, [cancelled]);
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    let reaped = bench.reap(seen).await;
    assert_eq!((told(&reaped), reaped[0].state), (vec![(hold, true)], State::Cancelled));
}

pub(super) async fn exclusive_claim_stays_so_with_the_successor(bench: &Bench) {
    bench.enlist_all(["former", "new"].map(enlist).to_vec()).await;
    let ordinary = bench.running(new_job(1), "former").await;
    let exclusive = exclusive_hold(bench, 2, "former").await;
    let holds = [ordinary, exclusive];
    assert_eq!(bench.succeed("former", "new", &holds).await, [true, true]);
    assert_eq!(bench.renew("new", &holds).await, [held(false), held(true)]);
    assert_eq!(bench.job(id(2)).await.holder, Some(worker("new")));
    bench.retire("new").await;
    assert_eq!(told(&bench.reap_holder("new", true).await), [(ordinary, false), (exclusive, true)]);
}
