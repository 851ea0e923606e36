//! A worker that lapsed by its own clock and goes on under a new key.

use model::{Hold, HolderEnd, Instant, Nonce};

use super::desk::{Desk, HELD, ended, known, lost, millis, secs, split, terms, token};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, LaterReason};
use crate::registry::{Enlisted, HoldStanding, Input, Output, Terms, Ticket, Verdict, WorkerState};

cases![
    holds_move_to_the_new_key,
    failed_move_is_asked_for_again_and_unanswered_meanwhile,
    former_cannot_expire_while_its_holds_move,
    repeat_is_answered_instead_of_the_first,
    former_of_another_process_is_left_alone,
    former_that_ended_is_checked_by_rows,
    former_that_is_kicked_meanwhile_stays_kicked,
    former_that_is_kicked_during_a_pause_is_checked_by_rows,
    hold_named_twice_moves_once,
    worker_cannot_succeed_itself,
    successor_is_never_throttled,
    former_cannot_expire_from_the_first_heartbeat_of_its_successor_on,
    former_of_a_forgotten_successor_is_judged_again,
    former_waits_while_any_successor_does,
    restart_before_the_move_is_made_up_for,
    move_after_a_restart_is_asked_for_again_and_answers_the_repeat,
    move_after_a_restart_waits_for_a_larger_grant,
    heartbeat_without_its_full_set_moves_nothing,
    worker_that_is_succeeded_does_not_succeed,
];

/// A worker with two jobs, and its first heartbeat under a new key after that key was made durable.
fn lapsed(bug: Bug) -> (Desk, Peer, Peer, Ticket) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1), hold(2)]);
    let new = old.successor("new");
    let (ticket, outputs) = desk.beat(new.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    assert_eq!(desk.enlisted(&new.key, Enlisted::Known), [succeed(&old, &new, &[hold(1), hold(2)])]);
    (desk, old, new, ticket)
}

fn succeed(old: &Peer, new: &Peer, holds: &[Hold]) -> Output {
    Output::Succeed { former: old.key.clone(), key: new.key.clone(), holds: holds.to_vec() }
}

fn moved(desk: &mut Desk, new: &Peer, moved: Option<&[bool]>) -> Vec<Output> {
    desk.tell(Input::Succeeded { key: new.key.clone(), moved: moved.map(<[bool]>::to_vec) })
}

fn succeeded(old: &Peer, stopped_by: Instant) -> [Output; 3] {
    let (key, end) = (old.key.clone(), HolderEnd::Succeeded);
    [
        Output::Ended { key: key.clone(), end },
        Output::Gone { key: key.clone() },
        Output::Retire { key, stranger: None, end, counted: false, stopped_by, unproven: false },
    ]
}

fn with_check(outputs: [Output; 3], new: &Peer, holds: &[Hold]) -> Vec<Output> {
    let check = Output::Check { key: new.key.clone(), holds: holds.to_vec() };
    outputs.into_iter().chain([check]).collect()
}

fn holds_move_to_the_new_key(bug: Bug) {
    let (mut desk, old, mut new, ticket) = lapsed(bug);
    assert_eq!(desk.state(&new), Some(WorkerState::Joining));
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, false])));
    let Answer::Ok(ack) = &answer else { panic!("{answer:?}") };
    assert_eq!((&ack.stops, ack.resync), (&vec![lost(hold(2))], false));
    assert_eq!(others, succeeded(&old, desk.now));
    assert!(desk.registry.is_bound(&new.key, hold(1)));
    assert!(!desk.registry.is_bound(&new.key, hold(2)));
    assert_eq!(desk.bound(&new), [hold(1), hold(2)]);
    assert_eq!((desk.bound(&old), desk.registry.active_count()), (vec![], 1));
    assert_eq!(desk.answer(old.beat()), ended(HolderEnd::Succeeded));
    new.hear(new.change, &answer);
    new.unbind(hold(2));
    assert_eq!(desk.renew(&mut new).stops, []);
    assert_eq!(desk.verify(&new, hold(1)), Verdict::Push);
}

fn failed_move_is_asked_for_again_and_unanswered_meanwhile(bug: Bug) {
    let (mut desk, old, new, ticket) = lapsed(bug);
    for pause in [100, 200, 400] {
        assert_eq!(moved(&mut desk, &new, None), []);
        assert_eq!(desk.pass(millis(pause - 1)), []);
        assert_eq!(desk.pass(millis(1)), [succeed(&old, &new, &[hold(1), hold(2)])]);
    }
    assert_eq!(moved(&mut desk, &new, Some(&[true])), [], "half an answer is none");
    assert_eq!(desk.pass(millis(800)).len(), 1);
    let (answer, _) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, true])));
    assert!(matches!(&answer, Answer::Ok(ack) if ack.stops.is_empty()), "{answer:?}");
    assert_eq!(desk.bound(&new), [hold(1), hold(2)]);
}

