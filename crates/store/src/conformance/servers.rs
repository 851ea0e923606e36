//! Several servers on one store: registries are founded, beat, resign, and are taken over as a whole.

use model::{Hold, HolderEnd, NewJob, QueuePatch, RegistryId, State};

use super::bench::{
    Bench, FIRST, LEASE, MANY, QUEUE, SECOND, THIRD, completed, enlist, enlist_in, enlist_pinging, id,
    new_job, queue, secs, server, worker,
};
use crate::error::StoreError;
use crate::port::{Enlist, EnlistAnswer, Finished, Peer, Renewed};

/// How often a registry has beaten.
async fn beats(bench: &Bench, registry: RegistryId) -> u64 {
    peer(bench, registry).await.expect("the registry must be there").beats
}

/// A registry as the third sees it, which beats for it.
async fn peer(bench: &Bench, registry: RegistryId) -> Option<Peer> {
    let peers = bench.beat(THIRD).await.expect("the third registry must be there");
    peers.into_iter().find(|peer| peer.registry == registry)
}

/// The first registry takes the second over.
async fn take_second(bench: &Bench) -> Vec<Enlist> {
    let seen = beats(bench, SECOND).await;
    bench.take_over(SECOND, seen, FIRST).await.expect("a registry that does not beat must be taken over")
}

/// Reaps what is over in the first registry, and answers how often job 1 counts as lost.
async fn lost_after_reaping(bench: &Bench) -> u32 {
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 1, "the lease must be over");
    bench.job(id(1)).await.lost
}

pub(super) async fn volatile_queue_is_refused_where_several_serve(bench: &Bench) {
    let patch =
        |volatile| QueuePatch { paused: Some(true), volatile: Some(volatile), ..QueuePatch::default() };
    let refused = bench.try_set_queue(QUEUE, patch(true)).await;
    let Err(StoreError::Invalid(why)) = refused else { panic!("{refused:?} must be refused") };
    assert!(why.0.contains("belongs to one server"), "{why:?}");
    assert!(!bench.queue_settings().await.iter().any(|(_, settings)| settings.paused), "nothing is set");
    assert!(!bench.set_queue(QUEUE, patch(false)).await.volatile);
}

pub(super) async fn store_for_several_servers_says_so(bench: &Bench) {
    assert!(bench.is_shared());
}

pub(super) async fn registry_ids_never_repeat(bench: &Bench) {
    let mut given = vec![FIRST, SECOND, THIRD];
    for round in 0..5 {
        let founded = bench.found("again").await;
        assert!(!given.contains(&founded), "{founded:?} was given before");
        given.push(founded);
        if round % 2 == 0 {
            // The latest goes: its number must not come back.
            let seen = beats(bench, founded).await;
            assert!(bench.take_over(founded, seen, FIRST).await.is_some());
        }
    }
}

pub(super) async fn beats_are_seen_by_everyone(bench: &Bench) {
    let peer = |registry: RegistryId, beats| Peer {
        registry,
        server: server(&format!("server-{}", registry.0)),
        beats,
        resigned: false,
    };
    assert_eq!(bench.beat(SECOND).await, Some(vec![peer(FIRST, 0), peer(SECOND, 1), peer(THIRD, 0)]));
    assert_eq!(bench.beat(SECOND).await, Some(vec![peer(FIRST, 0), peer(SECOND, 2), peer(THIRD, 0)]));
    assert_eq!(bench.beat(FIRST).await, Some(vec![peer(FIRST, 1), peer(SECOND, 2), peer(THIRD, 0)]));
    assert_eq!(bench.beat(RegistryId(99)).await, None, "nobody founded it");
}

pub(super) async fn resignation_is_seen(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.resign(SECOND).await;
    let resigned = peer(bench, SECOND).await.unwrap();
    assert!(resigned.resigned);
    assert!(!peer(bench, FIRST).await.unwrap().resigned, "nobody else");
    assert_eq!(bench.roster(SECOND).await.len(), 1, "its workers stay until someone takes them");
    assert_eq!(bench.take_over(SECOND, resigned.beats, FIRST).await, Some(vec![enlist("w")]));
    bench.resign(SECOND).await;
    assert_eq!(peer(bench, SECOND).await, None, "to resign from what is gone is nothing");
}

pub(super) async fn take_over_needs_the_beats_that_were_seen(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    let seen = beats(bench, SECOND).await;
    bench.beat(SECOND).await;
    for wrong in [seen, seen + 2] {
        assert_eq!(bench.take_over(SECOND, wrong, FIRST).await, None, "it has beaten since");
    }
    assert_eq!(bench.roster(SECOND).await, [enlist_in(SECOND, "w")], "nothing happened");
    assert!(bench.beat(SECOND).await.is_some(), "and it goes on");
    assert_eq!(take_second(bench).await, [enlist("w")]);
}

