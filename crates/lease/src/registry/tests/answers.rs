//! Every row of the answer table.

use model::{HolderEnd, Nonce};

use super::desk::{Desk, KEY_TAKEN, ended, millis, secs, split, stopped, terms, token};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, Generation, InactiveReason, LaterReason, Token};
use crate::registry::{Enlisted, Input, Output, Retired, WorkerState};

cases![
    heartbeat_before_the_store_was_read_is_answered_later,
    first_heartbeat_is_answered_when_the_worker_is_durable,
    unknown_key_with_a_token_is_inactive,
    first_heartbeat_of_a_terminal_key_is_inactive,
    first_heartbeat_of_a_taken_key_is_inactive,
    first_heartbeat_is_answered_later_when_the_store_fails,
    repeat_of_a_first_heartbeat_replaces_it,
    second_process_is_told_while_the_first_joins,
    second_process_with_one_key_changes_nothing,
    garbage_and_foreign_tokens_are_mismatches,
    mismatch_never_renews,
    mismatch_says_whether_the_lease_still_stands,
    changes_survive_a_mismatch,
    overtaken_heartbeat_changes_nothing,
    new_token_with_every_answer,
    heartbeat_after_the_end_is_inactive,
    drain_is_told_in_every_further_answer,
    drain_outlives_the_key,
    drain_of_one_without_a_nonce_concerns_nobody_else,
    known_workers_are_never_throttled,
    answers_of_the_store_that_nobody_waits_for_are_ignored,
];

fn heartbeat_before_the_store_was_read_is_answered_later(bug: Bug) {
    let mut desk = Desk::closed(bug);
    let mut peer = Peer::new("a");
    let later = Answer::Later { retry_after: millis(500), why: LaterReason::StoreTrouble };
    assert_eq!(desk.answer(peer.beat()), later);
    peer.token = Some(Token { generation: Generation(8), sequence: 3 });
    assert_eq!(desk.answer(peer.beat()), later);
    assert_eq!(desk.registry.workers(), []);
}

fn first_heartbeat_is_answered_when_the_worker_is_durable(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let (ticket, outputs) = desk.beat(peer.beat());
    let profile = peer.beat().profile.expect("the first heartbeat says who it is");
    let (key, nonce, grant) = (peer.key.clone(), peer.nonce, secs(20));
    assert_eq!(outputs, [Output::Enlist { key, nonce, grant, profile: Box::new(profile.clone()) }]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Joining));
    assert_eq!(desk.registry.active_count(), 0);
    assert_eq!(desk.pass(secs(2)), [], "nobody expires who was not answered");
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert_eq!(others, []);
    let Answer::Ok(ack) = answer else { panic!("{answer:?}") };
    assert_eq!((ack.lease, ack.stops, ack.resync, ack.drain), (secs(20), vec![], false, false));
    let view = desk.view(&peer);
    assert_eq!(view.expires, desk.now + millis(20_020), "counted from the answer, made longer");
    assert_eq!((view.state, view.token, view.profile), (WorkerState::Active, ack.token, profile));
    assert_eq!((view.free_slots, view.lag, view.lease), (3, millis(2), secs(20)));
    assert_eq!(desk.registry.active_count(), 1);
}

fn unknown_key_with_a_token_is_inactive(bug: Bug) {
    let mut desk = Desk::open(bug);
    let mut peer = Peer::new("a");
    for token in [token(1), Token { generation: Generation(8), sequence: 1 }, Token::GARBAGE] {
        peer.token = Some(token);
        assert_eq!(desk.answer(peer.beat()), Answer::Inactive { why: InactiveReason::Unknown });
    }
    assert_eq!(desk.registry.workers(), []);
}

/// The answer to a first heartbeat when the store says this. Whatever it was, the next one is a first one again.
fn refused_by_the_store(bug: Bug, said: Enlisted) -> Answer {
    let (mut desk, mut peer) = (Desk::open(bug), Peer::new("a"));
    let (ticket, _) = desk.beat(peer.beat());
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, said));
    assert_eq!((others, desk.state(&peer)), (vec![], None), "it is forgotten");
    assert_eq!(desk.registry.next_deadline(), None, "nobody is left to wait for");
    desk.join(&mut peer);
    answer
}

fn first_heartbeat_of_a_terminal_key_is_inactive(bug: Bug) {
    for end in HolderEnd::ALL {
        assert_eq!(refused_by_the_store(bug, Enlisted::Terminal(end)), ended(end));
    }
}

fn first_heartbeat_of_a_taken_key_is_inactive(bug: Bug) {
    assert_eq!(refused_by_the_store(bug, Enlisted::Taken), KEY_TAKEN);
}

fn first_heartbeat_is_answered_later_when_the_store_fails(bug: Bug) {
    let later = Answer::Later { retry_after: secs(1), why: LaterReason::StoreTrouble };
    assert_eq!(refused_by_the_store(bug, Enlisted::Trouble), later);
}