fn former_cannot_expire_while_its_holds_move(bug: Bug) {
    let (mut desk, old, new, ticket) = lapsed(bug);
    let stopped_by = desk.now + millis(19_980);
    assert_eq!(desk.pass(secs(60)), [], "the store takes its time");
    moved(&mut desk, &new, None);
    let again = desk.pass(secs(60));
    assert_eq!(again, [succeed(&old, &new, &[hold(1), hold(2)])], "and fails");
    let (_, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, true])));
    assert_eq!(others, succeeded(&old, stopped_by));
    let outputs = desk.pass(secs(21));
    assert!(
        matches!(&outputs[..], [Output::Ended { key, .. }, Output::Gone { .. }, Output::Retire { .. }] if *key == new.key)
    );
}

fn repeat_is_answered_instead_of_the_first(bug: Bug) {
    let (mut desk, _, mut new, _) = lapsed(bug);
    new.unbind(hold(2));
    new.unbinds.clear();
    let (second, outputs) = desk.beat(new.beat());
    assert_eq!(outputs, []);
    let (answer, _) = split(second, &new.key, moved(&mut desk, &new, Some(&[true, true])));
    assert!(matches!(&answer, Answer::Ok(ack) if !ack.resync), "{answer:?}");
    assert_eq!(desk.bound(&new), [hold(1)], "what the repeat said counts");
    assert_eq!(desk.verify(&new, hold(2)), Verdict::TakeBack, "it moved, and nobody has it");
}

fn former_of_another_process_is_left_alone(bug: Bug) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1)]);
    let mut thief = old.successor("thief");
    thief.former.as_mut().expect("a successor has one").nonce = Nonce::new(8);
    let (ticket, _) = desk.beat(thief.beat());
    let (answer, others) = split(ticket, &thief.key, desk.enlisted(&thief.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, [Output::Check { key: thief.key.clone(), holds: vec![hold(1)] }]);
    assert_eq!(desk.state(&old), Some(WorkerState::Active));
    assert!(desk.registry.is_bound(&old.key, hold(1)));
}

fn former_that_ended_is_checked_by_rows(bug: Bug) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1)]);
    desk.pass(secs(21));
    let mut new = old.successor("new");
    let (ticket, _) = desk.beat(new.beat());
    let (answer, others) = split(ticket, &new.key, desk.enlisted(&new.key, Enlisted::Known));
    assert_eq!(others, [Output::Check { key: new.key.clone(), holds: vec![hold(1)] }]);
    new.hear(new.change, &answer);
    desk.checked(&new, &[HoldStanding::Lost]);
    assert_eq!(desk.renew(&mut new).stops, [lost(hold(1))]);
    // A key that nobody knows is no better.
    let (mut desk, stranger) = (Desk::open(bug), Peer::new("stranger"));
    let new = stranger.successor("new");
    desk.beat(new.beat());
    assert_eq!(desk.enlisted(&new.key, Enlisted::Known).len(), 1, "it is simply answered");
}

fn former_that_is_kicked_meanwhile_stays_kicked(bug: Bug) {
    let (mut desk, old, new, ticket) = lapsed(bug);
    let kick = desk.ticket();
    assert_eq!(desk.tell(Input::Kick { ticket: kick, key: old.key.clone() }).len(), 3);
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, false])));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    let check = Output::Check { key: new.key.clone(), holds: vec![hold(1)] };
    assert_eq!(others, [check], "one end is enough, and what is left of it does not say what moved");
    assert_eq!(desk.state(&old), Some(WorkerState::Ended(HolderEnd::Kicked)));
    desk.checked(&new, &[HELD]);
    assert!(desk.registry.is_bound(&new.key, hold(1)), "the store's word counts");
}

fn former_that_is_kicked_during_a_pause_is_checked_by_rows(bug: Bug) {
    let (mut desk, old, new, ticket) = lapsed(bug);
    moved(&mut desk, &new, None);
    let kick = desk.ticket();
    desk.tell(Input::Kick { ticket: kick, key: old.key.clone() });
    let (answer, others) = split(ticket, &new.key, desk.pass(millis(100)));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, [Output::Check { key: new.key.clone(), holds: vec![hold(1), hold(2)] }]);
}

