//! Workers that are made known before they are answered, and what the store then says about them.

use model::{HolderEnd, NewJob, Nonce, QueuePatch, State};

use super::bench::{
    Bench, FIRST, LEASE, MANY, QUEUE, SECOND, THIRD, completed, enlist, enlist_in, enlist_pinging, id,
    job_in, new_job, secs, worker,
};
use crate::port::{Enlist, EnlistAnswer, KnownWorker};

/// The same with another lease.
fn granted(secs_granted: u64, worker: Enlist) -> Enlist {
    Enlist { grant: secs(secs_granted), ..worker }
}

pub(super) async fn enlisted_worker_is_known(bench: &Bench) {
    assert_eq!(bench.worker("w").await, None);
    assert_eq!(bench.enlist(enlist("w")).await, EnlistAnswer::Known);
    assert_eq!(bench.worker("w").await, Some(KnownWorker { worker: enlist("w"), ended: None }));
    assert_eq!(bench.worker("W").await, None, "keys are compared letter by letter");
    let extreme = Enlist {
        key: worker(&"\"~\\'".repeat(32)),
        nonce: Nonce::new(Nonce::MAX),
        registry: THIRD,
        pings: true,
        grant: secs(86_400),
        name: "a 'name' \"of\" \u{1f41d}\0 many \\ sorts".to_owned(),
    };
    assert_eq!(bench.enlist(extreme.clone()).await, EnlistAnswer::Known);
    let known = bench.worker(extreme.key.as_str()).await;
    assert_eq!(known.map(|known| known.worker), Some(extreme.clone()));
    assert_eq!(bench.roster(THIRD).await, [extreme]);
}

pub(super) async fn grant_never_gets_smaller(bench: &Bench) {
    for (asked, largest) in [(20, 20), (60, 60), (5, 60), (61, 61)] {
        let again = Enlist { name: format!("name {asked}"), ..granted(asked, enlist("w")) };
        assert_eq!(bench.enlist(again).await, EnlistAnswer::Known);
        let known = bench.worker("w").await.unwrap().worker;
        assert_eq!((known.grant, known.name.as_str()), (secs(largest), "name 20"), "its name is the first");
    }
    assert_eq!(bench.roster(FIRST).await[0].grant, secs(61));
}

pub(super) async fn key_of_another_process_is_taken(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    let other = Enlist { nonce: Nonce::new(8), grant: LEASE * 9, ..enlist("w") };
    assert_eq!(bench.enlist(other).await, EnlistAnswer::Taken);
    assert_eq!(bench.roster(FIRST).await, [enlist("w")], "nothing was changed");
}

pub(super) async fn owner_of_another_registry_is_named(bench: &Bench) {
    for (key, pings) in [("a", false), ("b", true)] {
        let worker = |registry| Enlist { pings, ..enlist_in(registry, key) };
        assert_eq!(bench.enlist(worker(SECOND)).await, EnlistAnswer::Known);
        let larger = granted(90, worker(FIRST));
        assert_eq!(bench.enlist(larger).await, EnlistAnswer::Elsewhere(SECOND), "and it is told where");
        assert_eq!(bench.worker(key).await.unwrap().worker, worker(SECOND), "nothing was changed");
        assert_eq!(bench.enlist(worker(SECOND)).await, EnlistAnswer::Known, "it can still be repeated");
    }
    let stranger = Enlist { nonce: Nonce::new(8), ..enlist("a") };
    assert_eq!(bench.enlist(stranger).await, EnlistAnswer::Taken, "which process it is comes first");
}

pub(super) async fn who_pings_and_who_has_a_lease_do_not_share_a_key(bench: &Bench) {
    for (first, second) in [(enlist("a"), enlist_pinging("a")), (enlist_pinging("b"), enlist("b"))] {
        assert_eq!(bench.enlist(first.clone()).await, EnlistAnswer::Known);
        assert_eq!(bench.enlist(granted(90, second.clone())).await, EnlistAnswer::Taken);
        let elsewhere = Enlist { registry: SECOND, ..second };
        assert_eq!(bench.enlist(elsewhere).await, EnlistAnswer::Taken, "wherever it asks");
        assert_eq!(bench.worker(first.key.as_str()).await.unwrap().worker, first, "nothing was changed");
        assert_eq!(bench.enlist(first).await, EnlistAnswer::Known, "it can still be repeated");
    }
}

