//! Each registry sees and judges its own workers; holders that are in none are everybody's.

use model::{HolderEnd, NewJob, RegistryId};

use super::bench::{
    Bench, FIRST, LEASE, MANY, SECOND, THIRD, TICK, enlist, enlist_in, enlist_pinging, id, new_job, secs,
};
use crate::port::{Deadlines, Enlist, Expired};

/// Four jobs by holders of all sorts, each with a lease of its own length, in seconds: 1 by a worker of the first
/// registry (10), 2 by one of the second (20), 3 by one of the second that only pings (30), 4 by a plain holder (40).
async fn running_everywhere(bench: &Bench) {
    bench.enlist(enlist("ours")).await;
    bench.enlist(enlist_in(SECOND, "theirs")).await;
    bench.enlist(Enlist { registry: SECOND, ..enlist_pinging("their-pinger") }).await;
    for (number, holder) in [(1, "ours"), (2, "theirs"), (3, "their-pinger"), (4, "plain")] {
        let job = NewJob { heartbeat_timeout: Some(secs(number * 10)), ..new_job(number) };
        bench.running(job, holder).await;
    }
}

async fn listed(bench: &Bench, registry: RegistryId, limit: usize) -> Vec<(u64, Option<RegistryId>)> {
    let expired = bench.expired_in(registry, limit).await;
    let number = |expired: &Expired| (1..=9).find(|number| id(*number) == expired.hold.job).unwrap();
    expired.iter().map(|expired| (number(expired), expired.registry)).collect()
}

pub(super) async fn expired_are_those_of_the_registry_and_of_none(bench: &Bench) {
    running_everywhere(bench).await;
    bench.advance(secs(60));
    assert_eq!(listed(bench, FIRST, MANY).await, [(1, Some(FIRST)), (4, None)]);
    assert_eq!(listed(bench, SECOND, MANY).await, [(2, Some(SECOND)), (3, Some(SECOND)), (4, None)]);
    assert_eq!(listed(bench, THIRD, MANY).await, [(4, None)]);
    assert_eq!(listed(bench, FIRST, 1).await, [(1, Some(FIRST))], "oldest first");
    assert_eq!(listed(bench, SECOND, 2).await, [(2, Some(SECOND)), (3, Some(SECOND))]);
    assert_eq!(listed(bench, THIRD, 1).await, [(4, None)], "what is not shown takes no place");
    bench.enlist(enlist_in(SECOND, "plain")).await;
    assert_eq!(listed(bench, FIRST, MANY).await, [(1, Some(FIRST))], "it was claimed before it was enlisted");
    assert_eq!(listed(bench, SECOND, MANY).await.len(), 3);
}

pub(super) async fn registry_without_workers_sees_nobody(bench: &Bench) {
    bench.enlist(enlist("ours")).await;
    bench.running(new_job(1), "ours").await;
    for registry in [SECOND, THIRD] {
        assert_eq!(bench.deadlines_in(registry).await, Deadlines::default());
        assert_eq!(bench.extend_leases_in(registry, secs(5)).await, 0);
    }
    bench.advance(LEASE);
    assert_eq!(listed(bench, SECOND, MANY).await, []);
    assert_eq!(listed(bench, FIRST, MANY).await, [(1, Some(FIRST))]);
}

pub(super) async fn deadlines_are_those_of_the_registry_and_of_none(bench: &Bench) {
    running_everywhere(bench).await;
    let leases = |next, longest| Deadlines {
        next_lease_in: Some(secs(next)),
        longest_lease: Some(secs(longest)),
        next_run_in: None,
    };
    assert_eq!(bench.deadlines_in(FIRST).await, leases(10, 40));
    assert_eq!(bench.deadlines_in(SECOND).await, leases(20, 40));
    assert_eq!(bench.deadlines_in(THIRD).await, leases(40, 40));
    bench.retire("ours").await;
    assert_eq!(bench.reap_holder("ours", true).await.len(), 1);
    assert_eq!(bench.deadlines_in(FIRST).await, leases(40, 40), "what is left runs elsewhere");
    bench.enlist(enlist("plain")).await;
    assert_eq!(bench.deadlines_in(SECOND).await, leases(20, 30));
    assert_eq!(bench.deadlines_in(THIRD).await, Deadlines::default());
}

pub(super) async fn extension_moves_the_leases_of_the_registry_and_of_none(bench: &Bench) {
    running_everywhere(bench).await;
    let mut before = Vec::new();
    for number in 1..=4 {
        before.push(bench.seen(id(number)).await.lease_until);
    }
    let mut expected = before;
    for (registry, moved) in [(FIRST, vec![1, 4]), (SECOND, vec![2, 3, 4]), (THIRD, vec![4])] {
        assert_eq!(bench.extend_leases_in(registry, secs(5)).await, moved.len() as u64);
        for number in 1..=4 {
            let until = &mut expected[number - 1];
            *until = if moved.contains(&number) { *until + secs(5) } else { *until };
            assert_eq!(
                bench.seen(id(number as u64)).await.lease_until,
                *until,
                "job {number} by {registry:?}"
            );
        }
    }
}

