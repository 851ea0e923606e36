//! The rules of probing, asking and doubting, one machine at a time.

use std::time::Duration;

use super::hand::{Hand, update};
use super::world::{addr, node};
use crate::{
    Config, Event, Incarnation, Input, Mark, Message, NodeId, Reason, Request, Response, State, Status, View,
};

const SECOND: Duration = Duration::from_secs(1);

/// What the machine sent that looks like this.
fn sent<T>(hand: &Hand, wanted: impl Fn(&crate::Packet) -> Option<T>) -> Vec<T> {
    hand.sent.iter().filter_map(wanted).collect()
}

fn pings(hand: &Hand) -> Vec<(NodeId, u32)> {
    sent(hand, |packet| match packet.message {
        Message::Ping { number } => Some((packet.to.id, number)),
        _ => None,
    })
}

/// Lets time pass until the first probe, and says whom it is for and its number.
fn first_probe(hand: &mut Hand) -> (u32, u32) {
    while pings(hand).is_empty() {
        hand.pass(Duration::from_millis(1));
    }
    let (target, number) = pings(hand)[0];
    (target.0, number)
}

#[test]
fn a_pass_probes_everybody_once_in_changing_order() {
    let mut hand = Hand::new(Config::lan(), 6);
    let mut passes = Vec::new();
    for _ in 0..8 {
        let mut pass = Vec::new();
        while pass.len() < 5 {
            hand.pass(Duration::from_millis(100));
            for packet in std::mem::take(&mut hand.sent) {
                // A seed is contacted too, by its address alone.
                if let Message::Ping { number } = packet.message
                    && packet.to.epoch.0 == 1
                {
                    pass.push(packet.to.id.0);
                    hand.hear(packet.to, Message::Ack { number }, Vec::new());
                }
            }
        }
        let mut everybody = pass.clone();
        everybody.sort_unstable();
        assert_eq!(everybody, [1, 2, 3, 4, 5]);
        passes.push(pass);
    }
    passes.dedup();
    assert!(passes.len() > 4, "the order hardly changes: {passes:?}");
}

#[test]
fn an_unanswered_probe_goes_to_helpers_and_a_stream() {
    let mut hand = Hand::new(Config::lan(), 6);
    let (target, number) = first_probe(&mut hand);
    hand.pass(Duration::from_millis(499));
    assert_eq!(hand.state(target), Some(State::Alive));
    hand.pass(Duration::from_millis(2));
    assert_eq!(hand.state(target), Some(State::ProbeFailed));
    let helpers = sent(&hand, |packet| match packet.message {
        Message::PingFor { number: asked, target: about, .. }
            if asked == number && about == node(target, 1) =>
        {
            Some(packet.to)
        }
        _ => None,
    });
    assert_eq!(helpers.len(), 3);
    assert!(helpers.iter().all(|helper| helper.id.0 != target));
    assert!(matches!(&hand.requests[..], [(_, Request::Ping { to, .. })] if *to == node(target, 1)));

    // A stranger's answer does not count, a helper's does.
    let stranger = (1..6).find(|id| *id != target && !helpers.contains(&node(*id, 1))).expect("one is left");
    hand.hear(node(stranger, 1), Message::Ack { number }, Vec::new());
    assert_eq!(hand.state(target), Some(State::ProbeFailed));
    hand.hear(helpers[0], Message::Ack { number }, Vec::new());
    assert_eq!(hand.state(target), Some(State::Alive));
}

#[test]
fn an_answer_over_a_stream_counts_if_it_is_the_right_start() {
    for (epoch, state) in [(1, State::Alive), (2, State::ProbeFailed)] {
        let mut hand = Hand::new(Config::lan(), 6);
        let (target, _) = first_probe(&mut hand);
        hand.pass(Duration::from_millis(501));
        let (ticket, _) = hand.requests.pop().expect("a stream is tried");
        hand.give(Input::Response(ticket, Some(Response::Pong(node(target, epoch)))));
        assert_eq!(hand.state(target), Some(state));
        // Whoever else is there is asked who it is.
        let compares = hand.requests.iter().filter(|(_, request)| matches!(request, Request::Compare { .. }));
        assert_eq!(compares.count(), usize::from(epoch == 2));
    }
}

