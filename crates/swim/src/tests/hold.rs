//! Whose contradiction was not believed at once is believed when its time is over, if it is still there.

use std::time::Duration;

use super::hand::{Hand, update};
use super::world::{World, addr, node};
use crate::Status::{Alive, Unreliable};
use crate::{Config, Event, Incarnation, Input, Message, NodeId, Request, Response, State, Ticket};

const SECOND: Duration = Duration::from_secs(1);

/// Node 2 was judged as unreliable and contradicted, so long ago that its time is over; it was not heard since.
fn served() -> Hand {
    let mut hand = Hand::new(Config::lan(), 6);
    hand.rumour(2, 1, 3, Unreliable);
    hand.rumour(2, 1, 4, Alive);
    hand.pass_hearing(Config::lan().hold_down_max - SECOND / 2);
    hand.sent.clear();
    hand.pass(SECOND);
    hand
}

#[test]
fn whose_time_is_over_is_pinged_and_believed_when_it_is_heard() {
    let mut hand = served();
    assert_eq!(hand.state(2), Some(State::Dead));
    let pinged = hand.sent.iter().find(|packet| packet.to == node(2, 1));
    let pinged = pinged.expect("it is pinged");
    assert!(matches!(pinged.message, Message::Ping { .. }));
    assert_eq!(pinged.updates.iter().find(|update| update.node == node(2, 1)), None, "and not accused");
    hand.hear(node(2, 2), Message::NotMe, Vec::new());
    assert_eq!(hand.state(2), Some(State::Dead), "another start is not the one that was held");
    hand.hear(node(2, 1), Message::Gossip, Vec::new());
    assert_eq!(hand.state(2), Some(State::Alive));
    assert!(hand.events.contains(&Event::Refuted(node(2, 1), Incarnation(4))));
    assert_eq!(hand.machine.member(NodeId(2)).map(|member| member.on_probation), Some(true));
}

#[test]
fn whose_time_is_over_is_believed_when_somebody_knows_a_later_word_of_it() {
    let mut hand = served();
    hand.rumour(2, 1, 4, Alive);
    assert_eq!(hand.state(2), Some(State::Dead), "that was known");
    hand.rumour(2, 1, 5, Alive);
    assert_eq!(hand.state(2), Some(State::Alive));
}

#[test]
fn who_speaks_before_its_time_is_over_is_not_believed() {
    let mut hand = Hand::new(Config::lan(), 6);
    hand.rumour(2, 1, 3, Unreliable);
    hand.rumour(2, 1, 4, Alive);
    hand.pass_answered(Config::lan().hold_down_max - SECOND, &[1, 2]);
    hand.hear(node(2, 1), Message::Gossip, Vec::new());
    assert_eq!(hand.state(2), Some(State::Dead));
}

#[test]
fn who_dies_while_it_is_held_never_comes_back_and_is_no_news() {
    let config = Config { hold_down_max: SECOND * 40, review_every: SECOND * 2, ..Config::lan() };
    let mut world = World::formed(config, 3, 24);
    world.egress_loss_percent.insert(7, 80);
    assert!(world.run_while(SECOND * 60, |world| world.all_see(7, State::Dead)).is_some());
    world.run(SECOND * 5);
    world.crash(7);
    world.run(SECOND * 20);
    world.events.clear();
    world.sent.clear();
    world.run(SECOND * 80);
    let back = world.count_events(|event| matches!(event, Event::Refuted(who, _) if who.id == NodeId(7)));
    assert_eq!(back, 0);
    let news = world.sent.iter().filter(|(_, _, packet)| packet.message == Message::Gossip);
    assert_eq!(news.count(), 0);
    // Nor does anybody go on asking its observers for ever.
    world.sent.clear();
    world.run(SECOND * 20);
    let asked = world.sent.iter().filter(|(_, _, packet)| matches!(packet.message, Message::Ask { .. }));
    assert_eq!(asked.count(), 0);
}

/// Where a link is dead for good its end is never heard. Others hear it.
#[test]
fn whose_time_is_over_is_believed_when_others_count_it_as_there() {
    let mut hand = served();
    let alive = vec![update(2, 1, 4, Alive)];
    hand.hear(node(1, 1), Message::Gossip, alive.clone());
    assert_eq!(hand.state(2), Some(State::Dead), "a rumour may be old");
    let push = Request::Push { from: node(1, 1), entries: alive };
    hand.give(Input::Request(Ticket(1), addr(1), push));
    assert_eq!(hand.state(2), Some(State::Alive));
}

/// Otherwise those who forgot the judgement learn it as news, for ever.
#[test]
fn a_judgement_is_told_only_as_long_as_its_time_runs() {
    let told = |hand: &mut Hand| {
        let compare = Request::Compare { from: update(3, 1, 0, Alive), buckets: vec![1] };
        hand.responses.clear();
        hand.give(Input::Request(Ticket(1), addr(3), compare));
        let Some(Response::Differences { entries, .. }) = hand.responses.pop() else { panic!("an answer") };
        entries.iter().any(|entry| entry.node == node(2, 1) && entry.status == Unreliable)
    };
    let mut hand = Hand::new(Config::lan(), 6);
    hand.rumour(2, 1, 3, Unreliable);
    hand.rumour(2, 1, 4, Alive);
    assert!(told(&mut hand));
    assert!(!told(&mut served()));
}

/// Again and again the network falls into two halves, along another line each time. None of the nodes is unreliable, and the
/// network is well in the end: nobody is kept out for what it went through.
#[test]
fn after_many_short_partitions_all_are_soon_believed_again() {
    let mut world = World::formed(Config::lan(), 6, 32);
    for number in 0..20 {
        let (one, other): (Vec<u32>, Vec<u32>) = (0..32).partition(|id| (id * 7 + number * 5) % 11 < 5);
        for (one, other) in one.iter().flat_map(|one| other.iter().map(|other| (*one, *other))) {
            world.cuts.extend([(one, other), (other, one)]);
        }
        world.run(Duration::from_secs(6));
        world.cuts.clear();
        world.run(Duration::from_secs(5));
    }
    assert!(world.run_while(Duration::from_secs(10), World::all_see_all).is_some());
}
