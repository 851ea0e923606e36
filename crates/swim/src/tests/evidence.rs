//! What beats what: a table, and what is remembered.

use std::time::Duration;

use super::hand::{Hand, update};
use super::world::node;
use crate::Status::{Alive, Dead, Left, Suspect, Unreliable};
use crate::{Config, Event, Incarnation, Input, Message, Reason, State, Status};

#[test]
fn evidence_is_weighed_by_epoch_incarnation_and_kind() {
    type Said = (u32, u32, Status);
    // What is said in turn (epoch, incarnation, status), and the state and incarnation after that.
    let table: &[(&[Said], State, u32)] = &[
        (&[(1, 0, Suspect)], State::Suspected, 0),
        (&[(1, 0, Dead)], State::Dead, 0),
        (&[(1, 0, Unreliable)], State::Dead, 0),
        (&[(1, 0, Left)], State::Left, 0),
        // Alive needs a higher incarnation.
        (&[(1, 0, Suspect), (1, 0, Alive)], State::Suspected, 0),
        (&[(1, 0, Suspect), (1, 1, Alive)], State::Alive, 1),
        (&[(1, 0, Dead), (1, 0, Alive)], State::Dead, 0),
        (&[(1, 0, Dead), (1, 1, Alive)], State::Alive, 1),
        // At equal incarnations the worse counts.
        (&[(1, 0, Dead), (1, 0, Suspect)], State::Dead, 0),
        (&[(1, 0, Suspect), (1, 0, Dead)], State::Dead, 0),
        // What is older than what is known says nothing.
        (&[(1, 3, Alive), (1, 2, Suspect)], State::Alive, 3),
        (&[(1, 3, Alive), (1, 2, Dead)], State::Alive, 3),
        (&[(1, 3, Suspect), (1, 2, Alive)], State::Suspected, 3),
        // Every evidence raises the incarnation, also that of a death.
        (&[(1, 10, Dead), (1, 2, Alive)], State::Dead, 10),
        (&[(1, 0, Dead), (1, 10, Dead), (1, 2, Alive)], State::Dead, 10),
        // Whoever is suspected after its death was alive in between.
        (&[(1, 0, Dead), (1, 4, Suspect)], State::Suspected, 4),
        // Left is final in its epoch.
        (&[(1, 0, Left), (1, 9, Alive)], State::Left, 0),
        (&[(1, 0, Left), (1, 9, Dead)], State::Left, 0),
        (&[(1, 5, Alive), (1, 0, Left)], State::Left, 5),
        // A later epoch replaces whatever was, an earlier one says nothing.
        (&[(1, 7, Dead), (2, 0, Alive)], State::Alive, 0),
        (&[(1, 7, Left), (2, 0, Alive)], State::Alive, 0),
        (&[(2, 0, Alive), (1, 9, Dead)], State::Alive, 0),
        (&[(2, 0, Alive), (1, 9, Left)], State::Alive, 0),
        (&[(2, 0, Dead), (1, 9, Alive)], State::Dead, 0),
        (&[(2, 0, Suspect)], State::Suspected, 0),
    ];
    for (said, state, incarnation) in table {
        let mut hand = Hand::new(Config::lan(), 4);
        for (epoch, incarnation, status) in *said {
            hand.rumour(2, *epoch, *incarnation, *status);
        }
        assert_eq!(hand.state(2), Some(*state), "after {said:?}");
        assert_eq!(hand.incarnation_of(2), Some(*incarnation), "after {said:?}");
    }
}

#[test]
fn changes_are_told_once_with_their_reason() {
    let mut hand = Hand::new(Config::lan(), 4);
    for _ in 0..2 {
        hand.rumour(2, 1, 0, Suspect);
        hand.rumour(2, 1, 0, Dead);
        hand.rumour(2, 1, 1, Alive);
        hand.rumour(7, 3, 0, Alive);
    }
    let told = Reason::Told(crate::NodeId(9));
    assert_eq!(
        hand.events,
        [
            Event::Suspected(node(2, 1), Incarnation(0), told),
            Event::Dead(node(2, 1), Incarnation(0), told),
            Event::Refuted(node(2, 1), Incarnation(1)),
            Event::Joined(node(7, 3)),
        ]
    );
}

#[test]
fn who_is_accused_contradicts_with_a_higher_incarnation() {
    for status in [Suspect, Dead, Unreliable] {
        let mut hand = Hand::new(Config::lan(), 4);
        hand.rumour(0, 1, 6, status);
        assert_eq!(hand.machine.incarnation(), Incarnation(7));
        assert_eq!(hand.events, [Event::WeRefuted(Incarnation(7))]);
        assert_eq!(hand.machine.health(), 1);
        hand.rumour(0, 1, 6, status);
        assert_eq!(hand.machine.incarnation(), Incarnation(7), "an old accusation is answered already");
        hand.pass(Duration::from_millis(300));
        let said = hand.sent.iter().flat_map(|packet| &packet.updates).any(|update| {
            update.node == node(0, 1) && update.status == Alive && update.incarnation == Incarnation(7)
        });
        assert!(said, "the contradiction is not spread");
    }
}