pub(super) async fn terminal_key_is_not_enlisted_again(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    bench.retire_as("w", HolderEnd::Kicked).await;
    let stranger = Enlist { nonce: Nonce::new(8), ..enlist("w") };
    for again in [enlist("w"), stranger] {
        assert_eq!(bench.enlist(again).await, EnlistAnswer::Terminal(HolderEnd::Kicked));
    }
    bench.retire_as("never-enlisted", HolderEnd::Left).await;
    let answer = bench.enlist(enlist("never-enlisted")).await;
    assert_eq!(answer, EnlistAnswer::Terminal(HolderEnd::Left));
    let known = bench.worker("never-enlisted").await.unwrap();
    assert_eq!((known.worker.key, known.worker.registry), (worker("never-enlisted"), FIRST));
    assert_eq!(bench.roster(FIRST).await, []);
}

pub(super) async fn mixed_enlistings_are_answered_in_input_order(bench: &Bench) {
    bench.enlist(enlist("old")).await;
    bench.retire_as("gone", HolderEnd::Silent).await;
    let answers = bench
        .enlist_all(vec![
            enlist("new"),
            enlist("gone"),
            Enlist { nonce: Nonce::new(8), ..enlist("old") },
            Enlist { nonce: Nonce::new(8), ..enlist("new") },
            granted(90, enlist("new")),
            enlist("old"),
        ])
        .await;
    use EnlistAnswer::{Known, Taken, Terminal};
    assert_eq!(answers, [Known, Terminal(HolderEnd::Silent), Taken, Taken, Known, Known]);
    assert_eq!(bench.roster(FIRST).await, [granted(90, enlist("new")), enlist("old")]);
    assert_eq!(bench.enlist_all(vec![]).await, []);
}

pub(super) async fn key_that_only_claimed_is_no_worker(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    assert_eq!(bench.worker("w").await, None);
    assert_eq!(bench.enlist(enlist("w")).await, EnlistAnswer::Known);
    assert_eq!(bench.worker("w").await, Some(KnownWorker { worker: enlist("w"), ended: None }));
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed, "its claim goes on");
    bench.running(new_job(2), "w").await;
}

pub(super) async fn expired_tells_who_judges_the_holder(bench: &Bench) {
    bench.enlist(enlist("before")).await;
    bench.enlist(enlist_pinging("pings")).await;
    bench.enqueue([1, 2, 3, 4, 5, 6].map(new_job).to_vec()).await;
    for holder in ["before", "pings", "after", "plain", "gone", "plain-and-gone"] {
        bench.take(holder).await;
    }
    bench.enlist(enlist("after")).await;
    bench.enlist(enlist("gone")).await;
    bench.retire("gone").await;
    bench.retire("plain-and-gone").await;
    bench.advance(LEASE);
    let registries: Vec<_> = bench.expired(MANY).await.into_iter().map(|expired| expired.registry).collect();
    let expected = [Some(FIRST), Some(FIRST), Some(FIRST), None, Some(FIRST), Some(FIRST)];
    assert_eq!(registries, expected, "it is the holder's, whenever it was claimed");
}

pub(super) async fn expired_tells_which_jobs_beat_themselves(bench: &Bench) {
    let own = NewJob { heartbeat_timeout: Some(secs(50)), ..new_job(1) };
    bench.enqueue(vec![own, job_in("set", 2), new_job(3)]).await;
    assert_eq!(bench.claim_from("w", &[QUEUE, "set"], MANY).await.len(), 3);
    bench.advance(secs(60));
    let beating = async || -> Vec<_> {
        let expired = bench.expired(MANY).await;
        let beating = expired.into_iter().filter(|expired| expired.beats_itself);
        beating.map(|expired| expired.hold.job).collect()
    };
    assert_eq!(beating().await, [id(1)]);
    let patch = QueuePatch { heartbeat_timeout: Some(Some(secs(50))), ..QueuePatch::default() };
    bench.set_queue("set", patch).await;
    assert_eq!(beating().await, [id(2), id(1)], "as the queue is now");
}

pub(super) async fn roster_is_of_one_registry_by_key(bench: &Bench) {
    for (key, registry) in [("d", FIRST), ("a", FIRST), ("e", SECOND), ("b", FIRST)] {
        bench.enlist(enlist_in(registry, key)).await;
    }
    bench.enlist(enlist_pinging("c")).await;
    bench.running(new_job(1), "plain").await;
    let ours = [enlist("a"), enlist("b"), enlist_pinging("c"), enlist("d")];
    assert_eq!(bench.roster(FIRST).await, ours, "those that only ping included");
    assert_eq!(bench.roster(SECOND).await, [enlist_in(SECOND, "e")]);
    assert_eq!(bench.roster(THIRD).await, []);
}

pub(super) async fn roster_is_without_terminal_workers(bench: &Bench) {
    for key in ["a", "b", "c"] {
        bench.enlist(enlist(key)).await;
    }
    bench.enlist(enlist_pinging("d")).await;
    for key in ["b", "d", "never-enlisted"] {
        bench.retire(key).await;
    }
    assert_eq!(bench.roster(FIRST).await, ["a", "c"].map(enlist));
}
