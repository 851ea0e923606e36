//! Each deliberate bug is noticed by a scenario that holds without it.

use std::time::Duration;

use model::splitmix::SplitMix;

use super::hand::{Hand, update};
use super::world::{World, addr, node};
use crate::{
    Config, Epoch, Event, Incarnation, Info, Input, Mark, Message, Mutation, NodeId, PACKET_BYTES_MAX, State,
    Status, Update,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn every_mutation_is_noticed() {
    for mutation in Mutation::ALL {
        let scenario = scenario(mutation);
        assert!(scenario(None), "{mutation:?}: the scenario fails without the bug");
        assert!(!scenario(Some(mutation)), "{mutation:?} goes unnoticed");
    }
}

/// What must hold, and does not with this bug.
fn scenario(mutation: Mutation) -> fn(Option<Mutation>) -> bool {
    match mutation {
        Mutation::IncarnationNotMonotone => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(2, 1, 10, Status::Dead);
            hand.rumour(2, 1, 2, Status::Alive);
            hand.state(2) == Some(State::Dead)
        },
        Mutation::SuspicionTimerIgnoresRefutation => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(2, 1, 0, Status::Suspect);
            hand.rumour(2, 1, 1, Status::Alive);
            hand.pass_answered(SECOND * 60, &[1, 2, 3]);
            hand.state(2) == Some(State::Alive)
        },
        Mutation::NeverRefutes => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(0, 1, 0, Status::Suspect);
            hand.machine.incarnation() == Incarnation(1)
        },
        Mutation::LeftForgotten => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(2, 1, 0, Status::Left);
            hand.rumour(2, 1, 5, Status::Alive);
            hand.state(2) == Some(State::Left)
        },
        Mutation::DigestSkipsDeath => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            let before = hand.machine.digest();
            hand.rumour(2, 1, 0, Status::Dead);
            hand.machine.digest() != before
        },
        Mutation::UnboundedPiggyback => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            let news: Vec<Update> = (100..180).map(|id| update(id, 1, 0, Status::Alive)).collect();
            hand.hear(node(1, 1), Message::Gossip, news);
            hand.pass(SECOND);
            hand.sent.iter().all(|packet| {
                let updates: usize = packet.updates.iter().map(Update::bytes_max).sum();
                PACKET_BYTES_MAX + updates <= Config::lan().datagram_bytes_max
            })
        },
        // Two nodes that do not reach each other, and nobody else to blame.
        Mutation::OpinionsIgnored => |broken| {
            let config = Config { helpers: 0, stream_ping: false, ..Config::lan() };
            let mut world = World::formed_broken(config, 4, 8, broken);
            world.part(1..2, 2..3);
            world.run(SECOND * 60);
            world.count_events(|event| matches!(event, Event::Dead(..))) == 0
        },
        // One that hears nobody while everybody hears it.
        Mutation::DeafCondemns => |broken| {
            let mut world = World::formed_broken(Config::lan(), 4, 8, broken);
            world.run(SECOND * 3);
            world.cuts.extend((0..8).filter(|id| *id != 3).map(|id| (id, 3)));
            world.run(SECOND * 200);
            !world.events.iter().any(|(_, by, event)| *by == 3 && matches!(event, Event::Dead(..)))
        },
        Mutation::EpochIgnored => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(2, 2, 0, Status::Alive);
            hand.rumour(2, 1, 9, Status::Alive);
            hand.machine.member(NodeId(2)).is_some_and(|member| member.identity == node(2, 2))
        },
        Mutation::GossipForever => |broken| {
            let mut world = World::formed_broken(Config::lan(), 4, 8, broken);
            world.crash(7);
            world.run(SECOND * 60);
            world.sent.clear();
            world.run(SECOND * 10);
            !world.sent.iter().any(|(_, _, packet)| packet.message == Message::Gossip)
        },
        Mutation::LeaderIgnoresDeaths => |broken| {
            let mut world = World::formed_broken(Config::lan(), 4, 4, broken);
            world.crash(0);
            world.run(SECOND * 30);
            world.machines.values().all(|machine| machine.leader_preference() == NodeId(1))
        },
        Mutation::ForgetsSeeds => |broken| {
            let mut world = World::formed_broken(Config::lan(), 4, 8, broken);
            world.part(0..4, 4..8);
            world.run(SECOND * 60);
            world.cuts.clear();
            world.run_while(SECOND * 60, World::all_see_all).is_some()
        },
        Mutation::HoldDownSkipped => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(2, 1, 3, Status::Unreliable);
            hand.rumour(2, 1, 4, Status::Alive);
            hand.state(2) == Some(State::Dead)
        },
        Mutation::SleepCondemns => |broken| {
            let mut hand = Hand::broken(Config::lifeguard(4.0, 6.0), 4, broken);
            hand.rumour(2, 1, 0, Status::Suspect);
            hand.now = hand.now + SECOND * 1_000;
            hand.pass(SECOND / 10);
            hand.state(2) != Some(State::Dead)
        },
        Mutation::LagIgnored => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.give(Input::Lagged(SECOND));
            hand.machine.health() > 0
        },
        Mutation::InfoKept => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            let mut moved = update(2, 1, 1, Status::Alive);
            let info = Info { addr: addr(99), meta: vec![7].into() };
            moved.info = Some(info.clone().into());
            hand.hear(node(1, 1), Message::Gossip, vec![moved]);
            hand.machine.member(NodeId(2)).is_some_and(|member| *member.info == info)
        },
        Mutation::MarkIgnored => |broken| {
            let mut world = World::formed_broken(Config::lan(), 4, 4, broken);
            let mark = Mark { epoch: 1, index: 7 };
            world.give(2, Input::SetMark(mark));
            world.run(SECOND * 10);
            world.count_events(|event| *event == Event::LogAhead(NodeId(2), mark)) == 3
        },
        Mutation::StaysExpelled => |broken| {
            let mut hand = Hand::broken(Config::lan(), 4, broken);
            hand.rumour(0, 2, 0, Status::Alive);
            hand.machine.superseded_by() == Some(Epoch(2))
        },
        // A fifth of all links is dead in one direction.
        Mutation::BadLinksIgnored => |broken| {
            let mut world = World::formed_broken(Config::lan(), 5, 64, broken);
            let mut random = SplitMix::new(11);
            for from in 0..64 {
                world.cuts.extend((0..64).filter(|_| random.index(5) == 0).map(|to| (from, to)));
            }
            world.run(SECOND * 300);
            world.count_events(|event| matches!(event, Event::Dead(..))) < 64
        },
        Mutation::FloodsNews => |broken| {
            let mut hand = Hand::broken(Config::lan(), 12, broken);
            let news: Vec<Update> = (100..110).map(|id| update(id, 1, 0, Status::Alive)).collect();
            hand.hear(node(1, 1), Message::Gossip, news);
            hand.sent.len() < 12
        },
        // One that hardly answers is out after a while, and stays so.
        Mutation::VouchesUnseen => |broken| {
            let mut world = World::formed_broken(Config::lan(), 3, 32, broken);
            world.egress_loss_percent.insert(7, 80);
            world.run(SECOND * 60);
            (0..120).all(|_| {
                world.run(SECOND);
                world.all_see(7, State::Dead)
            })
        },
    }
}
