//! Whole clusters under faults: who is condemned, and who is not.

use std::time::Duration;

use super::world::World;
use crate::{Config, Event, State};

const SECOND: Duration = Duration::from_secs(1);

/// Deaths of nodes of which this is true, counted wherever they are believed.
fn deaths(world: &World, of: impl Fn(u32) -> bool) -> usize {
    world.count_events(|event| matches!(event, Event::Dead(node, ..) if of(node.id.0)))
}

/// How many of the healthy take this node for dead.
fn dead_at(world: &World, of: u32, faulty: &[u32]) -> usize {
    let healthy = world.machines.keys().filter(|id| !faulty.contains(id));
    healthy.filter(|id| world.state(**id, of) == Some(State::Dead)).count()
}

#[test]
fn a_join_storm_through_one_node_settles_soon() {
    let mut world = World::new(Config::lan(), 1);
    for id in 0..256 {
        world.start(id, 1);
    }
    let took = world.run_while(SECOND * 20, World::all_see_all);
    assert!(took.is_some_and(|took| took <= SECOND * 5), "{took:?}");
    assert_eq!(world.count_events(|event| matches!(event, Event::Suspected(..))), 0);
}

#[test]
fn heavy_loss_condemns_nobody() {
    for count in [3, 5, 8, 32] {
        let mut world = World::formed(Config::lan(), 1, count);
        world.loss_percent = 30;
        world.run(SECOND * 600);
        assert_eq!(deaths(&world, |_| true), 0, "{count} nodes");
    }
}

#[test]
fn many_crashes_at_once_are_known_to_all_and_nobody_else_is_accused() {
    for crashes in [5, 25, 50] {
        let mut world = World::formed(Config::lan(), 5, 100);
        world.run(SECOND * 3);
        world.events.clear();
        for id in 0..crashes {
            world.crash(id);
        }
        let took = world.run_while(SECOND * 60, |world| {
            world.machines.values().all(|machine| machine.counts().dead == crashes as usize)
        });
        let bound = if crashes == 5 { SECOND * 10 } else { SECOND * 40 };
        assert!(took.is_some_and(|took| took <= bound), "{crashes} crashes: {took:?}");
        assert_eq!(deaths(&world, |id| id >= crashes), 0);
    }
}

#[test]
fn those_whose_datagrams_are_blocked_condemn_no_healthy_one() {
    for span in [4, 16, 32] {
        let mut world = World::formed(Config::lan(), 2, 64);
        world.run(SECOND * 3);
        for _ in 0..2 {
            world.blocked = (0..8).collect();
            world.run(SECOND * span);
            world.blocked.clear();
            world.run(SECOND * span);
        }
        assert_eq!(deaths(&world, |id| id >= 8), 0, "blocked for {span} s");
    }
}

#[test]
fn who_hardly_answers_is_condemned_by_all_and_stays_so_for_a_while() {
    let faulty = [7, 8];
    let mut world = World::formed(Config::lan(), 3, 100);
    world.run(SECOND * 3);
    for id in faulty {
        world.egress_loss_percent.insert(id, 80);
    }
    let all = |world: &World| faulty.iter().all(|id| dead_at(world, *id, &faulty) == 98);
    assert!(world.run_while(SECOND * 60, all).is_some(), "not condemned by all");
    for _ in 0..20 {
        world.run(SECOND);
        assert!(all(&world), "believed again at once");
    }
    assert_eq!(deaths(&world, |id| !faulty.contains(&id)), 0);
}

#[test]
fn a_one_way_cut_that_comes_and_goes_condemns_exactly_the_cut() {
    let faulty = [7];
    let mut world = World::formed(Config::lan(), 3, 50);
    for step in 0..8 {
        world.cuts.clear();
        if step % 2 == 0 {
            world.cuts.extend((0..50).filter(|id| *id != 7).map(|id| (id, 7)));
        }
        world.run(SECOND * 20);
    }
    assert_eq!(dead_at(&world, 7, &faulty), 49, "after four times it is not believed at once");
    assert_eq!(deaths(&world, |id| id != 7), 0);
}

#[test]
fn who_missed_a_verdict_learns_it_by_comparing() {
    let mut world = World::formed(Config::lan(), 8, 16);
    world.run(SECOND * 3);
    // Node 3 sleeps while the others find and forget to mention that node 9 is dead.
    world.asleep.insert(3);
    world.crash(9);
    world.run(SECOND * 60);
    world.asleep.clear();
    let took = world.run_while(SECOND * 20, |world| world.state(3, 9) == Some(State::Dead));
    assert!(took.is_some_and(|took| took <= SECOND * 6), "{took:?}");
}

#[test]
fn the_few_who_are_left_of_many_bury_the_others() {
    for left in [2, 3, 4] {
        let mut world = World::formed(Config::lan(), 6, 12);
        world.run(SECOND * 3);
        for id in left..12 {
            world.crash(id);
        }
        let took = world.run_while(SECOND * 300, |world| {
            world.machines.values().all(|machine| machine.counts().dead == 12 - left as usize)
        });
        assert!(took.is_some_and(|took| took <= SECOND * 200), "{left} are left: {took:?}");
        assert_eq!(deaths(&world, |id| id < left), 0);
    }
}
