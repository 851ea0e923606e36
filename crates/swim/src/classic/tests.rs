//! The five steps, the three timeouts, and where the source leaves a gap.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Instant;

use super::Classic;
use super::machine::Peer;
use super::steps::place_of;
use crate::config::Config;
use crate::identity::{Epoch, Identity, Incarnation, Info, NodeId, SharedInfo};
use crate::io::{Event, Input, Output, Reason, State};
use crate::message::{Mark, Message, Packet, Request, Response, Status, Update};

const US: u32 = 1;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn node(id: u32) -> Identity {
    Identity { id: NodeId(id), epoch: Epoch(1) }
}

fn addr(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 0], 1_000 + id as u16))
}

fn info(id: u32) -> Info {
    Info { addr: addr(id), meta: Bytes::new() }
}

/// Node 1 in a cluster of so many, from the beginning of time.
struct Test {
    machine: Classic,
    events: Vec<(u64, Event)>,
    sent: Vec<(u64, u32, Message)>,
    /// These answer pings at once.
    answering: Vec<u32>,
    now: u64,
}

impl Test {
    fn of(nodes: u32) -> Test {
        let mut machine = Classic::new(at(0), Arc::new(Config::classic()), node(US), info(US), Vec::new(), 7);
        let members: Vec<(Identity, SharedInfo)> =
            (1..=nodes).map(|id| (node(id), SharedInfo::new(info(id)))).collect();
        machine.know(&members);
        machine.next_tick = at(0);
        machine.salt = salt_in_order_of_ids();
        Test { machine, events: Vec::new(), sent: Vec::new(), answering: (2..=nodes).collect(), now: 0 }
    }

    fn hear(&mut self, from: u32, message: Message) {
        self.hear_with(from, message, Vec::new());
    }

    fn hear_with(&mut self, from: u32, message: Message, updates: Vec<Update>) {
        let packet = Packet {
            from: node(from),
            to: self.machine.me(),
            digest: 0,
            mark: Mark::default(),
            message,
            updates,
        };
        self.machine.handle(at(self.now), Input::Datagram(addr(from), packet));
        self.drain();
    }

    /// Lets time pass until `millis`, included.
    fn run_to(&mut self, millis: u64) {
        while let Some(next) = self.machine.next_deadline().filter(|next| *next <= at(millis)) {
            self.now = next.as_nanos() / 1_000_000;
            self.machine.handle_deadline(next);
            self.drain();
        }
        self.now = millis;
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Event(event) => self.events.push((self.now, event)),
                Output::Send(to, packet) => {
                    let to = u32::from(to.port()) - 1_000;
                    self.sent.push((self.now, to, packet.message.clone()));
                    if let Message::Ping { number } = packet.message
                        && self.answering.contains(&to)
                    {
                        self.hear(to, Message::Ack { number });
                    }
                }
                Output::Request(..) | Output::Respond(..) => {}
            }
        }
    }

    fn state(&self, id: u32) -> State {
        self.machine.member(NodeId(id)).expect("a member").state
    }

    /// Whom we pinged, in order.
    fn pinged(&self) -> Vec<(u64, u32)> {
        let pings = self.sent.iter().filter(|(_, _, message)| matches!(message, Message::Ping { .. }));
        pings.map(|(at, to, _)| (*at, *to)).collect()
    }

    /// Who was asked to help, and the number of the question.
    fn helpers(&self) -> Vec<(u32, u32)> {
        let asked = |(_, to, message): &(u64, u32, Message)| match message {
            Message::PingFor { number, .. } => Some((*to, *number)),
            _ => None,
        };
        self.sent.iter().filter_map(asked).collect()
    }

    fn silence(&mut self, id: u32) {
        self.answering.retain(|other| *other != id);
    }
}

/// With this salt a node's own order of the first few is that of their ids.
fn salt_in_order_of_ids() -> u64 {
    let ordered = |salt: &u64| (2..=6).map(|id| place_of(*salt, NodeId(id))).is_sorted();
    (0..).find(ordered).expect("one in a hundred and twenty does")
}

