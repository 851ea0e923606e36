//! A part of the fleet starts and dies in a loop, and good workers join.

use super::*;

/// How many rounds a newcomer needs to be permitted while in every round another worker joins that never speaks again and is lost
/// `lifetime` rounds later.
fn rounds_until_permitted(mutation: Option<Mutation>, lifetime: usize, rounds_max: usize) -> Option<usize> {
    let mut scene = Scene::settled(&(0..100).collect::<Vec<_>>(), mutation);
    let (good, mut next, mut loopers) = (50_000, 1_000, std::collections::VecDeque::new());
    for round in 0..rounds_max {
        if round == 2 * lifetime {
            scene.report(good);
        }
        scene.report(next);
        loopers.push_back(next);
        next += 1;
        if loopers.len() > lifetime {
            scene.lose(loopers.pop_front().unwrap());
        }
        (0..100).chain(scene.known.contains(&good).then_some(good)).for_each(|worker| scene.beat(worker));
        scene.consensus.update();
        if scene.known.contains(&good) && scene.run(good).is_ok() {
            return Some(round - 2 * lifetime);
        }
    }
    None
}

#[test]
fn with_a_crash_looping_part_new_workers_are_permitted_within_two_lifetimes() {
    for lifetime in [3, 20, 60] {
        let bound = 2 * lifetime + 4;
        let rounds = rounds_until_permitted(None, lifetime, 100 * lifetime);
        assert!(rounds.is_some_and(|rounds| rounds <= bound), "{rounds:?} of {bound} rounds");
        assert_eq!(rounds_until_permitted(Some(Mutation::NoBatching), lifetime, 20 * bound), None);
    }
}

#[test]
fn the_queue_begins_after_so_many_additions_without_agreement() {
    let mut scene = Scene::settled(&[1, 2], None);
    (10..18).for_each(|worker| scene.beat(worker));
    assert_eq!(scene.consensus.queued(), 0);
    let version = scene.consensus.version();
    (18..20).for_each(|worker| scene.beat(worker));
    assert_eq!(scene.consensus.queued(), 2);
    assert_eq!(scene.consensus.version(), version, "in no set");
    assert_eq!(scene.consensus.current(Member(18)), None, "told nothing");
    assert_eq!(scene.run(18), Err(HeldBack::Queued));
    scene.consensus.update();
    assert_eq!(scene.consensus.queued(), 2, "those before are held back");

    scene.lose(18);
    assert_eq!((scene.consensus.queued(), scene.consensus.version()), (1, version), "touches nothing");

    scene.lose(2);
    assert_eq!(scene.consensus.version(), version.next(), "removals do not queue");
    scene.settle();
    assert_eq!(scene.consensus.queued(), 0);
    assert_eq!(scene.consensus.version(), version.next().next(), "one version each");
    assert!(scene.run(10).is_ok());
    assert!(scene.run(19).is_err());
    scene.settle();
    assert!(scene.run(19).is_ok());
}

#[test]
fn a_large_fleet_takes_a_tenth_at_once() {
    let mut scene = Scene::settled(&(0..200).collect::<Vec<_>>(), None);
    (1_000..1_100).for_each(|worker| scene.beat(worker));
    assert_eq!(scene.consensus.queued(), 78, "a tenth of those present when it began to matter");
}

#[test]
fn nobody_queues_during_the_wait() {
    let mut scene = Scene::settled(&[1, 2], None);
    scene.restart();
    let terms = Terms { batch_after_min: 0, batch_after_share: u32::MAX, ..Terms::default() };
    scene.consensus = Consensus::new(scene.generation, terms);
    (10..40).for_each(|worker| scene.beat(worker));
    assert_eq!(scene.consensus.queued(), 0, "any of them may be running something");
    assert_eq!(scene.consensus.members().count(), 30);
}

#[test]
fn who_was_permitted_when_the_set_settled_stays_so_when_the_queue_is_admitted() {
    let mut scene = Scene::settled(&[1], None);
    (10..30).for_each(|worker| scene.beat(worker));
    scene.settle();
    assert_eq!(scene.consensus.queued(), 0);
    assert!(scene.consensus.permits(Member(10)).is_ok(), "its healthcheck may come back later");
    assert!(scene.consensus.permits(Member(29)).is_err());
    scene.beat(30);
    assert_eq!(scene.consensus.queued(), 1, "those from the queue are additions too");
}