pub(super) async fn called_off_are_those_of_the_registry_and_of_none(bench: &Bench) {
    bench.enlist(enlist("ours")).await;
    bench.enlist(enlist_in(SECOND, "theirs")).await;
    let mut holds = Vec::new();
    for (number, holder) in (1..).zip(["plain", "ours", "theirs", "ours"]) {
        holds.push(bench.running(new_job(number), holder).await);
    }
    for number in 1..=3 {
        bench.cancel(id(number)).await;
    }
    let (plain, ours, theirs) =
        ((worker("plain"), holds[0]), (worker("ours"), holds[1]), (worker("theirs"), holds[2]));
    assert_eq!(bench.called_off(FIRST).await, [plain.clone(), ours.clone()], "by id; the fourth goes on");
    assert_eq!(bench.called_off(SECOND).await, [plain.clone(), theirs.clone()]);
    assert_eq!(
        bench.finish("ours", holds[1], completed()).await,
        Finished::Done { state: State::Cancelled, queue: queue(QUEUE), due_in: None, ran: secs(0) }
    );
    take_second(bench).await;
    assert_eq!(
        bench.called_off(FIRST).await,
        [plain, theirs],
        "what has ended is not, what was taken over is"
    );
}

pub(super) async fn ended_holders_are_shown_until_all_is_taken_back(bench: &Bench) {
    bench.enlist_all(["w", "gone", "idle"].map(|key| enlist_in(SECOND, key)).to_vec()).await;
    bench.enlist(enlist_in(THIRD, "third")).await;
    for (number, holder) in (1..).zip(["w", "plain", "gone", "gone", "third"]) {
        bench.running(new_job(number), holder).await;
    }
    for (key, end) in [("gone", HolderEnd::Expired), ("plain", HolderEnd::Left), ("idle", HolderEnd::Left)] {
        assert!(bench.retire_by(SECOND, key, end).await);
    }
    assert!(bench.retire_by(THIRD, "third", HolderEnd::Kicked).await);
    let ended = [(worker("gone"), HolderEnd::Expired), (worker("plain"), HolderEnd::Left)];
    assert_eq!(
        bench.unreaped(SECOND).await,
        ended,
        "by key, each once, and nobody who lives or holds nothing"
    );
    assert_eq!(bench.unreaped(THIRD).await, [(worker("third"), HolderEnd::Kicked)]);
    assert_eq!(bench.unreaped(FIRST).await, []);
    take_second(bench).await;
    assert_eq!(bench.unreaped(FIRST).await, ended, "they were taken over, with what they hold");
    assert_eq!(bench.reap_holder("gone", true).await.len(), 2);
    assert_eq!(bench.unreaped(FIRST).await, ended[1..]);
    assert_eq!(bench.reap_holder("plain", false).await.len(), 1);
    assert_eq!(bench.unreaped(FIRST).await, []);
}

pub(super) async fn take_over_moves_everybody_at_once(bench: &Bench) {
    bench.enlist(enlist("ours")).await;
    bench.enlist(enlist_in(THIRD, "third")).await;
    bench.enlist_all(["d", "b", "gone"].map(|key| enlist_in(SECOND, key)).to_vec()).await;
    bench.enlist(Enlist { registry: SECOND, ..enlist_pinging("c") }).await;
    let holders = ["d", "gone", "plain-and-gone", "plain", "third"];
    for (number, holder) in (1..).zip(holders) {
        bench.running(new_job(number), holder).await;
    }
    for key in ["gone", "plain-and-gone"] {
        assert!(bench.retire_by(SECOND, key, HolderEnd::Left).await);
    }
    let ended = bench.end_of("gone").await;
    bench.advance(LEASE);

    let moved = [enlist("b"), enlist_pinging("c"), enlist("d")];
    assert_eq!(take_second(bench).await, moved, "those who are not terminal, by key");
    assert_eq!(bench.roster(FIRST).await, [&moved[..], &[enlist("ours")]].concat());
    assert_eq!(bench.roster(SECOND).await, []);
    assert_eq!(bench.roster(THIRD).await, [enlist_in(THIRD, "third")], "others stay where they are");
    let gone = bench.worker("gone").await.unwrap();
    assert_eq!((gone.worker, gone.ended), (enlist("gone"), ended), "the terminal move as they are");

    // What they hold is seen and can be taken back by the new owner, also from those who are terminal.
    let seen = bench.expired_in(FIRST, MANY).await;
    let judged: Vec<_> = seen.iter().map(|seen| (seen.hold.job, seen.registry)).collect();
    let expected =
        [(1, Some(FIRST)), (2, Some(FIRST)), (3, Some(FIRST)), (4, None)].map(|(job, by)| (id(job), by));
    assert_eq!(judged, expected);
    assert_eq!(bench.reap_holder("gone", true).await.len(), 1);
    assert_eq!(bench.reap(seen).await.len(), 3);
    assert!(bench.retire_by(FIRST, "d", HolderEnd::Expired).await);
    assert!(bench.retire_by(FIRST, "plain-and-gone", HolderEnd::Expired).await);
}