fn hold_named_twice_moves_once(bug: Bug) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1)]);
    let new = old.successor("new");
    let mut beat = new.beat();
    beat.full = Some(vec![hold(1), hold(1)]);
    desk.beat(beat);
    assert_eq!(desk.enlisted(&new.key, Enlisted::Known), [succeed(&old, &new, &[hold(1)])]);
    moved(&mut desk, &new, Some(&[true]));
    assert!(desk.registry.is_bound(&new.key, hold(1)));
}

fn worker_cannot_succeed_itself(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let itself = peer.successor("a");
    let (ticket, _) = desk.beat(itself.beat());
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, []);
    // Neither can one that lives.
    let mut alive = Peer { former: None, ..itself };
    alive.hear(alive.change, &answer);
    let former = alive.successor("a").former;
    assert!(!desk.renew(&mut Peer { former, wants_full: true, ..alive.clone() }).resync);
    assert_eq!(desk.state(&alive), Some(WorkerState::Active));
    assert_eq!(desk.pass(secs(21)).len(), 3, "and it expires like any other");
}

fn successor_is_never_throttled(bug: Bug) {
    let mut desk = Desk::with(Terms { registrations_per_second: 1, ..terms() }, bug);
    desk.tell(Input::Restored(Vec::new()));
    let mut old = Peer::new("old");
    desk.join(&mut old);
    let throttled = desk.answer(Peer::new("stranger").beat());
    assert!(matches!(throttled, Answer::Later { why: LaterReason::Throttled, .. }), "{throttled:?}");
    let (_, outputs) = desk.beat(old.successor("new").beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    let mut thief = old.successor("thief");
    thief.former.as_mut().expect("a successor has one").nonce = Nonce::new(8);
    let throttled = desk.answer(thief.beat());
    assert!(matches!(throttled, Answer::Later { why: LaterReason::Throttled, .. }), "{throttled:?}");
}

/// A worker with a job, and the first heartbeat of its successor, which is not durable yet.
fn lapsing(bug: Bug) -> (Desk, Peer, Peer, Ticket) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1)]);
    let new = old.successor("new");
    let (ticket, outputs) = desk.beat(new.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    (desk, old, new, ticket)
}

fn former_cannot_expire_from_the_first_heartbeat_of_its_successor_on(bug: Bug) {
    let (mut desk, old, new, ticket) = lapsing(bug);
    let stopped_by = desk.now + millis(19_980);
    assert_eq!(desk.pass(secs(60)), [], "the store takes its time");
    assert_eq!(desk.state(&old), Some(WorkerState::Active));
    assert_eq!(desk.enlisted(&new.key, Enlisted::Known), [succeed(&old, &new, &[hold(1)])]);
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true])));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, succeeded(&old, stopped_by));
}

fn former_of_a_forgotten_successor_is_judged_again(bug: Bug) {
    // Whether its lease is over by then, or is over later.
    for (wait, rest) in [(60, 0), (5, 16)] {
        let (mut desk, old, new, ticket) = lapsing(bug);
        let stopped_by = desk.now + millis(19_980);
        assert_eq!(desk.pass(secs(wait)), []);
        let (answer, others) = split(ticket, &new.key, desk.enlisted(&new.key, Enlisted::Trouble));
        assert!(matches!(answer, Answer::Later { why: LaterReason::StoreTrouble, .. }), "{answer:?}");
        assert_eq!((others, desk.state(&new)), (vec![], None));
        let outputs = desk.pass(secs(rest));
        let (key, end) = (old.key.clone(), HolderEnd::Expired);
        assert_eq!(
            outputs,
            [
                Output::Ended { key: key.clone(), end },
                Output::Gone { key: key.clone() },
                Output::Retire { key, stranger: None, end, counted: true, stopped_by, unproven: false }
            ]
        );
    }
}

fn former_waits_while_any_successor_does(bug: Bug) {
    let (mut desk, old, new, _) = lapsing(bug);
    let other = old.successor("other");
    desk.beat(other.beat());
    desk.enlisted(&new.key, Enlisted::Trouble);
    assert_eq!(desk.pass(secs(60)), []);
    assert_eq!(desk.enlisted(&other.key, Enlisted::Known), [succeed(&old, &other, &[hold(1)])]);
}

/// A server that restarted when a worker's new key was durable and its holds had not moved: the worker has found it, and
/// knows the token to show.
fn restarted(bug: Bug) -> (Desk, Peer, Peer) {
    let mut old = Peer::new("old");
    [hold(1), hold(2)].into_iter().for_each(|hold| _ = old.bind(hold));
    let mut new = old.successor("new");
    let mut desk = Desk::reopened(bug, &[known(&old), known(&new)]);
    let answer = desk.answer(new.beat());
    assert_eq!(answer, Answer::Mismatch { token: token(1), held: true, resync: true });
    new.hear(new.change, &answer);
    (desk, old, new)
}

