//! Workers of another server that become ours.

use model::{Nonce, RegistryId};

use super::desk::{Desk, HELD_EXCLUSIVE, bound, done, known, millis, row, secs, split, stopped};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, LaterReason};
use crate::registry::{Enlisted, Input, Output, Retired, Row, Verdict, WorkerState};

cases![
    taken_over_worker_has_its_largest_grant_to_find_us,
    taken_over_worker_goes_on_with_what_it_holds,
    known_workers_are_left_alone,
    unknown_holder_may_be_one_that_is_being_taken_over,
    nobody_new_is_taken_while_others_are_taken_over,
    worker_that_joins_here_while_it_is_taken_over_is_not_new,
    leave_waits_until_it_is_known_who_is_taken_over,
    strangers_leave_does_not_end_a_worker_that_is_taken_over,
    word_of_a_stranger_counts_for_the_worker_that_it_turns_out_to_be,
    stranger_whose_end_is_refused_is_let_be,
    worker_of_another_registry_is_sent_there,
    larger_grant_of_a_worker_elsewhere_is_refused,
    registry_says_whom_it_knows,
];

const THEIRS: RegistryId = RegistryId(2);

const NOT_NOW: Answer = Answer::Later { retry_after: secs(1), why: LaterReason::StoreTrouble };

/// The store gives us this worker of another registry.
fn take_over(desk: &mut Desk, peer: &Peer) -> Vec<Output> {
    assert_eq!(desk.tell(Input::TakeOverBegun { from: THEIRS }), []);
    let outputs = desk.tell(Input::Restored(vec![known(peer)]));
    assert_eq!(desk.tell(Input::TakeOverEnded { from: THEIRS }), []);
    outputs
}

fn taken_over_worker_has_its_largest_grant_to_find_us(bug: Bug) {
    let (mut desk, mut ours) = Desk::joined(bug, "ours");
    let theirs = Peer { lease: secs(60), ..Peer::new("theirs") };
    desk.pass(secs(10));
    assert_eq!(take_over(&mut desk, &theirs), []);
    assert_eq!(desk.registry.active_count(), 2);
    assert_eq!(desk.view(&theirs).expires, desk.now + millis(60_060));
    assert_eq!(desk.state(&theirs), Some(WorkerState::Unsynced));
    assert_eq!(desk.verify(&theirs, hold(1)), Verdict::AskAgain);
    for _ in 0..6 {
        desk.renew(&mut ours);
        assert_eq!(desk.pass(secs(10)), []);
    }
    desk.renew(&mut ours);
    let outputs = desk.pass(millis(60));
    assert!(
        matches!(outputs[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{outputs:?}"
    );
}

fn taken_over_worker_goes_on_with_what_it_holds(bug: Bug) {
    let mut desk = Desk::open(bug);
    desk.own_for(secs(5));
    // Its token is of another server's making.
    let (mut other_desk, mut peer) = Desk::joined(None, "a");
    other_desk.give_exclusive(&mut peer, &[hold(1)]);
    take_over(&mut desk, &peer);
    let answer = desk.answer(peer.beat());
    assert!(matches!(answer, Answer::Mismatch { held: true, resync: true, .. }), "{answer:?}");
    peer.hear(peer.change, &answer);
    let (ack, others) = desk.accept(&mut peer);
    assert!(ack.exclusive_hold);
    assert_eq!(others, [Output::Check { key: peer.key.clone(), holds: vec![hold(1)] }]);
    assert_eq!(desk.checked(&peer, &[HELD_EXCLUSIVE]), [bound(&peer, &[hold(1)])]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::Push);
}

fn known_workers_are_left_alone(bug: Bug) {
    let (mut desk, mut active) = Desk::joined(bug, "active");
    desk.give_exclusive(&mut active, &[hold(1)]);
    let mut stopping = Peer::new("stopping");
    desk.join(&mut stopping);
    desk.give_exclusive(&mut stopping, &[hold(2)]);
    desk.kick(&stopping);
    let mut left = Peer::new("left");
    desk.join(&mut left);
    desk.leave(&left, stopped(true));
    let peers = [active, stopping, left];
    let before = peers.each_ref().map(|peer| desk.view(peer));
    let again = peers.iter().map(known).collect();
    assert_eq!(desk.tell(Input::Restored(again)), []);
    assert_eq!(peers.each_ref().map(|peer| desk.view(peer)), before);
    assert_eq!(desk.registry.active_count(), 1);
}

fn unknown_holder_may_be_one_that_is_being_taken_over(bug: Bug) {
    let (mut desk, theirs) = (Desk::open(bug), Peer::new("theirs"));
    let curl = Row { registry: None, ..row(&Peer::new("curl"), hold(2)) };
    for from in [THEIRS, RegistryId(3)] {
        desk.tell(Input::TakeOverBegun { from });
    }
    assert_eq!(desk.verify(&theirs, hold(1)), Verdict::AskAgain);
    assert_eq!(desk.verify_row(&curl), Verdict::TakeBack, "who is in no registry is nobody's");
    desk.tell(Input::TakeOverEnded { from: THEIRS });
    assert_eq!(desk.verify(&theirs, hold(1)), Verdict::AskAgain, "or of the other one");
    desk.tell(Input::TakeOverEnded { from: RegistryId(3) });
    assert_eq!(desk.verify(&theirs, hold(1)), Verdict::TakeBack, "it is none of them, so it is over");
}

fn nobody_new_is_taken_while_others_are_taken_over(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let (mut known, joining) = (Peer::new("known"), Peer::new("joining"));
    desk.join(&mut known);
    let (ticket, _) = desk.beat(joining.beat());
    desk.tell(Input::TakeOverBegun { from: THEIRS });
    assert_eq!(desk.answer(peer.beat()), NOT_NOW);
    let shows_token = Peer { token: known.token, ..peer.clone() };
    assert_eq!(desk.answer(shows_token.beat()), NOT_NOW, "it may be one of them");
    let outputs = desk.enlisted(&joining.key, Enlisted::Known);
    assert_eq!(split(ticket, &joining.key, outputs), (NOT_NOW, vec![]), "the store may have known it before");
    desk.renew(&mut known);
    desk.tell(Input::TakeOverEnded { from: THEIRS });
    desk.join(&mut peer.clone());
}

fn worker_that_joins_here_while_it_is_taken_over_is_not_new(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    // An old first heartbeat of a worker that lives at another server, and has a job there.
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    let (kick, outputs) = desk.kick(&peer);
    assert_eq!(outputs, []);
    let outputs = take_over(&mut desk, &peer);
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert!(matches!(answer, Answer::Mismatch { held: true, resync: true, .. }), "{answer:?}");
    assert!(others.contains(&done(kick)), "what came after it is heard too: {others:?}");
    assert_eq!(desk.state(&peer), Some(WorkerState::Stopping));
    assert_eq!(desk.enlisted(&peer.key, Enlisted::Known), [], "that is old");
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain, "it may have the job");
}

fn strangers_leave_does_not_end_a_worker_that_is_taken_over(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let (ticket, outputs) = desk.leave(&somebody_else(&peer), stopped(true));
    assert!(matches!(outputs[..], [Output::Retire { .. }]));
    assert_eq!(desk.retired(&peer, false), [], "the store cannot say");
    assert_eq!(take_over(&mut desk, &peer), [done(ticket)]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Unsynced));
    assert_eq!(desk.pass(secs(20)), [], "it is not asked for again");
}