pub(super) async fn holder_goes_on_through_a_take_over(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let hold = bench.take("w").await;
    let before = bench.job(id(1)).await;
    take_second(bench).await;
    assert_eq!(bench.job(id(1)).await, before, "fence, lease and all else are as they were");
    let held = Renewed::Held { lease: LEASE, cancel: false, exclusive: false };
    assert_eq!(bench.renew("w", &[hold]).await, [held]);
    assert_eq!(bench.end("w", hold, completed()).await, State::Completed);
    assert_eq!(bench.take("w").await.job, id(2), "and may claim");
    assert_eq!(bench.enlist(enlist("w")).await, EnlistAnswer::Known, "its new registry knows it");
}

pub(super) async fn second_take_over_finds_nothing(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    let seen = beats(bench, SECOND).await;
    assert_eq!(bench.take_over(SECOND, seen, FIRST).await, Some(vec![enlist("w")]));
    for by in [THIRD, FIRST] {
        assert_eq!(bench.take_over(SECOND, seen, by).await, None);
    }
    assert_eq!(bench.roster(FIRST).await, [enlist("w")], "nothing happened");
    assert_eq!(bench.take_over(RegistryId(99), 0, FIRST).await, None, "nobody founded it");
}

pub(super) async fn empty_registry_is_taken_over_too(bench: &Bench) {
    assert_eq!(take_second(bench).await, []);
    assert_eq!(peer(bench, SECOND).await, None);
}

pub(super) async fn taken_workers_can_be_taken_again(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.running(new_job(1), "w").await;
    take_second(bench).await;
    let seen = beats(bench, FIRST).await;
    assert_eq!(bench.take_over(FIRST, seen, THIRD).await, Some(vec![enlist_in(THIRD, "w")]));
    bench.advance(LEASE);
    assert_eq!(bench.expired_in(FIRST, MANY).await, []);
    assert_eq!(bench.expired_in(THIRD, MANY).await[0].registry, Some(THIRD));
}

pub(super) async fn registry_that_is_gone_takes_nobody_over(bench: &Bench) {
    bench.enlist(enlist_in(THIRD, "w")).await;
    take_second(bench).await;
    let seen = beats(bench, THIRD).await;
    assert_eq!(bench.take_over(THIRD, seen, SECOND).await, None);
    assert_eq!(bench.take_over(THIRD, seen, RegistryId(99)).await, None);
    assert_eq!(bench.roster(THIRD).await.len(), 1, "nothing happened");
    assert!(bench.beat(THIRD).await.is_some());
}

pub(super) async fn nobody_takes_over_itself(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    let seen = beats(bench, SECOND).await;
    assert_eq!(bench.take_over(SECOND, seen, SECOND).await, None);
    assert!(bench.beat(SECOND).await.is_some());
    assert_eq!(bench.roster(SECOND).await.len(), 1);
}

pub(super) async fn beat_of_a_registry_that_was_taken_is_none(bench: &Bench) {
    take_second(bench).await;
    assert_eq!(bench.beat(SECOND).await, None);
    assert_eq!(peer(bench, SECOND).await, None, "nor does it bring it back");
    assert!(bench.beat(FIRST).await.is_some());
}

pub(super) async fn former_owner_enlists_nobody(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "known")).await;
    take_second(bench).await;
    let larger = Enlist { grant: LEASE * 9, ..enlist_in(SECOND, "known") };
    let answers = bench.enlist_all(vec![enlist_in(SECOND, "new"), larger, enlist("other")]).await;
    assert_eq!(answers, [EnlistAnswer::Disowned, EnlistAnswer::Disowned, EnlistAnswer::Known]);
    assert_eq!(bench.worker("new").await, None);
    assert_eq!(bench.worker("known").await.unwrap().worker, enlist("known"), "its grant is as it was");
}

