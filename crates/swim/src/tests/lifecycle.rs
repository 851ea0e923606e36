//! Whole clusters: joining, dying, coming back, leaving.

use std::time::Duration;

use super::hand::Hand;
use super::world::World;
use crate::{Config, Event, Input, State, Status};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nodes_that_start_together_find_each_other() {
    for count in [2, 5, 64] {
        let mut world = World::new(Config::lan(), 1);
        for id in 0..count {
            world.start(id, 1);
        }
        let took = world.run_while(SECOND * 10, World::all_see_all);
        println!("{count} joined in {took:?}");
        assert!(took.is_some(), "{count} nodes do not see each other after 10 s");
    }
}

#[test]
fn a_crash_is_seen_by_all_and_nobody_else_is_suspected() {
    for count in [2, 3, 4, 5, 8, 64, 128] {
        let mut world = World::formed(Config::lan(), 7, count);
        world.run(SECOND * 20);
        world.events.clear();
        world.crash(1);
        let took = world.run_while(SECOND * 60, |world| world.all_see(1, State::Dead));
        println!("{count}: all know after {took:?}");
        assert!(took.is_some(), "of {count} nodes not all know of the death after 60 s");
        let wrong = world.count_events(
            |event| matches!(event, Event::Dead(node, ..) | Event::Suspected(node, ..) if node.id.0 != 1),
        );
        assert_eq!(wrong, 0, "others were accused among {count}");
    }
}

#[test]
fn a_restarted_node_replaces_its_earlier_start() {
    let mut world = World::formed(Config::lan(), 3, 5);
    world.run(SECOND * 3);
    world.crash(2);
    world.start(2, 2);
    assert!(world.run_while(SECOND * 10, World::all_see_all).is_some());
    assert!(world.machines.values().all(|machine| {
        machine.member(crate::NodeId(2)).is_some_and(|member| member.identity.epoch.0 == 2)
    }));
}

#[test]
fn who_leaves_is_known_to_have_left_at_once() {
    let mut world = World::formed(Config::lan(), 3, 64);
    world.run(SECOND * 3);
    world.give(5, Input::Leave);
    let took = world.run_while(SECOND * 5, |world| world.all_see(5, State::Left));
    assert!(took.is_some_and(|took| took < SECOND * 3), "{took:?}");
    assert_eq!(world.count_events(|event| matches!(event, Event::HaveLeft)), 1);
    assert_eq!(world.count_events(|event| matches!(event, Event::Dead(..) | Event::Suspected(..))), 0);
}

#[test]
fn good_byes_are_said_one_tick_after_the_other() {
    let config = Config::lan();
    let every = config.gossip.every;
    let mut hand = Hand::new(config, 3);
    hand.give(Input::Leave);
    let said = [(); 4].map(|()| {
        let said = hand.sent.drain(..).filter(|packet| packet.updates[0].status == Status::Left).count();
        hand.pass(every);
        said
    });
    assert_eq!(said, [2, 2, 2, 0], "to both others, three times");
}

#[test]
fn a_sleeper_is_taken_for_dead_and_contradicts() {
    let mut world = World::formed(Config::lan(), 9, 16);
    world.run(SECOND * 3);
    world.asleep.insert(4);
    assert!(
        world
            .run_while(SECOND * 30, |world| {
                world
                    .machines
                    .keys()
                    .filter(|id| **id != 4)
                    .all(|id| world.state(*id, 4) == Some(State::Dead))
            })
            .is_some()
    );
    world.run(SECOND * 5);
    world.events.clear();
    world.asleep.clear();
    let took = world.run_while(SECOND * 15, World::all_see_all);
    assert!(took.is_some(), "it is not back");
    assert!(world.count_events(|event| matches!(event, Event::WeRefuted(_))) > 0);
    assert_eq!(world.count_events(|event| matches!(event, Event::Dead(node, ..) if node.id.0 != 4)), 0);
}

#[test]
fn halves_find_each_other_again() {
    let mut world = World::formed(Config::lan(), 11, 64);
    world.run(SECOND * 3);
    world.part(0..32, 32..64);
    world.run(SECOND * 120);
    assert!(world.machines.values().all(|machine| machine.counts().dead == 32), "the halves do not know");
    world.cuts.clear();
    let took = world.run_while(SECOND * 30, World::all_see_all);
    println!("healed after {took:?}");
    assert!(took.is_some_and(|took| took < SECOND * 15), "healed after {took:?}");
}

#[test]
fn a_half_does_not_bury_its_own_when_it_hears_what_the_other_half_thought() {
    let mut world = World::formed(Config::lan(), 11, 32);
    world.run(SECOND * 3);
    world.part(0..16, 16..32);
    world.run(SECOND * 120);
    world.events.clear();
    world.cuts.clear();
    assert!(world.run_while(SECOND * 15, World::all_see_all).is_some());
    let own = world
        .events
        .iter()
        .filter(|(_, by, event)| matches!(event, Event::Dead(node, ..) if (node.id.0 < 16) == (*by < 16)));
    assert_eq!(own.count(), 0);
}