/// Sixteen nodes that begin together and know each other, each with its own luck: whom each pings, and when.
fn first_round_of_sixteen() -> Vec<Vec<(u64, u32)>> {
    let members: Vec<(Identity, SharedInfo)> =
        (1..=16).map(|id| (node(id), SharedInfo::new(info(id)))).collect();
    let one = |id: u32| {
        let config = Arc::new(Config::classic());
        let mut machine = Classic::new(at(0), config, node(id), info(id), Vec::new(), u64::from(id) * 77);
        machine.know(&members);
        let answering = (1..=16).filter(|other| *other != id).collect();
        let mut test = Test { machine, events: Vec::new(), sent: Vec::new(), answering, now: 0 };
        test.run_to(30_000);
        test.pinged().into_iter().take(15).collect()
    };
    (1..=16).map(one).collect()
}

#[test]
fn nodes_that_begin_together_probe_neither_at_one_moment_nor_in_one_order() {
    let rounds = first_round_of_sixteen();
    for (number, round) in (1..).zip(&rounds) {
        let mut targets: Vec<u32> = round.iter().map(|(_, to)| *to).collect();
        targets.sort_unstable();
        let others: Vec<u32> = (1..=16).filter(|other| *other != number).collect();
        assert_eq!(targets, others, "each of the others once in a round of {number}");
    }
    let mut phases: Vec<u64> = rounds.iter().map(|round| round[0].0).collect();
    phases.sort_unstable();
    assert!(phases[15] - phases[0] > 1_000, "spread over the tick: {phases:?}");
    for target in 1..=16 {
        let within = |tick: u64| {
            let of_tick = |(at, to): &&(u64, u32)| *to == target && at / 2_000 == tick;
            rounds.iter().flatten().filter(of_tick).count()
        };
        let most = (0..15).map(within).max().expect("ticks");
        assert!(most <= 6, "{most} probe {target} in one tick");
    }
}

#[test]
fn the_dead_are_asked_again_and_when_one_speaks_the_next_is_asked_at_once() {
    let mut test = Test::of(6);
    (2..=6).for_each(|id| test.silence(id));
    test.run_to(60_000);
    assert_eq!(test.machine.counts().dead, 5);
    test.sent.clear();
    test.run_to(160_000);
    let asked: Vec<u32> = test.pinged().into_iter().map(|(_, to)| to).collect();
    assert!((6..=10).contains(&asked.len()), "two of three times, each ten seconds: {asked:?}");
    assert!((2..=6).all(|id| asked.contains(&id)), "each in turn: {asked:?}");
    test.answering = (2..=6).collect();
    test.run_to(184_000);
    assert_eq!(test.machine.counts().dead, 0, "after ten seconds one, and then one each tick");
    assert!(!test.machine.is_lonely());
}

#[test]
fn a_seed_at_whose_address_nobody_is_seen_is_asked_for_ever() {
    let mut test = Test::of(3);
    test.machine.seeds = vec![addr(2), addr(70)];
    let mut asked = Vec::new();
    while test.now < 100_000 {
        let next = test.machine.next_deadline().expect("there always is one");
        test.now = next.as_nanos() / 1_000_000;
        test.machine.handle_deadline(next);
        while let Some(output) = test.machine.poll_output() {
            match output {
                Output::Send(to, Packet { message: Message::Ping { number }, .. }) => {
                    test.hear(u32::from(to.port()) - 1_000, Message::Ack { number });
                }
                Output::Request(ticket, to, _) => {
                    asked.push(to);
                    test.machine.handle(next, Input::Response(ticket, None));
                }
                _ => {}
            }
        }
    }
    let of = |id: u32| asked.iter().filter(|to| **to == addr(id)).count();
    assert!((6..=10).contains(&of(70)), "two of three times, each ten seconds: {asked:?}");
    assert!(of(2) > 0 && of(3) > 0 && of(2) + of(3) <= 5, "and lists are compared in turn: {asked:?}");
}