pub(super) async fn former_owner_retires_nobody(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.running(new_job(1), "plain").await;
    take_second(bench).await;
    for key in ["w", "plain", "unheard-of"] {
        assert!(!bench.retire_by(SECOND, key, HolderEnd::Expired).await, "{key}");
        assert_eq!(bench.end_of(key).await, None, "nothing happened to {key}");
    }
    bench.advance(LEASE);
    assert_eq!(bench.expired(MANY).await[0].registry, None, "who holds something is never lost sight of");
    assert!(bench.retire_by(FIRST, "w", HolderEnd::Expired).await);
}

pub(super) async fn former_owner_reaps_nobody(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.enlist(Enlist { registry: SECOND, ..enlist_pinging("pings") }).await;
    for (number, holder) in [(1, "w"), (2, "pings")] {
        bench.running(new_job(number), holder).await;
    }
    bench.advance(LEASE);
    let seen = bench.expired_in(SECOND, MANY).await;
    assert_eq!(seen.len(), 2);
    take_second(bench).await;
    assert_eq!(bench.reap(seen).await, [], "it judged them before they were another's");
    assert_eq!(bench.expired_in(SECOND, MANY).await, [], "nor does it see them any more");
    assert_eq!(bench.extend_leases_in(SECOND, secs(5)).await, 0);
    assert_eq!(bench.deadlines_in(SECOND).await.next_lease_in, None);
    assert_eq!(bench.expired(MANY).await.len(), 2);
}

pub(super) async fn former_owner_readmits_nobody(bench: &Bench) {
    bench.enlist(Enlist { registry: SECOND, ..enlist_pinging("w") }).await;
    assert!(bench.retire_by(SECOND, "w", HolderEnd::Silent).await);
    take_second(bench).await;
    bench.readmit_by(SECOND, "w").await;
    assert!(bench.end_of("w").await.is_some());
    bench.readmit_by(FIRST, "w").await;
    assert_eq!(bench.end_of("w").await, None, "its new registry may");
}

pub(super) async fn loss_by_a_take_over_does_not_count(bench: &Bench) {
    bench.enlist(enlist_in(SECOND, "w")).await;
    bench.add(NewJob { max_lost: Some(2), ..new_job(1) }).await;
    bench.lose_again(id(1), 1).await;
    bench.take("w").await;
    take_second(bench).await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    let reaped = bench.reap(seen).await;
    assert_eq!((reaped.len(), reaped[0].state, reaped[0].due_in), (1, State::Available, None));
    let job = bench.job(id(1)).await;
    assert_eq!((job.lost, job.attempt), (1, 0), "neither loss nor attempt counts");

    bench.take("w").await;
    bench.advance(LEASE);
    assert_eq!(lost_after_reaping(bench).await, 2, "the next claim is another matter");
}

/// A job that runs on `w` while its registry is taken over.
async fn taken_with_a_job(bench: &Bench) -> Hold {
    bench.enlist(enlist_in(SECOND, "w")).await;
    let hold = bench.running(new_job(1), "w").await;
    take_second(bench).await;
    hold
}

pub(super) async fn loss_after_a_renewal_counts_again_after_a_take_over(bench: &Bench) {
    let hold = taken_with_a_job(bench).await;
    bench.renew("w", &[hold]).await;
    bench.advance(LEASE);
    assert_eq!(lost_after_reaping(bench).await, 1, "its holder had found us");
}

pub(super) async fn loss_after_a_succession_counts_again_after_a_take_over(bench: &Bench) {
    let hold = taken_with_a_job(bench).await;
    bench.enlist(enlist("new")).await;
    assert_eq!(bench.succeed("w", "new", &[hold]).await, [true]);
    bench.advance(LEASE);
    assert_eq!(lost_after_reaping(bench).await, 1, "its holder had found us");
}

pub(super) async fn loss_by_a_take_over_does_not_count_after_a_push(bench: &Bench) {
    taken_with_a_job(bench).await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.push(seen, secs(5)).await, 1);
    assert_eq!(bench.extend_leases(secs(5)).await, 1);
    bench.advance(secs(10));
    assert_eq!(lost_after_reaping(bench).await, 0, "its holder has still not found us");
}

pub(super) async fn take_over_leaves_the_losses_of_others(bench: &Bench) {
    bench.enlist(enlist("ours")).await;
    bench.running(new_job(1), "ours").await;
    bench.running(new_job(2), "plain").await;
    take_second(bench).await;
    bench.advance(LEASE);
    let seen = bench.expired(MANY).await;
    assert_eq!(bench.reap(seen).await.len(), 2);
    assert_eq!((bench.job(id(1)).await.lost, bench.job(id(2)).await.lost), (1, 1));
}