#[test]
fn a_later_start_or_an_expulsion_ends_this_one() {
    for (epoch, status, superseded) in [(2, Alive, 2), (2, Dead, 2), (1, Left, 1)] {
        let mut hand = Hand::new(Config::lan(), 4);
        hand.rumour(0, epoch, 0, status);
        assert_eq!(hand.events, [Event::Expelled]);
        assert_eq!(hand.machine.superseded_by().map(|epoch| epoch.0), Some(superseded));
        hand.sent.clear();
        hand.pass(Duration::from_secs(60));
        hand.hear(node(1, 1), Message::Ping { number: 1 }, Vec::new());
        assert!(hand.sent.is_empty() && hand.events.len() == 1, "it is not silent");
    }
}

#[test]
fn two_of_one_identity_do_not_fight() {
    let mut hand = Hand::new(Config::lan(), 4);
    let mut other = update(0, 1, 0, Alive);
    other.info = Some(std::sync::Arc::new(super::world::info(77)));
    hand.hear(node(1, 1), Message::Gossip, vec![other]);
    assert_eq!(hand.events, [Event::Expelled]);
}

#[test]
fn who_is_over_is_told_and_not_believed() {
    let mut hand = Hand::new(Config::lan(), 4);
    hand.rumour(2, 3, 0, Alive);
    hand.rumour(3, 1, 0, Left);
    hand.sent.clear();
    for old in [node(2, 1), node(3, 1)] {
        hand.hear(old, Message::Ping { number: 4 }, vec![update(1, 1, 0, Dead)]);
        let answer = hand.sent.pop().expect("it is told");
        assert_eq!(answer.message, Message::Gossip);
        assert_eq!(answer.updates[0].node.id, old.id);
        assert!(answer.updates[0].node.epoch > old.epoch || answer.updates[0].status == Left);
        assert_eq!(hand.state(1), Some(State::Alive), "its rumours were believed");
    }
    // Two who take each other for over must not answer for ever.
    hand.hear(node(2, 1), Message::Gossip, Vec::new());
    assert!(hand.sent.is_empty());
}

#[test]
fn the_unreliable_are_believed_after_a_while_whatever_comes_first() {
    for judgement_first in [true, false] {
        let mut hand = Hand::new(Config::lan(), 6);
        if judgement_first {
            hand.rumour(2, 1, 3, Unreliable);
            hand.rumour(2, 1, 4, Alive);
        } else {
            hand.rumour(2, 1, 4, Alive);
            hand.rumour(2, 1, 3, Unreliable);
        }
        assert_eq!(hand.state(2), Some(State::Dead), "judgement first: {judgement_first}");
        assert_eq!(hand.incarnation_of(2), Some(4));
        hand.rumour(2, 1, 3, Unreliable);
        let hold_down = Config::lan().hold_down_max;
        hand.pass_hearing(hold_down - Duration::from_secs(1));
        assert_eq!(hand.state(2), Some(State::Dead));
        hand.rumour(2, 1, 3, Unreliable);
        hand.pass_answered(Duration::from_secs(2), &[1, 2]);
        assert_ne!(hand.state(2), Some(State::Dead), "judgement first: {judgement_first}");
        assert_eq!(hand.machine.member(crate::NodeId(2)).map(|member| member.on_probation), Some(true));
        hand.rumour(2, 1, 3, Unreliable);
        assert_ne!(hand.state(2), Some(State::Dead), "one judgement counts once");
    }
}

#[test]
fn who_dies_again_and_again_is_held_down() {
    let mut hand = Hand::new(Config::lan(), 6);
    for death in 0..2 {
        hand.rumour(2, 1, death, Dead);
        hand.rumour(2, 1, death + 1, Alive);
        assert_eq!(hand.state(2), Some(State::Alive), "death {death} is believed to be contradicted");
    }
    hand.rumour(2, 1, 2, Dead);
    hand.rumour(2, 1, 3, Alive);
    assert_eq!(hand.state(2), Some(State::Dead), "the third time it must wait");
}

#[test]
fn an_expelled_node_is_gone_even_if_unknown() {
    let mut hand = Hand::new(Config::lan(), 4);
    hand.give(Input::Expel(node(2, 1)));
    hand.give(Input::Expel(node(9, 4)));
    hand.rumour(2, 1, 5, Alive);
    hand.rumour(9, 4, 5, Alive);
    assert_eq!(hand.state(2), Some(State::Left));
    assert_eq!(hand.state(9), Some(State::Left));
    hand.rumour(9, 5, 0, Alive);
    assert_eq!(hand.state(9), Some(State::Alive), "a later start may come");
}

#[test]
fn the_gone_are_forgotten_and_come_back_neither_by_comparing_nor_by_themselves() {
    let config = Config { forget_left_after: Duration::from_secs(100), ..Config::lan() };
    let mut hand = Hand::new(config, 4);
    hand.rumour(2, 1, 0, Left);
    hand.pass_hearing(Duration::from_secs(200));
    assert_eq!(hand.state(2), None);
    assert!(hand.events.contains(&Event::Forgotten(node(2, 1))));
    let push = crate::Request::Push { from: node(1, 1), entries: vec![update(2, 1, 0, Left)] };
    hand.give(Input::Request(crate::Ticket(1), super::world::addr(1), push));
    assert_eq!(hand.state(2), None, "forgetting would never end");
}