#[test]
fn a_helper_passes_an_answer_on_or_says_that_there_is_none() {
    let mut hand = Hand::new(Config::lan(), 6);
    let question = Message::PingFor { number: 77, target: node(4, 1), addr: addr(4) };
    hand.hear(node(2, 1), question.clone(), Vec::new());
    let (to, number) = pings(&hand)[0];
    assert_eq!(to, NodeId(4));
    hand.pass(Duration::from_millis(410));
    let answers = |hand: &Hand| {
        sent(hand, |packet| {
            (packet.to == node(2, 1) && !matches!(packet.message, Message::Ping { .. }))
                .then(|| packet.message.clone())
        })
    };
    assert_eq!(answers(&hand), [Message::Nack { number: 77 }]);
    hand.hear(node(4, 1), Message::Ack { number }, Vec::new());
    assert_eq!(answers(&hand), [Message::Nack { number: 77 }, Message::Ack { number: 77 }], "late, but true");
    hand.hear(node(4, 1), Message::Ack { number }, Vec::new());
    assert_eq!(answers(&hand).len(), 2, "a repeated answer is not passed on twice");
}

#[test]
fn doubt_in_ourselves_stretches_our_times() {
    let mut hand = Hand::new(Config::lan(), 6);
    hand.give(Input::Lagged(SECOND * 10));
    assert_eq!(hand.machine.health(), 3);
    let (target, _) = first_probe(&mut hand);
    hand.pass(Duration::from_millis(1_999));
    assert_eq!(hand.state(target), Some(State::Alive), "four times the timeout");
    hand.pass(Duration::from_millis(2));
    assert_eq!(hand.state(target), Some(State::ProbeFailed));
    // Helpers who do not even say nack make it worse.
    hand.pass(SECOND * 3);
    assert_eq!(hand.machine.health(), 6);
}

#[test]
fn observers_decide() {
    // How many of the ten observers say bad, and what comes of it.
    for (bad, suspected, dead) in [(2, false, false), (3, true, false), (6, true, false), (7, true, true)] {
        let mut hand = Hand::new(Config::lan(), 30);
        let (target, _) = first_probe(&mut hand);
        hand.pass(Duration::from_millis(1_001));
        let asked = sent(&hand, |packet| match packet.message {
            Message::Ask { round, target: about, .. } if about.id.0 == target => Some((packet.to, round)),
            _ => None,
        });
        assert_eq!(asked.len(), 10);
        for (observer, round) in asked.iter().take(bad) {
            let opinion = Message::Opinion { round: *round, target: node(target, 1), view: View::Bad };
            hand.hear(*observer, opinion.clone(), Vec::new());
            hand.hear(*observer, opinion, Vec::new());
        }
        let was = |wanted: fn(&Event) -> bool| hand.events.iter().any(wanted);
        assert_eq!(was(|event| matches!(event, Event::Suspected(..))), suspected, "{bad} bad");
        assert_eq!(was(|event| matches!(event, Event::Dead(..))), dead, "{bad} bad");
        if dead {
            let reason = Reason::Opinions { bad: 8, of: 8 };
            assert!(hand.events.contains(&Event::Dead(node(target, 1), Incarnation(0), reason)));
        }
    }
}

#[test]
fn good_opinions_acquit() {
    let mut hand = Hand::new(Config::lan(), 30);
    let (target, _) = first_probe(&mut hand);
    hand.pass(Duration::from_millis(1_001));
    let health = hand.machine.health();
    let asked = sent(&hand, |packet| match packet.message {
        Message::Ask { round, .. } => Some((packet.to, round)),
        _ => None,
    });
    for (observer, round) in asked.iter().take(4) {
        assert_eq!(hand.state(target), Some(State::ProbeFailed));
        let opinion = Message::Opinion { round: *round, target: node(target, 1), view: View::Good };
        hand.hear(*observer, opinion, Vec::new());
    }
    assert_eq!(hand.state(target), Some(State::Alive));
    assert_eq!(hand.machine.health(), health + 1, "it was our link");
}