fn restart_before_the_move_is_made_up_for(bug: Bug) {
    let (mut desk, old, mut new) = restarted(bug);
    let stopped_by = desk.now + secs(20);
    let (ticket, outputs) = desk.beat(new.beat());
    assert_eq!(outputs, [succeed(&old, &new, &[hold(1), hold(2)])], "before it is answered");
    assert_eq!(desk.verify(&old, hold(1)), Verdict::AskAgain);
    assert_eq!(desk.verify(&new, hold(1)), Verdict::AskAgain);
    assert_eq!(desk.pass(secs(60)), [], "neither of them expires meanwhile");
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, false])));
    assert!(matches!(&answer, Answer::Ok(ack) if ack.stops == [lost(hold(2))] && !ack.resync), "{answer:?}");
    // The rows know better than a former that has not come back what it was that moved.
    assert_eq!(others, with_check(succeeded(&old, stopped_by), &new, &[hold(1)]));
    assert_eq!(desk.verify(&new, hold(1)), Verdict::AskAgain);
    desk.checked(&new, &[HELD]);
    assert!(desk.registry.is_bound(&new.key, hold(1)) && !desk.registry.is_bound(&new.key, hold(2)));
    assert_eq!(desk.state(&old), Some(WorkerState::Ended(HolderEnd::Succeeded)));
    assert_eq!((desk.state(&new), desk.registry.active_count()), (Some(WorkerState::Active), 1));
    assert_eq!(desk.verify(&new, hold(1)), Verdict::Push);
    new.hear(new.change, &answer);
    desk.renew(&mut new);
    let outputs = desk.pass(secs(21));
    assert!(
        matches!(&outputs[..], [Output::Ended { key, .. }, Output::Gone { .. }, Output::Retire { .. }] if *key == new.key)
    );
}

fn move_after_a_restart_is_asked_for_again_and_answers_the_repeat(bug: Bug) {
    let (mut desk, old, mut new) = restarted(bug);
    desk.beat(new.beat());
    assert_eq!(moved(&mut desk, &new, None), []);
    let (repeat, outputs) = desk.beat(new.beat());
    assert_eq!(outputs, []);
    let token = new.token.take();
    assert_eq!(desk.beat(new.beat()).1, [], "an older one, from before the token was known, changes nothing");
    new.token = token;
    assert_eq!(desk.pass(millis(100)), [succeed(&old, &new, &[hold(1), hold(2)])]);
    let (answer, others) = split(repeat, &new.key, moved(&mut desk, &new, Some(&[true, true])));
    assert_eq!(others, with_check(succeeded(&old, desk.now), &new, &[hold(1), hold(2)]));
    new.hear(new.change, &answer);
    desk.renew(&mut new);
}

fn move_after_a_restart_waits_for_a_larger_grant(bug: Bug) {
    for answer in [Enlisted::Known, Enlisted::Trouble] {
        let (mut desk, old, new) = restarted(bug);
        let larger = Peer { lease: secs(60), former: None, ..new.clone() };
        let (_, outputs) = desk.beat(larger.beat());
        assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
        let (ticket, outputs) = desk.beat(new.beat());
        assert_eq!(outputs, []);
        assert_eq!(desk.enlisted(&new.key, answer), [succeed(&old, &new, &[hold(1), hold(2)])]);
        let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, true])));
        assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
        assert_eq!(others, with_check(succeeded(&old, desk.now), &new, &[hold(1), hold(2)]));
    }
}

fn heartbeat_without_its_full_set_moves_nothing(bug: Bug) {
    let (mut desk, old, mut new) = restarted(bug);
    new.wants_full = false;
    assert!(desk.renew(&mut new).resync);
    assert_eq!(desk.state(&old), Some(WorkerState::Unsynced));
}

fn worker_that_is_succeeded_does_not_succeed(bug: Bug) {
    let (mut desk, old, mut new) = restarted(bug);
    let newest = new.successor("newest");
    let (ticket, _) = desk.beat(newest.beat());
    let (_, others) = desk.accept(&mut new);
    assert_eq!(others, [Output::Check { key: new.key.clone(), holds: vec![hold(1), hold(2)] }]);
    let outputs = desk.enlisted(&newest.key, Enlisted::Known);
    assert_eq!(outputs, [succeed(&new, &newest, &[hold(1), hold(2)])]);
    let (_, others) = split(ticket, &newest.key, moved(&mut desk, &newest, Some(&[true, true])));
    assert_eq!(others, with_check(succeeded(&new, desk.now), &newest, &[hold(1), hold(2)]));
    assert_eq!(desk.state(&old), Some(WorkerState::Unsynced), "its lease decides");
}