#[test]
fn probes_go_round_one_each_tick() {
    let mut test = Test::of(4);
    test.run_to(8_000);
    assert_eq!(test.pinged(), [(0, 2), (2_000, 3), (4_000, 4), (6_000, 2), (8_000, 3)]);
    assert_eq!(test.events, []);
}

#[test]
fn from_our_probe_to_the_verdict_it_is_eighteen_seconds() {
    let mut test = Test::of(5);
    test.silence(2);
    for (millis, state) in [
        (4_999, State::Alive),
        (5_000, State::ProbeFailed),
        (7_999, State::ProbeFailed),
        (8_000, State::Suspected),
        (17_999, State::Suspected),
        (18_000, State::Dead),
    ] {
        test.run_to(millis);
        assert_eq!(test.state(2), state, "at {millis} ms");
    }
    let suspected = Event::Suspected(node(2), Incarnation(0), Reason::NoAnswer);
    let dead = Event::Dead(node(2), Incarnation(0), Reason::NotRefuted);
    assert_eq!(test.events, [(8_000, suspected), (18_000, dead)]);
}

#[test]
fn the_times_are_what_the_configuration_says() {
    let mut test = Test::of(5);
    let mut config = Config::classic();
    config.probe_timeout = Duration::from_secs(1);
    config.classic.helper_timeout = Duration::from_millis(500);
    config.classic.suspicion = Duration::from_secs(2);
    test.machine.config = Arc::new(config);
    test.silence(2);
    for (millis, state) in [(1_000, State::ProbeFailed), (1_500, State::Suspected), (3_500, State::Dead)] {
        test.run_to(millis - 1);
        assert_ne!(test.state(2), state, "before {millis} ms");
        test.run_to(millis);
        assert_eq!(test.state(2), state, "at {millis} ms");
    }
}

#[test]
fn those_who_failed_are_suspected_or_dead_are_not_probed_again() {
    let mut test = Test::of(4);
    test.silence(2);
    test.run_to(40_000);
    let to_it = test.pinged().into_iter().filter(|(_, to)| *to == 2).map(|(at, _)| at);
    let again: Vec<u64> = to_it.filter(|at| *at < 18_000).collect();
    assert_eq!(again, [0], "the probe at 0 is open until 5 s, and then its state says enough");
    let others = test.pinged().into_iter().filter(|(at, to)| *at > 6_000 && *to != 2).count();
    assert_eq!(others, 17, "each tick has its probe");
}

#[test]
fn three_helpers_are_asked_who_are_alive_and_neither_the_target_nor_we() {
    let mut test = Test::of(6);
    test.silence(2);
    test.run_to(5_000);
    let mut helpers: Vec<u32> = test.helpers().into_iter().map(|(helper, _)| helper).collect();
    helpers.sort_unstable();
    helpers.dedup();
    assert_eq!(helpers.len(), 3);
    assert!(helpers.iter().all(|helper| (3..=6).contains(helper)), "{helpers:?}");
}

#[test]
fn an_answer_through_one_helper_is_enough() {
    let mut test = Test::of(5);
    test.silence(2);
    test.run_to(5_500);
    let [(first, number), (second, _), _] = test.helpers()[..] else { panic!("three helpers") };
    test.hear(first, Message::Nack { number });
    assert_eq!(test.state(2), State::ProbeFailed);
    test.hear(second, Message::Ack { number });
    assert_eq!(test.state(2), State::Alive);
    test.answering.push(2);
    test.run_to(30_000);
    assert_eq!(test.events, [], "the other helpers' time is over, and that means nothing any more");
}

#[test]
fn when_the_last_helper_has_said_no_nothing_is_waited_for() {
    let mut test = Test::of(5);
    test.silence(2);
    test.run_to(5_500);
    for (helper, number) in test.helpers() {
        assert_eq!(test.state(2), State::ProbeFailed);
        test.hear(helper, Message::Nack { number });
    }
    assert_eq!(test.state(2), State::Suspected);
    test.run_to(15_500);
    assert_eq!(test.state(2), State::Dead, "ten seconds after the suspicion");
}