#[test]
fn all_ask_the_same_observers() {
    let observers = |random| {
        let mut world = super::world::World::formed(Config::lan(), random, 40);
        world.run(SECOND);
        world.crash(3);
        world.run(SECOND * 4);
        let asked = world.sent.iter().filter(|(_, _, packet)| matches!(packet.message, Message::Ask { .. }));
        let by = asked.clone().map(|(_, by, _)| *by).next().expect("somebody asks");
        let mut asked: Vec<u32> = asked.map(|(_, _, packet)| packet.to.id.0).collect();
        asked.sort_unstable();
        asked.dedup();
        (by, asked)
    };
    let (first_by, first) = observers(1);
    let (second_by, second) = observers(2);
    assert_ne!(first_by, second_by, "choose another pair of numbers for this test");
    let common = first.iter().filter(|id| second.contains(id)).count();
    // An asker does not ask itself, so one observer may be another for each.
    assert!(common >= 8, "{first:?} {second:?}");
}

#[test]
fn an_observer_measures_and_answers_all_who_asked() {
    for (answered, view) in [(4, View::Bad), (5, View::Good)] {
        let mut hand = Hand::new(Config::lan(), 6);
        for asker in [2, 3] {
            let ask =
                Message::Ask { round: asker, target: node(4, 1), addr: addr(4), incarnation: Incarnation(0) };
            hand.hear(node(asker, 1), ask, Vec::new());
        }
        let mut acked = 0;
        for _ in 0..30 {
            hand.pass(Duration::from_millis(100));
            hand.hear(node(1, 1), Message::Gossip, Vec::new());
            for packet in hand.sent.clone() {
                if let Message::Ping { number } = packet.message
                    && packet.to.id.0 == 4
                    && acked < answered
                {
                    acked += 1;
                    hand.sent.retain(|sent| sent.message != packet.message);
                    hand.hear(node(4, 1), Message::Ack { number }, Vec::new());
                }
            }
        }
        let opinions = sent(&hand, |packet| match packet.message {
            Message::Opinion { round, view, .. } => Some((packet.to.id.0, round, view)),
            _ => None,
        });
        assert_eq!(opinions, [(2, 2, view), (3, 3, view)], "{answered} of 16 answered");
    }
}

#[test]
fn an_observer_that_hears_nobody_cannot_tell() {
    let mut hand = Hand::new(Config::lan(), 6);
    let ask = Message::Ask { round: 1, target: node(4, 1), addr: addr(4), incarnation: Incarnation(0) };
    hand.hear(node(2, 1), ask, Vec::new());
    hand.pass(SECOND * 3);
    let opinions = sent(&hand, |packet| match packet.message {
        Message::Opinion { view, .. } => Some(view),
        _ => None,
    });
    assert_eq!(opinions, [View::Unable]);
}

#[test]
fn suspicions_last_as_lifeguard_says() {
    // Accusers beyond the first, and how long it takes in seconds: α = 2, β = 6, four members.
    for (confirmed, least, most) in [(0, 11.9, 12.1), (1, 5.6, 5.8), (2, 1.9, 2.1)] {
        let mut hand = Hand::new(Config::lifeguard(2.0, 6.0), 4);
        let start = hand.now;
        for by in 0..=confirmed {
            let mut suspect = update(2, 1, 0, Status::Suspect);
            suspect.by = NodeId(20 + by);
            hand.hear(node(1, 1), Message::Gossip, vec![suspect.clone(), suspect]);
        }
        while hand.state(2) == Some(State::Suspected) {
            hand.pass_answered(Duration::from_millis(100), &[1, 2, 3]);
        }
        let took = hand.now.since(start).as_secs_f64();
        assert!((least..=most + 0.1).contains(&took), "{confirmed} confirmations: {took} s");
        assert_eq!(hand.state(2), Some(State::Dead));
    }
}

