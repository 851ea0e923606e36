//! Workers that are made known before they are answered, and what the store then says about them.

use model::{HolderEnd, NewJob, Nonce, QueuePatch, RegistryId, State};

use super::bench::{Bench, LEASE, MANY, QUEUE, completed, enlist, id, job_in, new_job, secs, worker};
use crate::port::{Enlist, EnlistAnswer, KnownWorker};

/// The same in another registry.
fn in_registry(registry: Option<u32>, worker: Enlist) -> Enlist {
    Enlist { registry: registry.map(RegistryId), ..worker }
}

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
        registry: Some(RegistryId(u32::MAX)),
        grant: secs(86_400),
        name: "a 'name' \"of\" \u{1f41d}\0 many \\ sorts".to_owned(),
    };
    assert_eq!(bench.enlist(extreme.clone()).await, EnlistAnswer::Known);
    let known = bench.worker(extreme.key.as_str()).await;
    assert_eq!(known.map(|known| known.worker), Some(extreme.clone()));
    assert_eq!(bench.roster(u32::MAX).await, [extreme]);
}

pub(super) async fn grant_never_gets_smaller(bench: &Bench) {
    for (asked, largest) in [(20, 20), (60, 60), (5, 60), (61, 61)] {
        let again = Enlist { name: format!("name {asked}"), ..granted(asked, enlist("w")) };
        assert_eq!(bench.enlist(again).await, EnlistAnswer::Known);
        let known = bench.worker("w").await.unwrap().worker;
        assert_eq!((known.grant, known.name.as_str()), (secs(largest), "name 20"), "its name is the first");
    }
    assert_eq!(bench.roster(1).await[0].grant, secs(61));
}

pub(super) async fn key_of_another_process_is_taken(bench: &Bench) {
    bench.enlist(enlist("w")).await;
    let other = Enlist { nonce: Nonce::new(8), grant: LEASE * 9, ..enlist("w") };
    assert_eq!(bench.enlist(other).await, EnlistAnswer::Taken);
    assert_eq!(bench.roster(1).await, [enlist("w")], "nothing was changed");
}

pub(super) async fn key_of_another_registry_is_taken(bench: &Bench) {
    for (key, first, second) in [("a", Some(1), Some(2)), ("b", Some(1), None), ("c", None, Some(1))] {
        let worker = |registry| in_registry(registry, enlist(key));
        assert_eq!(bench.enlist(worker(first)).await, EnlistAnswer::Known);
        assert_eq!(bench.enlist(worker(second)).await, EnlistAnswer::Taken);
        assert_eq!(bench.worker(key).await.unwrap().worker, worker(first));
        assert_eq!(bench.enlist(worker(first)).await, EnlistAnswer::Known, "it can still be repeated");
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
    assert_eq!((known.worker.registry, known.worker.nonce), (None, Nonce::default()), "it was refused");
    assert_eq!(bench.roster(1).await, []);
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
    assert_eq!(bench.roster(1).await, [granted(90, enlist("new")), enlist("old")]);
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
    bench.enlist(in_registry(Some(3), enlist("before"))).await;
    bench.enlist(in_registry(None, enlist("pings"))).await;
    bench.enqueue([1, 2, 3, 4, 5].map(new_job).to_vec()).await;
    for holder in ["before", "pings", "after", "plain", "gone"] {
        bench.take(holder).await;
    }
    bench.enlist(enlist("after")).await;
    bench.enlist(enlist("gone")).await;
    bench.retire("gone").await;
    bench.advance(LEASE);
    let registries: Vec<_> = bench.expired(MANY).await.into_iter().map(|expired| expired.registry).collect();
    let expected = [Some(3), None, Some(1), None, Some(1)].map(|registry| registry.map(RegistryId));
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
    for (key, registry) in [("c", Some(1)), ("a", Some(1)), ("d", Some(2)), ("b", Some(1)), ("e", None)] {
        bench.enlist(in_registry(registry, enlist(key))).await;
    }
    bench.running(new_job(1), "plain").await;
    assert_eq!(bench.roster(1).await, ["a", "b", "c"].map(enlist));
    assert_eq!(bench.roster(2).await, [in_registry(Some(2), enlist("d"))]);
    assert_eq!(bench.roster(3).await, []);
    assert_eq!(bench.roster(None).await, [in_registry(None, enlist("e"))], "those that only ping");
}

pub(super) async fn roster_is_without_terminal_workers(bench: &Bench) {
    for key in ["a", "b", "c"] {
        bench.enlist(enlist(key)).await;
    }
    bench.enlist(in_registry(None, enlist("d"))).await;
    for key in ["b", "d", "never-enlisted"] {
        bench.retire(key).await;
    }
    assert_eq!(bench.roster(1).await, ["a", "c"].map(enlist));
    assert_eq!(bench.roster(None).await, []);
}