#[test]
fn with_nobody_to_help_the_direct_evidence_is_enough() {
    let mut test = Test::of(2);
    test.silence(2);
    test.run_to(4_999);
    assert_eq!(test.state(2), State::Alive);
    test.run_to(5_000);
    assert_eq!(test.state(2), State::Suspected);
    test.run_to(15_000);
    assert_eq!(test.state(2), State::Dead);
}

#[test]
fn a_node_fences_itself_when_most_others_are_suspected_or_dead() {
    // (nodes, how many others may be bad without a fence)
    for (nodes, harmless) in [(2, 0), (3, 1), (4, 1), (5, 2)] {
        for bad in 0..nodes {
            let mut test = Test::of(nodes);
            (0..bad).for_each(|number| test.silence(2 + number));
            // Everybody is probed and judged by then.
            test.run_to(60_000);
            let is_fenced = bad > harmless;
            assert_eq!(test.machine.is_lonely(), is_fenced, "{bad} of {} others", nodes - 1);
            let told = test.events.iter().filter(|(_, event)| *event == Event::Lonely).count();
            assert_eq!(told, usize::from(is_fenced), "{bad} of {} others", nodes - 1);
        }
    }
}

#[test]
fn a_failed_probe_alone_does_not_count_for_the_fence() {
    let mut test = Test::of(3);
    test.silence(2);
    test.silence(3);
    test.run_to(7_999);
    assert_eq!(
        (test.state(2), test.state(3)),
        (State::ProbeFailed, State::Suspected),
        "3 has nobody to help"
    );
    assert!(!test.machine.is_lonely());
    test.run_to(8_000);
    assert!(test.machine.is_lonely());
}

#[test]
fn who_speaks_again_is_alive_and_the_fence_falls() {
    let mut test = Test::of(2);
    test.silence(2);
    test.run_to(20_000);
    assert!(test.machine.is_lonely());
    test.answering.push(2);
    test.hear(2, Message::Ping { number: 9 });
    assert_eq!((test.state(2), test.machine.is_lonely()), (State::Alive, false));
    let last: Vec<Event> = test.events.iter().rev().take(2).map(|(_, event)| event.clone()).collect();
    assert_eq!(last, [Event::Reunited, Event::Refuted(node(2), Incarnation(0))]);
}

#[test]
fn a_suspect_that_speaks_waits_for_its_verdict() {
    let mut test = Test::of(5);
    test.silence(2);
    test.run_to(9_000);
    test.hear(2, Message::Ping { number: 9 });
    assert_eq!(test.state(2), State::Suspected, "there is no way back");
    test.run_to(18_000);
    assert_eq!(test.state(2), State::Dead);
}

#[test]
fn we_ask_for_others_and_say_how_it_went() {
    let mut test = Test::of(4);
    for (target, answer) in [(3, Message::Ack { number: 70 }), (4, Message::Nack { number: 70 })] {
        test.silence(4);
        test.sent.clear();
        test.hear(2, Message::PingFor { number: 70, target: node(target), addr: addr(target) });
        let begun = test.now;
        assert_eq!(test.pinged(), [(begun, target)]);
        test.run_to(begun + 3_000);
        assert!(test.sent.contains(&(test.now.min(begun + if target == 3 { 0 } else { 3_000 }), 2, answer)));
    }
}

#[test]
fn the_leader_is_the_lowest_that_is_alive() {
    let mut machine = Classic::new(at(0), Arc::new(Config::classic()), node(5), info(5), Vec::new(), 7);
    let members: Vec<(Identity, SharedInfo)> =
        [2, 5, 9].map(|id| (node(id), SharedInfo::new(info(id)))).into_iter().collect();
    machine.know(&members);
    assert_eq!(machine.leader_preference(), NodeId(2));
    machine.set_state(at(1), NodeId(2), State::Suspected);
    assert_eq!(machine.leader_preference(), NodeId(5));
}

