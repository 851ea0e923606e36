//! Laws over random sequences of inputs, sensible and not.

use std::collections::BTreeMap;
use std::time::Duration;

use model::splitmix::SplitMix;

use super::hand::Hand;
use super::world::{addr, info, node};
use crate::{
    Config, Event, Identity, Incarnation, Input, Mark, Message, NodeId, PACKET_BYTES_MAX, Packet, Request,
    Response, Status, Ticket, Update, View,
};

const NODES: usize = 12;
const OUTPUTS_PER_INPUT_MAX: usize = 2_000;

struct Chance(SplitMix);

impl Chance {
    fn identity(&mut self) -> Identity {
        node(self.0.index(NODES) as u32, 1 + self.0.index(3) as u32 / 2)
    }

    fn update(&mut self) -> Update {
        use Status::{Alive, Dead, Left, Suspect, Unreliable};
        let node = self.identity();
        let status = [Alive, Alive, Alive, Suspect, Suspect, Dead, Dead, Unreliable, Left][self.0.index(9)];
        // An own epoch that ended would end the sequence at once.
        let status = if node.id.0 == 0 && status == Left { Suspect } else { status };
        let node = if node.id.0 == 0 { super::world::node(0, 1) } else { node };
        Update {
            node,
            incarnation: Incarnation(self.0.index(6) as u32),
            status,
            by: NodeId(self.0.index(NODES) as u32),
            info: (self.0.index(5) > 0).then(|| std::sync::Arc::new(info(node.id.0))),
        }
    }

    fn updates(&mut self, most: usize) -> Vec<Update> {
        (0..self.0.index(most + 1)).map(|_| self.update()).collect()
    }

    fn message(&mut self, hand: &Hand) -> Message {
        // Numbers that the machine has given out itself are the ones that do something.
        let known = hand.sent.iter().rev().take(20).filter_map(|packet| match packet.message {
            Message::Ping { number } | Message::PingFor { number, .. } => Some(number),
            Message::Ask { round, .. } => Some(round),
            _ => None,
        });
        let known: Vec<u32> = known.collect();
        let number = if known.is_empty() { self.0.next() as u32 } else { known[self.0.index(known.len())] };
        let target = self.identity();
        let view = [View::Good, View::Bad, View::Bad, View::Unable][self.0.index(4)];
        match self.0.index(9) {
            0 => Message::Ping { number },
            1 | 2 => Message::Ack { number },
            3 => Message::PingFor { number, target, addr: addr(target.id.0) },
            4 => Message::Nack { number },
            5 => {
                let incarnation = Incarnation(self.0.index(4) as u32);
                Message::Ask { round: number, target, addr: addr(target.id.0), incarnation }
            }
            6 => Message::Opinion { round: number, target, view },
            7 => Message::Gossip,
            _ => Message::NotMe,
        }
    }

    fn input(&mut self, hand: &Hand) -> Input {
        let from = self.identity();
        let from = if from.id.0 == 0 { node(1, 1) } else { from };
        let ticket = Ticket(self.0.index(200) as u64);
        match self.0.index(12) {
            0 => {
                let buckets = (0..1 << self.0.index(5)).map(|_| self.0.next()).collect();
                let mut asker = self.update();
                asker.status = Status::Alive;
                Input::Request(ticket, addr(1), Request::Compare { from: asker, buckets })
            }
            1 => Input::Request(ticket, addr(1), Request::Push { from, entries: self.updates(8) }),
            2 => {
                let buckets = (0..self.0.index(4)).map(|_| self.0.index(40) as u32).collect();
                let answer = Response::Differences { from, buckets, entries: self.updates(8) };
                let ticket = hand.requests.last().map_or(ticket, |(ticket, _)| *ticket);
                Input::Response(ticket, Some(answer))
            }
            3 => {
                let answers = [Some(Response::Pong(from)), Some(Response::Busy), None, Some(Response::Done)];
                let ticket = hand.requests.last().map_or(ticket, |(ticket, _)| *ticket);
                Input::Response(ticket, answers[self.0.index(4)].clone())
            }
            4 if self.0.index(10) == 0 => Input::Expel(from),
            5 if self.0.index(10) == 0 => Input::Lagged(Duration::from_millis(self.0.index(3_000) as u64)),
            _ => {
                let message = self.message(hand);
                let packet = Packet {
                    from,
                    to: if self.0.index(20) == 0 { node(5, 1) } else { node(0, 1) },
                    digest: if self.0.index(2) == 0 { hand.machine.digest() } else { self.0.next() },
                    mark: Mark { epoch: 1, index: self.0.index(9) as u64 },
                    message,
                    updates: self.updates(4),
                };
                Input::Datagram(addr(from.id.0), packet)
            }
        }
    }
}