fn word_of_a_stranger_counts_for_the_worker_that_it_turns_out_to_be(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let (ticket, _) = desk.leave(&peer, stopped(true));
    assert_eq!(desk.retired(&peer, false), []);
    let outputs = take_over(&mut desk, &peer);
    assert!(
        matches!(
            outputs[..],
            [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { stranger: None, .. }]
        ),
        "{outputs:?}"
    );
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
}

fn leave_waits_until_it_is_known_who_is_taken_over(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    desk.tell(Input::TakeOverBegun { from: THEIRS });
    let (others, outputs) = desk.leave(&somebody_else(&peer), stopped(true));
    assert_eq!(outputs, []);
    let (curls, outputs) = desk.leave(&Peer::new("curl"), stopped(true));
    assert_eq!(outputs, []);
    assert_eq!(desk.tell(Input::Restored(vec![known(&peer)])), [done(others)], "it is somebody else's word");
    assert_eq!(desk.state(&peer), Some(WorkerState::Unsynced));
    let outputs = desk.tell(Input::TakeOverEnded { from: THEIRS });
    let curl = Peer::new("curl");
    assert!(matches!(&outputs[..], [Output::Retire { key, .. }] if *key == curl.key), "{outputs:?}");
    assert_eq!(desk.retired(&curl, true), [done(curls)], "it was none of them");
}

fn stranger_whose_end_is_refused_is_let_be(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    let (ticket, _) = desk.leave(&peer, stopped(true));
    let refused = Input::Retired { key: peer.key.clone(), answer: Retired::Refused };
    assert_eq!(desk.tell(refused), [done(ticket)]);
    assert!(!desk.registry.knows(&peer.key));
    assert_eq!(desk.pass(secs(600)), [], "it is not asked for again");
    // A worker of ours is.
    let (mut desk, peer) = Desk::joined(bug, "a");
    desk.leave(&peer, stopped(true));
    let refused = Input::Retired { key: peer.key.clone(), answer: Retired::Refused };
    assert_eq!(desk.tell(refused), []);
    assert!(matches!(desk.pass(secs(1))[..], [Output::Retire { .. }]));
}

/// Another process that uses its key.
fn somebody_else(peer: &Peer) -> Peer {
    Peer { nonce: Nonce::new(99), ..peer.clone() }
}

fn worker_of_another_registry_is_sent_there(bug: Bug) {
    for address in [None, Some("http://other:7000".to_owned())] {
        let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
        let (ticket, _) = desk.beat(peer.beat());
        let outputs = desk.enlisted(&peer.key, Enlisted::Elsewhere { address: address.clone() });
        assert_eq!(split(ticket, &peer.key, outputs), (Answer::NotOwner { address }, vec![]));
        assert!(!desk.registry.knows(&peer.key));
    }
}

fn larger_grant_of_a_worker_elsewhere_is_refused(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.lease = secs(60);
    let (ticket, _) = desk.beat(peer.beat());
    let outputs = desk.enlisted(&peer.key, Enlisted::Elsewhere { address: None });
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert_eq!(answer, Answer::NotOwner { address: None });
    assert!(matches!(others[..], [Output::Ended { .. }, Output::Gone { .. }]), "{others:?}");
    assert!(!desk.registry.knows(&peer.key));
    assert_eq!(desk.registry.active_count(), 0);
    assert_eq!(desk.pass(secs(60)), [], "it is not ours to judge");
}

fn registry_says_whom_it_knows(bug: Bug) {
    let (mut desk, mut peer) = (Desk::open(bug), Peer::new("a"));
    assert!(!desk.registry.knows(&peer.key));
    desk.join(&mut peer);
    assert!(desk.registry.knows(&peer.key));
    desk.leave(&peer, stopped(true));
    desk.retired(&peer, true);
    assert!(desk.registry.knows(&peer.key), "while it is remembered");
    desk.pass(secs(601));
    assert!(!desk.registry.knows(&peer.key));
}