#[test]
fn a_suspect_is_told_first_of_all() {
    let mut hand = Hand::new(Config::lan(), 3);
    hand.rumour(2, 1, 0, Status::Suspect);
    hand.pass_hearing(SECOND * 3);
    hand.hear(node(2, 1), Message::Ping { number: 1 }, Vec::new());
    let answer = hand.sent.pop().expect("an answer");
    assert_eq!(answer.message, Message::Ack { number: 1 });
    assert_eq!((answer.updates[0].node, answer.updates[0].status), (node(2, 1), Status::Suspect));
}

#[test]
fn who_accuses_too_many_suspects_itself() {
    let config = Config { accusations_per_period: 100, health_max: 0, ..Config::fast() };
    let mut hand = Hand::new(config, 12);
    // Node 1 is heard, but nobody answers.
    for _ in 0..100 {
        hand.pass(Duration::from_millis(50));
        hand.hear(node(1, 1), Message::Gossip, Vec::new());
    }
    assert!(hand.machine.is_lonely());
    assert_eq!(hand.events, [Event::Lonely]);
    // Node 1 answers, and has the same opinion: it was not us after all.
    for _ in 0..1_000 {
        hand.pass(Duration::from_millis(50));
        for packet in std::mem::take(&mut hand.sent) {
            match packet.message {
                Message::Ping { number } if packet.to.id.0 == 1 => {
                    hand.hear(packet.to, Message::Ack { number }, Vec::new());
                }
                Message::Ask { round, target, .. } if packet.to.id.0 == 1 => {
                    let opinion = Message::Opinion { round, target, view: View::Bad };
                    hand.hear(packet.to, opinion, Vec::new());
                }
                _ => {}
            }
        }
    }
    let dead = hand.events.iter().filter(|event| matches!(event, Event::Dead(..)));
    assert_eq!(dead.count(), 10);
}

#[test]
fn a_mark_ahead_of_ours_is_told_once() {
    let mut hand = Hand::new(Config::lan(), 4);
    hand.give(Input::SetMark(Mark { epoch: 1, index: 10 }));
    for index in [9, 10, 12, 11, 12, 13] {
        let packet = crate::Packet {
            from: node(1, 1),
            to: node(0, 1),
            digest: hand.machine.digest(),
            mark: Mark { epoch: 1, index },
            message: Message::Gossip,
            updates: Vec::new(),
        };
        hand.give(Input::Datagram(addr(1), packet));
    }
    let ahead = |index| Event::LogAhead(NodeId(1), Mark { epoch: 1, index });
    assert_eq!(hand.events, [ahead(12), ahead(13)]);
}

#[test]
fn a_full_table_takes_nobody_in_and_says_so() {
    let mut hand = Hand::new(Config { members_max: 5, ..Config::lan() }, 4);
    for id in 10..20 {
        hand.rumour(id, 1, 0, Status::Alive);
    }
    assert_eq!(hand.events, [Event::Joined(node(10, 1)), Event::Full(node(11, 1))]);
    assert_eq!(hand.machine.members().count(), 5);
}

#[test]
fn what_a_node_tells_of_itself_is_known_to_all() {
    let mut world = super::world::World::formed(Config::lan(), 3, 16);
    world.run(SECOND);
    world.give(5, Input::SetMeta(bytes::Bytes::from_static(b"new")));
    world.run(SECOND * 4);
    assert!(world.machines.values().all(|machine| {
        machine.member(NodeId(5)).is_some_and(|member| member.info.meta == "new" && member.incarnation.0 == 1)
    }));
    assert_eq!(world.count_events(|event| matches!(event, Event::Changed(_))), 15);
}

#[test]
fn a_member_takes_no_more_room_than_planned() {
    assert_eq!(size_of::<crate::table::Entry>(), 32);
}