pub(super) async fn reap_needs_the_registry_that_was_seen(bench: &Bench) {
    running_everywhere(bench).await;
    bench.advance(secs(60));
    for number in 1..=4 {
        let seen = bench.seen(id(number)).await;
        let others = [None, Some(FIRST), Some(SECOND), Some(THIRD)].into_iter();
        let mistaken: Vec<Expired> = others
            .filter(|registry| *registry != seen.registry)
            .map(|registry| Expired { registry, ..seen.clone() })
            .collect();
        assert_eq!(bench.reap(mistaken.clone()).await, [], "its holder never was there");
        if number == 4 {
            bench.enlist(enlist("plain")).await;
            assert_eq!(bench.reap(vec![seen]).await, [], "its holder was in none when it was seen");
        }
        // A mistake beside it harms nobody.
        let again = bench.seen(id(number)).await;
        let reaped = bench.reap([mistaken, vec![again]].concat()).await;
        assert_eq!(reaped.len(), 1, "as it is now");
    }
}

pub(super) async fn holder_is_retired_by_its_registry_alone(bench: &Bench) {
    running_everywhere(bench).await;
    for (key, registry) in [("theirs", SECOND), ("their-pinger", SECOND)] {
        assert!(!bench.retire_by(FIRST, key, HolderEnd::Kicked).await, "{key} is not ours");
        assert_eq!(bench.end_of(key).await, None, "nothing happened");
        assert_eq!(bench.reap_holder(key, true).await, []);
        assert!(bench.retire_by(registry, key, HolderEnd::Left).await);
        assert!(!bench.retire_by(FIRST, key, HolderEnd::Kicked).await, "nor when it is terminal");
        assert!(bench.retire_by(registry, key, HolderEnd::Kicked).await, "a repeat by its own is fine");
        assert_eq!(bench.end_of(key).await, Some((HolderEnd::Left, bench.wall())), "the first end stays");
    }
}

pub(super) async fn plain_holder_is_retired_by_whoever_comes_first(bench: &Bench) {
    running_everywhere(bench).await;
    assert!(bench.retire_by(SECOND, "plain", HolderEnd::Left).await);
    assert!(bench.retire_by(SECOND, "unheard-of", HolderEnd::Left).await);
    for key in ["plain", "unheard-of"] {
        assert_eq!(bench.worker(key).await.unwrap().worker.registry, SECOND);
        assert!(!bench.retire_by(FIRST, key, HolderEnd::Kicked).await, "it is the second's now");
        assert!(bench.retire_by(SECOND, key, HolderEnd::Kicked).await);
        assert_eq!(bench.end_of(key).await, Some((HolderEnd::Left, bench.wall())));
    }
    bench.advance(secs(60));
    assert_eq!(listed(bench, FIRST, MANY).await, [(1, Some(FIRST))], "and so is what it holds");
    assert_eq!(listed(bench, SECOND, MANY).await.last(), Some(&(4, Some(SECOND))));
    assert_eq!(bench.roster(SECOND).await.len(), 2, "it was never enlisted");
}

pub(super) async fn holder_is_readmitted_by_its_registry_alone(bench: &Bench) {
    bench.enlist(Enlist { registry: SECOND, ..enlist_pinging("w") }).await;
    assert!(bench.retire_by(SECOND, "w", HolderEnd::Silent).await);
    bench.readmit_by(FIRST, "w").await;
    assert_eq!(bench.end_of("w").await, Some((HolderEnd::Silent, bench.wall())));
    bench.readmit_by(SECOND, "w").await;
    assert_eq!(bench.end_of("w").await, None);
}

pub(super) async fn succession_stays_in_one_registry(bench: &Bench) {
    bench.enlist(enlist("former")).await;
    bench.enlist(enlist_in(SECOND, "elsewhere")).await;
    bench.enlist(enlist("new")).await;
    let hold = bench.running(new_job(1), "former").await;
    assert_eq!(bench.succeed("former", "elsewhere", &[hold]).await, [false]);
    assert_eq!(bench.end_of("former").await, None, "nothing happened");
    assert_eq!(bench.succeed("former", "new", &[hold]).await, [true]);
    bench.advance(LEASE - TICK);
    assert_eq!(bench.expired(MANY).await, []);
    bench.advance(TICK);
    assert_eq!(listed(bench, FIRST, MANY).await, [(1, Some(FIRST))]);
}