#[test]
fn equal_lists_are_not_sent_and_others_bring_whom_we_do_not_know() {
    let (mut one, mut other) = (Test::of(4).machine, Test::of(5).machine);
    other.me = node(4);
    other.peers.remove(&NodeId(4));
    let us = Peer {
        identity: node(US),
        incarnation: Incarnation(0),
        info: SharedInfo::new(info(US)),
        state: State::Alive,
        state_changed_at: at(0),
    };
    other.peers.insert(NodeId(US), us);
    let mut entries_told = Vec::new();
    for _ in 0..2 {
        one.strangers.push_back(addr(4));
        one.introduce();
        let sent = std::iter::from_fn(|| one.poll_output()).find_map(|output| match output {
            Output::Request(ticket, to, request) if to == addr(4) => Some((ticket, request)),
            _ => None,
        });
        let (ticket, request) = sent.expect("a comparison");
        other.handle(at(1), Input::Request(ticket, addr(US), request));
        let answer = std::iter::from_fn(|| other.poll_output()).find_map(|output| match output {
            Output::Respond(_, response) => Some(response),
            _ => None,
        });
        if let Some(Response::Differences { entries, .. }) = &answer {
            entries_told.push(entries.len());
        }
        one.handle(at(1), Input::Response(ticket, answer));
    }
    assert_eq!(entries_told, [5, 1]);
    assert_eq!(one.counts().alive, 5, "node 5 is known now");
}

#[test]
fn a_farewell_is_no_death() {
    let mut test = Test::of(3);
    let left = Update {
        node: node(2),
        incarnation: Incarnation(0),
        status: Status::Left,
        by: NodeId(2),
        info: None,
    };
    let forged = Update { node: node(3), ..left.clone() };
    test.hear_with(2, Message::Gossip, vec![forged, left]);
    assert_eq!(test.events, [(0, Event::Left(node(2)))], "only about itself");
    assert_eq!(test.state(2), State::Left);
    test.hear(2, Message::Ping { number: 9 });
    test.run_to(20_000);
    assert_eq!((test.state(2), test.events.len()), (State::Left, 1), "what it said before comes too late");
    test.run_to(700_000);
    assert!(test.machine.member(NodeId(2)).is_none(), "forgotten after ten minutes");
}

#[test]
fn newcomers_introduce_themselves_to_everybody_and_a_new_start_replaces_the_old() {
    let seed = addr(1);
    let mut newcomer = Classic::new(at(0), Arc::new(Config::classic()), node(9), info(9), vec![seed], 7);
    let mut test = Test::of(3);
    newcomer.handle_deadline(at(0));
    let mut greeted = Vec::new();
    while let Some(output) = newcomer.poll_output() {
        let Output::Request(ticket, to, request) = output else { continue };
        greeted.push(to);
        if to == seed {
            test.machine.handle(at(0), Input::Request(ticket, addr(9), request));
            let answer = std::iter::from_fn(|| test.machine.poll_output()).find_map(|output| match output {
                Output::Respond(_, response @ Response::Differences { .. }) => Some(response),
                _ => None,
            });
            newcomer.handle(at(0), Input::Response(ticket, answer));
        }
    }
    assert_eq!(greeted, [addr(1), addr(2), addr(3)]);
    assert_eq!(newcomer.counts().alive, 4);
    assert_eq!(test.state(9), State::Alive);

    let again = Identity { id: NodeId(9), epoch: Epoch(2) };
    let from = Update {
        node: again,
        incarnation: Incarnation(0),
        status: Status::Alive,
        by: NodeId(9),
        info: Some(SharedInfo::new(info(9))),
    };
    let compare = Request::Compare { from, buckets: vec![0] };
    test.machine.handle(at(1), Input::Request(crate::io::Ticket(5), addr(9), compare));
    assert_eq!(test.machine.member(NodeId(9)).map(|member| member.identity), Some(again));
}
