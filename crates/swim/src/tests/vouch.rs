//! Who was judged as unreliable comes back when others find that it answers.

use std::time::Duration;

use super::hand::{Hand, update};
use super::world::{World, addr, node};
use crate::Status::{Alive, Dead, Unreliable};
use crate::{Config, Event, Input, Message, NodeId, Reason, Request, State, Status, Ticket, Update};

const SECOND: Duration = Duration::from_secs(1);

/// Node 3 says that node 2 answers.
fn voucher(incarnation: u32) -> Update {
    Update { by: NodeId(3), ..update(2, 1, incarnation, Alive) }
}

#[test]
fn a_voucher_ends_the_hold_and_only_a_voucher_does() {
    // What is said of node 2 before, the incarnation somebody vouches for, and its state after that.
    type Said = (u32, Status);
    let table: &[(&[Said], u32, State)] = &[
        (&[(3, Unreliable), (4, Alive)], 4, State::Alive),
        (&[(4, Alive), (3, Unreliable)], 4, State::Alive),
        // The voucher comes before the contradiction.
        (&[(3, Unreliable)], 4, State::Alive),
        // It was held for its many deaths.
        (&[(0, Dead), (1, Alive), (1, Dead), (2, Alive), (2, Dead), (3, Alive)], 3, State::Alive),
        // Vouched for before it was judged, or before it contradicted again.
        (&[(3, Unreliable)], 3, State::Dead),
        (&[(3, Unreliable), (5, Alive)], 4, State::Dead),
        (&[(3, Unreliable), (4, Alive), (4, Unreliable)], 4, State::Dead),
        (&[(3, Dead)], 3, State::Dead),
    ];
    for (said, vouched, state) in table {
        let mut hand = Hand::new(Config::lan(), 6);
        for (incarnation, status) in *said {
            hand.rumour(2, 1, *incarnation, *status);
        }
        hand.rumour(2, 1, *vouched, Alive);
        let alone = hand.state(2);
        let held =
            hand.incarnation_of(2) >= Some(*vouched) && said.iter().any(|(_, status)| *status != Alive);
        assert!(!held || alone == Some(State::Dead), "{said:?}: its own word is enough");
        hand.hear(node(1, 1), Message::Gossip, vec![voucher(*vouched)]);
        assert_eq!(hand.state(2), Some(*state), "after {said:?} and a voucher for {vouched}");
    }
}

#[test]
fn a_voucher_is_passed_on_as_it_is() {
    for contradicted in [true, false] {
        let mut hand = Hand::new(Config::lan(), 6);
        hand.rumour(2, 1, 3, Unreliable);
        if contradicted {
            hand.rumour(2, 1, 4, Alive);
        }
        hand.pass_hearing(SECOND * 5);
        hand.hear(node(1, 1), Message::Gossip, vec![voucher(4)]);
        hand.sent.clear();
        hand.pass(SECOND / 2);
        let said: Vec<&Update> = hand.sent.iter().flat_map(|packet| &packet.updates).collect();
        assert!(said.contains(&&voucher(4)), "contradicted before: {contradicted}, {said:?}");
        // Told twice, it is no news.
        hand.pass_hearing(SECOND * 5);
        hand.hear(node(1, 1), Message::Gossip, vec![voucher(4)]);
        hand.sent.clear();
        hand.pass(SECOND / 2);
        assert!(hand.sent.iter().all(|packet| packet.updates.is_empty()));
    }
}

#[test]
fn a_judgement_that_comes_after_its_voucher_says_nothing_but_a_new_one_does() {
    let mut hand = Hand::new(Config::lan(), 6);
    hand.hear(node(1, 1), Message::Gossip, vec![voucher(4)]);
    hand.rumour(2, 1, 3, Unreliable);
    assert_eq!(hand.state(2), Some(State::Alive));
    hand.rumour(2, 1, 4, Unreliable);
    hand.rumour(2, 1, 5, Alive);
    assert_eq!(hand.state(2), Some(State::Dead), "judged again, it is held again");
}

#[test]
fn comparing_with_somebody_who_knows_the_voucher_ends_the_hold() {
    let mut knows = Hand::new(Config::lan(), 6);
    knows.rumour(2, 1, 3, Unreliable);
    knows.hear(node(1, 1), Message::Gossip, vec![voucher(4)]);
    let mut holds = Hand::new(Config::lan(), 6);
    holds.rumour(2, 1, 3, Unreliable);
    holds.rumour(2, 1, 4, Alive);
    assert_eq!(holds.state(2), Some(State::Dead));
    let from = Update { node: node(1, 1), ..update(1, 1, 0, Alive) };
    knows.give(Input::Request(Ticket(1), addr(1), Request::Compare { from, buckets: vec![1] }));
    let Some(crate::Response::Differences { entries, .. }) = knows.responses.pop() else {
        panic!("it compares");
    };
    let push = Request::Push { from: node(1, 1), entries };
    holds.give(Input::Request(Ticket(1), addr(1), push));
    assert_eq!(holds.state(2), Some(State::Alive));
}

#[test]
fn who_answers_again_is_back_long_before_the_hold_ends() {
    let mut world = World::formed(Config::lan(), 3, 32);
    world.egress_loss_percent.insert(7, 80);
    assert!(world.run_while(SECOND * 60, |world| world.all_see(7, State::Dead)).is_some());
    world.run(SECOND * 30);
    world.egress_loss_percent.clear();
    world.events.clear();
    let took = world.run_while(SECOND * 300, World::all_see_all);
    assert!(took.is_some_and(|took| took <= SECOND * 50), "{took:?}");
    assert_eq!(world.count_events(|event| matches!(event, Event::Dead(..))), 0);
}

#[test]
fn a_judge_with_nobody_to_ask_looks_itself() {
    let mut world = World::formed(Config::lan(), 3, 8);
    world.egress_loss_percent.insert(7, 80);
    assert!(world.run_while(SECOND * 100, |world| world.all_see(7, State::Dead)).is_some());
    world.run(SECOND * 10);
    // Only the last judge is left of the others.
    let mut verdicts = world.events.iter().filter_map(|(_, by, event)| match event {
        Event::Dead(who, _, Reason::Opinions { .. }) if *who == node(7, 1) => Some(*by),
        _ => None,
    });
    let judge = verdicts.next_back().expect("it was judged");
    for id in (0..7).filter(|id| *id != judge) {
        world.give(id, Input::Leave);
    }
    world.run(SECOND * 3);
    world.machines.retain(|id, _| [judge, 7].contains(id));
    world.egress_loss_percent.clear();
    let took = world.run_while(SECOND * 300, |world| world.state(judge, 7) == Some(State::Alive));
    assert!(took.is_some_and(|took| took <= SECOND * 60), "{took:?}");
}
