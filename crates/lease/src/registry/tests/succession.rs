//! A worker that lapsed by its own clock and goes on under a new key.

use model::{Hold, HolderEnd, Nonce};

use super::desk::{Desk, ended, lost, millis, secs, split};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::Answer;
use crate::registry::{Enlisted, HoldStanding, Input, Output, Ticket, Verdict, WorkerState};

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

fn succeeded(old: &Peer) -> [Output; 2] {
    let (key, end) = (old.key.clone(), HolderEnd::Succeeded);
    [Output::Ended { key: key.clone(), end }, Output::Retire { key, end, counted: false, not_after: None }]
}

fn holds_move_to_the_new_key(bug: Bug) {
    let (mut desk, old, mut new, ticket) = lapsed(bug);
    assert_eq!(desk.state(&new), Some(WorkerState::Joining));
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, false])));
    let Answer::Ok(ack) = &answer else { panic!("{answer:?}") };
    assert_eq!((&ack.stops, ack.resync), (&vec![lost(hold(2))], false));
    assert_eq!(others, succeeded(&old));
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
    assert_eq!(desk.pass(secs(60)), [], "the store takes its time");
    moved(&mut desk, &new, None);
    let again = desk.pass(secs(60));
    assert_eq!(again, [succeed(&old, &new, &[hold(1), hold(2)])], "and fails");
    let (_, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, true])));
    assert_eq!(others, succeeded(&old));
    let outputs = desk.pass(secs(21));
    assert!(matches!(&outputs[..], [Output::Ended { key, .. }, Output::Retire { .. }] if *key == new.key));
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
    assert_eq!(desk.tell(Input::Kick { ticket: kick, key: old.key.clone() }).len(), 2);
    let (answer, others) = split(ticket, &new.key, moved(&mut desk, &new, Some(&[true, false])));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others, [], "one end is enough");
    assert_eq!(desk.state(&old), Some(WorkerState::Ended(HolderEnd::Kicked)));
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
}
