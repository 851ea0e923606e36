//! Who hears nobody condemns nobody, and whoever hears somebody now and then comes to an end all the same.

use std::time::Duration;

use super::hand::Hand;
use super::world::node;
use crate::{Config, Event, Input, Message, NodeId, Reason, State, Status, View};

const SECOND: Duration = Duration::from_secs(1);
/// A suspicion's time among six.
const SUSPICION: Duration = Duration::from_secs(24);

/// Doubts itself as much as it can.
fn doubt(hand: &mut Hand) {
    for _ in 0..3 {
        hand.give(Input::Lagged(SECOND * 10));
    }
    assert_eq!(hand.machine.health(), 8);
}

fn verdict(hand: &Hand) -> Option<Reason> {
    hand.events.iter().find_map(|event| match event {
        Event::Dead(_, _, reason) => Some(*reason),
        _ => None,
    })
}

#[test]
fn a_suspicion_that_ends_in_silence_waits_until_somebody_is_heard() {
    let mut hand = Hand::new(Config::lan(), 6);
    doubt(&mut hand);
    hand.rumour(2, 1, 0, Status::Suspect);
    for _ in 0..3 {
        hand.pass(SECOND * 6);
        hand.hear(node(1, 1), Message::Gossip, Vec::new());
    }
    // Its doubt would let it be silent for longer before it counts as deaf; it condemns nobody all the same.
    hand.pass(SECOND * 9);
    assert_eq!((hand.state(2), verdict(&hand)), (Some(State::Suspected), None));
    hand.hear(node(1, 1), Message::Gossip, Vec::new());
    hand.pass(SECOND);
    assert_eq!((hand.state(2), verdict(&hand)), (Some(State::Dead), Some(Reason::NotRefuted)));
}

/// Our probe of somebody fails among sixteen, and two of its observers say early that they find it dead, too. Nobody else
/// answers, neither they nor the next ones. Says what we make of it.
fn two_early_votes(hears_others: bool) -> Option<Reason> {
    let config = Config { helpers: 0, stream_ping: false, ..Config::lan() };
    let mut hand = Hand::new(config, 16);
    let mut votes = 0;
    for _ in 0..100 {
        hand.pass(SECOND / 10);
        for packet in std::mem::take(&mut hand.sent) {
            match packet.message {
                Message::Ask { round, target, .. } if votes < 2 => {
                    votes += 1;
                    let opinion = Message::Opinion { round, target, view: View::Bad };
                    hand.hear(packet.to, opinion, Vec::new());
                }
                _ => {}
            }
        }
        if hears_others || votes == 0 {
            hand.hear(node(99, 1), Message::Gossip, Vec::new());
        }
    }
    assert_eq!(votes, 2);
    verdict(&hand)
}

#[test]
fn votes_that_were_heard_before_a_silence_condemn_nobody() {
    assert!(matches!(two_early_votes(true), Some(Reason::Opinions { bad: 3, of: 3 })));
    assert_eq!(two_early_votes(false), None);
}

#[test]
fn who_probes_seldom_and_is_heard_seldom_is_not_deaf_in_between() {
    let mut hand = Hand::new(Config::lan(), 6);
    doubt(&mut hand);
    hand.rumour(2, 1, 0, Status::Suspect);
    // Once it is the turn of node 2, and there is no answer for so long that it begins anew.
    let end = hand.now + SUSPICION * 2 + SECOND * 19;
    while hand.now < end {
        hand.pass(SECOND / 10);
        // All but node 2 answer, and speak only then: about once in nine periods.
        for packet in std::mem::take(&mut hand.sent).into_iter().filter(|packet| packet.to.id != NodeId(2)) {
            let answer = match packet.message {
                Message::Ping { number } if packet.to.epoch.0 == 1 => Message::Ack { number },
                Message::PingFor { number, .. } => Message::Nack { number },
                _ => continue,
            };
            hand.hear(packet.to, answer, Vec::new());
            hand.give(Input::Lagged(SECOND));
        }
    }
    assert_eq!(hand.state(2), Some(State::Dead));
}

#[test]
fn who_hears_the_last_one_seldom_is_not_deaf_in_between() {
    // Without doubt, so that nothing else stretches its patience.
    let config = Config { health_max: 0, ..Config::lan() };
    let mut hand = Hand::new(config, 12);
    // Node 1 speaks now and then; the others are silent, and found to be.
    let speak_every = SECOND * 8;
    for _ in 0..4 {
        hand.pass(speak_every);
        hand.hear(node(1, 1), Message::Gossip, Vec::new());
    }
    hand.rumour(2, 1, 0, Status::Suspect);
    for _ in 0..4 {
        hand.pass(speak_every);
        hand.hear(node(1, 1), Message::Gossip, Vec::new());
    }
    hand.pass(SECOND);
    assert_eq!(hand.state(2), Some(State::Dead));
}