fn repeat_of_a_first_heartbeat_replaces_it(bug: Bug) {
    let (mut desk, mut peer) = (Desk::open(bug), Peer::new("a"));
    desk.beat(peer.beat());
    desk.granted(&peer, &[hold(1)]);
    peer.bind(hold(1));
    let (second, outputs) = desk.beat(peer.beat());
    assert_eq!(outputs, [], "the store is asked once");
    let (answer, others) = split(second, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, []);
    assert!(desk.registry.is_bound(&peer.key, hold(1)), "what the repeat said counts");
}

fn second_process_is_told_while_the_first_joins(bug: Bug) {
    let (mut desk, first) = (Desk::open(bug), Peer::new("a"));
    let (ticket, _) = desk.beat(first.beat());
    let second = Peer { nonce: Nonce::new(8), ..first.clone() };
    assert_eq!(desk.answer(second.beat()), KEY_TAKEN);
    let (answer, _) = split(ticket, &first.key, desk.enlisted(&first.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "the first is not disturbed: {answer:?}");
}

fn second_process_with_one_key_changes_nothing(bug: Bug) {
    let (mut desk, mut first) = Desk::joined(bug, "a");
    desk.give(&mut first, &[hold(1)]);
    let before = desk.view(&first);
    desk.now = desk.now + secs(1);
    // Whether it shows no token, or one that it got hold of.
    for token in [None, first.token] {
        let mut second = Peer { nonce: Nonce::new(8), token, wants_full: true, ..Peer::new("a") };
        second.bind(hold(2));
        assert_eq!(desk.answer(second.beat()), KEY_TAKEN);
    }
    assert_eq!(desk.view(&first), before);
    assert!(!desk.renew(&mut first).resync);
}

fn garbage_and_foreign_tokens_are_mismatches(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let good = peer.token;
    let current = good.expect("it was answered");
    let expected = Answer::Mismatch { token: current, held: true, resync: false };
    let foreign = Token { generation: Generation(8), ..current };
    let old = token(current.sequence - 1);
    let future = token(u64::MAX);
    for wrong in [None, Some(Token::GARBAGE), Some(foreign), Some(old), Some(future)] {
        peer.token = wrong;
        assert_eq!(desk.answer(peer.beat()), expected, "{wrong:?}");
    }
    peer.token = good;
    desk.renew(&mut peer);

    // Not even where garbage looks like a generation of its own.
    let mut terms = terms();
    terms.generation = Generation(0);
    let mut desk = Desk::with(terms, bug);
    desk.tell(Input::Restored(vec![super::desk::known(&peer)]));
    peer.token = Some(Token::GARBAGE);
    assert!(matches!(desk.answer(peer.beat()), Answer::Mismatch { resync: true, .. }));
}

fn mismatch_never_renews(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let expires = desk.view(&peer).expires;
    for _ in 0..10 {
        assert_eq!(desk.pass(secs(1)), []);
        desk.answer(Peer { token: None, ..peer.clone() }.beat());
        assert_eq!(desk.view(&peer).expires, expires);
    }
    let outputs = desk.pass(secs(11));
    assert!(
        matches!(outputs[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{outputs:?}"
    );
}

fn mismatch_says_whether_the_lease_still_stands(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let stranger = Peer { token: None, ..peer.clone() };
    assert!(matches!(desk.answer(stranger.beat()), Answer::Mismatch { held: true, .. }));
    desk.pass(millis(19_900));
    // The lease is over, and nobody has looked yet.
    desk.freeze(millis(200));
    assert!(matches!(desk.answer(stranger.beat()), Answer::Mismatch { held: false, .. }));
    // Until somebody looks, whoever shows the token goes on.
    desk.renew(&mut peer.clone());
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
}

fn changes_survive_a_mismatch(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    // An answer is lost.
    desk.answer(peer.beat());
    desk.granted(&peer, &[hold(1)]);
    peer.bind(hold(1));
    let beat = peer.beat();
    let answer = desk.answer(beat.clone());
    assert!(matches!(answer, Answer::Mismatch { held: true, resync: false, .. }), "{answer:?}");
    assert_eq!(desk.bound(&peer), [], "a mismatch applies nothing");
    peer.hear(beat.change, &answer);
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(1)]);
}

fn overtaken_heartbeat_changes_nothing(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    peer.bind(hold(1));
    let slow = peer.beat();
    peer.bind(hold(2));
    desk.renew(&mut peer);
    peer.unbind(hold(1));
    desk.renew(&mut peer);
    let before = desk.view(&peer);
    assert!(matches!(desk.answer(slow), Answer::Mismatch { .. }));
    assert_eq!(desk.view(&peer), before);
    assert_eq!(desk.bound(&peer), [hold(2)]);
}

fn new_token_with_every_answer(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let mut seen = vec![peer.token];
    for _ in 0..5 {
        desk.renew(&mut peer);
        assert!(!seen.contains(&peer.token));
        assert_eq!(Some(desk.view(&peer).token), peer.token);
        seen.push(peer.token);
    }
}

fn heartbeat_after_the_end_is_inactive(bug: Bug) {
    let (mut desk, left) = Desk::joined(bug, "left");
    let ticket = desk.ticket();
    let (key, nonce) = (left.key.clone(), left.nonce);
    desk.tell(Input::Leave { ticket, key, nonce, leave: stopped(true) });
    let mut kicked = Peer::new("kicked");
    desk.join(&mut kicked);
    let ticket = desk.ticket();
    desk.tell(Input::Kick { ticket, key: kicked.key.clone() });
    let mut expired = Peer::new("expired");
    desk.join(&mut expired);
    desk.pass(secs(21));
    for (peer, end) in
        [(&left, HolderEnd::Left), (&kicked, HolderEnd::Kicked), (&expired, HolderEnd::Expired)]
    {
        for token in [peer.token, None] {
            assert_eq!(desk.answer(Peer { token, ..peer.clone() }.beat()), ended(end));
        }
        let other = Peer { nonce: Nonce::new(8), token: None, ..peer.clone() };
        assert_eq!(desk.answer(other.beat()), ended(end), "an ended key is nobody's");
        assert_eq!(desk.state(peer), Some(WorkerState::Ended(end)));
    }
    assert_eq!(desk.registry.active_count(), 0);
}

fn drain_is_told_in_every_further_answer(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    assert!(!desk.renew(&mut peer).drain);
    assert_eq!(desk.tell(Input::Drain { key: peer.key.clone() }), []);
    assert!(desk.view(&peer).draining);
    (0..3).for_each(|_| assert!(desk.renew(&mut peer).drain));
    assert_eq!(desk.tell(Input::Drain { key: super::peer::key("nobody") }), []);
}

fn drain_outlives_the_key(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    desk.tell(Input::Drain { key: peer.key.clone() });
    // It is kicked before it heard of that.
    desk.kick(&peer);
    let mut again = Peer { key: super::peer::key("a2"), token: None, ..peer.clone() };
    assert!(desk.join(&mut again).drain, "the same process under its next key");
    assert!(desk.view(&again).draining);
    let mut other = Peer { nonce: Nonce::new(8), ..Peer::new("b") };
    assert!(!desk.join(&mut other).drain, "another process");
    // Nor does it matter that the key lapsed by the worker's own clock.
    let new = again.successor("a3");
    let (ticket, _) = desk.beat(new.beat());
    desk.enlisted(&new.key, Enlisted::Known);
    let moved = desk.tell(Input::Succeeded { key: new.key.clone(), moved: Some(Vec::new()) });
    let (answer, _) = split(ticket, &new.key, moved);
    assert!(matches!(&answer, Answer::Ok(ack) if ack.drain), "{answer:?}");
}

fn drain_of_one_without_a_nonce_concerns_nobody_else(bug: Bug) {
    let mut desk = Desk::open(bug);
    let nameless = |name| Peer { nonce: Nonce::default(), ..Peer::new(name) };
    let (mut first, mut second) = (nameless("a"), nameless("b"));
    desk.join(&mut first);
    desk.tell(Input::Drain { key: first.key.clone() });
    assert!(desk.renew(&mut first).drain);
    assert!(!desk.join(&mut second).drain);
}

fn known_workers_are_never_throttled(bug: Bug) {
    let mut desk = Desk::open(bug);
    let mut known = Peer::new("known");
    desk.join(&mut known);
    let mut throttled = 0;
    for n in 0..2_000 {
        let (_, outputs) = desk.beat(Peer::new(&format!("new-{n}")).beat());
        if let [Output::Answer { answer: Answer::Later { retry_after, why }, .. }] = &outputs[..] {
            throttled += 1;
            assert_eq!(
                (*retry_after, *why),
                (millis(throttled), LaterReason::Throttled),
                "one after the other"
            );
        }
    }
    assert_eq!(throttled, 1_001, "one of a thousand places is taken already");
    desk.renew(&mut known);
    // When the time is over that they were told, there is a place again, for one.
    desk.now = desk.now + millis(1);
    assert!(matches!(desk.beat(Peer::new("early").beat()).1[..], [Output::Enlist { .. }]));
    let throttled = desk.answer(Peer::new("late").beat());
    assert!(matches!(throttled, Answer::Later { why: LaterReason::Throttled, .. }), "{throttled:?}");
    desk.renew(&mut known);
}

fn answers_of_the_store_that_nobody_waits_for_are_ignored(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let before = desk.registry.workers();
    for key in [peer.key.clone(), super::peer::key("nobody")] {
        for answer in
            [Enlisted::Known, Enlisted::Taken, Enlisted::Terminal(HolderEnd::Left), Enlisted::Trouble]
        {
            assert_eq!(desk.enlisted(&key, answer), []);
        }
        for answer in [Retired::Done, Retired::Refused, Retired::Trouble] {
            assert_eq!(desk.tell(Input::Retired { key: key.clone(), answer }), []);
        }
        for moved in [None, Some(vec![]), Some(vec![true])] {
            assert_eq!(desk.tell(Input::Succeeded { key: key.clone(), moved }), []);
        }
        assert_eq!(desk.tell(Input::Checked { key: key.clone(), standings: None }), []);
        assert_eq!(desk.tell(Input::Checked { key, standings: Some(vec![]) }), []);
    }
    assert_eq!(desk.registry.workers(), before);
}