#[test]
fn laws_hold_over_random_sequences() {
    let mut deaths = 0;
    for start in 0..300 {
        let mut chance = Chance(SplitMix::new(start));
        let config = if start % 3 == 0 { Config::lifeguard(2.0, 6.0) } else { Config::lan() };
        let datagram_bytes_max = config.datagram_bytes_max;
        let mut hand = Hand::new(config, 1 + (start % 9) as u32);
        let mut highest: BTreeMap<NodeId, (Identity, Incarnation)> = BTreeMap::new();
        let mut left = Vec::new();
        let mut own = Incarnation(0);
        for _ in 0..400 {
            let before = (hand.sent.len(), hand.requests.len());
            if chance.0.index(3) == 0 {
                hand.pass(Duration::from_millis(chance.0.index(700) as u64));
            } else {
                let input = chance.input(&hand);
                hand.give(input);
            }
            let outputs = hand.sent.len() + hand.requests.len() - before.0 - before.1;
            assert!(outputs <= OUTPUTS_PER_INPUT_MAX, "{outputs} outputs at once ({start})");
            for packet in &hand.sent[before.0..] {
                let bytes = PACKET_BYTES_MAX + packet.updates.iter().map(Update::bytes_max).sum::<usize>();
                assert!(bytes <= datagram_bytes_max, "a datagram of {bytes} bytes ({start})");
            }
            // Our own incarnation and everybody's (epoch, incarnation) only grow; who left in an epoch stays so.
            assert!(hand.machine.incarnation() >= own, "ours went back ({start})");
            own = hand.machine.incarnation();
            let mut present = Vec::new();
            for member in hand.machine.members() {
                let id = member.identity.id;
                if id.0 != 0 {
                    let now = (member.identity, member.incarnation);
                    let seen = highest.entry(id).or_insert(now);
                    assert!(now >= *seen, "{now:?} after {seen:?} ({start})");
                    *seen = now;
                }
                assert!(
                    !(member.state.is_present() && left.contains(&member.identity)),
                    "{member:?} {:?} ({start})",
                    hand.events
                );
                if member.state.is_present() {
                    present.push((member.identity, member.incarnation));
                }
            }
            // The digest is what it would be if computed anew.
            let digest = present
                .iter()
                .fold(0, |digest, (who, incarnation)| digest ^ crate::table::hash_of(*who, *incarnation));
            assert_eq!(hand.machine.digest(), digest, "{start}");
            assert!(hand.machine.next_deadline().is_none_or(|due| due >= hand.now), "{start}");
            left.extend(hand.events.iter().filter_map(|event| match event {
                Event::Left(who) => Some(*who),
                _ => None,
            }));
            deaths += hand.events.iter().filter(|event| matches!(event, Event::Dead(..))).count();
            hand.events.clear();
        }
    }
    assert!(deaths > 1_000, "the sequences hardly do anything: {deaths} deaths");
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let run = || {
        let mut world = super::world::World::formed(Config::lan(), 42, 24);
        world.loss_percent = 20;
        world.run(Duration::from_secs(20));
        world.crash(3);
        world.run(Duration::from_secs(20));
        (world.sent, world.events)
    };
    assert!(run() == run());
}
