//! Binds that we have no record of: the rows decide.

use model::Hold;

use super::desk::{Desk, HELD, HELD_CANCELLED, cancelled, lost, millis, secs};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::Change;
use crate::registry::{CHECK_MAX, HoldStanding, Input, Output, Verdict};

cases![
    bind_without_a_record_is_checked,
    cancelled_row_is_held_and_stopped,
    early_bind_without_a_record_is_acknowledged_when_its_row_says_so,
    early_bind_that_is_lost_is_told_at_once,
    heartbeat_binds_are_not_acknowledged_one_by_one,
    rows_are_asked_in_chunks_one_at_a_time,
    failed_check_is_asked_again_after_a_pause,
    answer_of_another_length_is_no_answer,
    unbound_while_its_row_is_read_stays_unbound,
    bound_again_while_its_row_is_read_is_judged_once,
    refused_bind_is_lost_even_with_a_record,
    refused_bind_is_lost_even_if_its_row_still_says_held,
    refused_marks_last_a_minute_and_go,
];

fn check(peer: &Peer, holds: &[Hold]) -> Output {
    Output::Check { key: peer.key.clone(), holds: holds.to_vec() }
}

fn early(desk: &mut Desk, peer: &Peer, bind: Change) -> Vec<Output> {
    desk.tell(Input::Bind { key: peer.key.clone(), nonce: peer.nonce, binds: vec![bind] })
}

fn bind_without_a_record_is_checked(bug: Bug) {
    for (said, is_held, stops) in [(HELD, true, vec![]), (HoldStanding::Lost, false, vec![lost(hold(1))])] {
        let (mut desk, mut peer) = Desk::joined(bug, "a");
        peer.bind(hold(1));
        let (ack, others) = desk.accept(&mut peer);
        assert_eq!((ack.resync, ack.stops), (false, vec![]));
        assert_eq!(others, [check(&peer, &[hold(1)])]);
        assert!(!desk.registry.is_bound(&peer.key, hold(1)));
        assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain);
        desk.checked(&peer, &[said]);
        assert_eq!(desk.registry.is_bound(&peer.key, hold(1)), is_held);
        assert_eq!(desk.renew(&mut peer).stops, stops);
        assert_eq!(desk.bound(&peer), [hold(1)], "it is in its set either way");
    }
}

fn cancelled_row_is_held_and_stopped(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    let told = desk.checked(&peer, &[HELD_CANCELLED]);
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![cancelled(hold(1))] }]);
    assert!(desk.registry.is_bound(&peer.key, hold(1)));
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1))]);
}

fn early_bind_without_a_record_is_acknowledged_when_its_row_says_so(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let bind = peer.bind(hold(1));
    assert_eq!(early(&mut desk, &peer, bind), [check(&peer, &[hold(1)])]);
    assert_eq!(early(&mut desk, &peer, bind), [], "asking once is enough");
    // A heartbeat meanwhile does not take the acknowledgement away.
    desk.renew(&mut peer);
    let told = desk.checked(&peer, &[HELD]);
    assert_eq!(told, [Output::Bound { key: peer.key.clone(), holds: vec![hold(1)] }]);
}

fn early_bind_that_is_lost_is_told_at_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let stop = [Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(1))] }];
    let bind = peer.bind(hold(1));
    early(&mut desk, &peer, bind);
    assert_eq!(desk.checked(&peer, &[HoldStanding::Lost]), stop);
    assert_eq!(early(&mut desk, &peer, bind), stop, "and whenever it asks");
}

fn heartbeat_binds_are_not_acknowledged_one_by_one(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    assert_eq!(desk.checked(&peer, &[HELD]), []);
}

fn rows_are_asked_in_chunks_one_at_a_time(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let holds: Vec<Hold> = (0..2_500).map(hold).collect();
    holds.iter().for_each(|hold| _ = peer.bind(*hold));
    let (_, others) = desk.accept(&mut peer);
    assert_eq!(others, [check(&peer, &holds[..CHECK_MAX])]);
    let next = peer.bind(hold(9_999));
    assert_eq!(early(&mut desk, &peer, next), [], "one at a time");
    let held = |count| vec![HELD; count];
    assert_eq!(desk.checked(&peer, &held(1_000)), [check(&peer, &holds[1_000..2_000])]);
    let rest = [&holds[2_000..], &[hold(9_999)]].concat();
    assert_eq!(desk.checked(&peer, &held(1_000)), [check(&peer, &rest)]);
    let bound = Output::Bound { key: peer.key.clone(), holds: vec![hold(9_999)] };
    assert_eq!(desk.checked(&peer, &held(501)), [bound]);
    assert!(peer.held.iter().all(|hold| desk.registry.is_bound(&peer.key, *hold)));
}

fn failed_check_is_asked_again_after_a_pause(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let bind = peer.bind(hold(1));
    early(&mut desk, &peer, bind);
    for pause in [100, 200, 400] {
        assert_eq!(desk.tell(Input::Checked { key: peer.key.clone(), standings: None }), []);
        assert_eq!(desk.pass(millis(pause - 1)), []);
        assert_eq!(desk.pass(millis(1)), [check(&peer, &[hold(1)])]);
    }
    assert_eq!(desk.checked(&peer, &[HELD]).len(), 1);
    assert!(desk.registry.is_bound(&peer.key, hold(1)));
    assert_eq!(desk.pass(secs(10)), []);
}

fn answer_of_another_length_is_no_answer(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    for length in [0, 2] {
        assert_eq!(desk.checked(&peer, &vec![HELD; length]), []);
        assert!(!desk.registry.is_bound(&peer.key, hold(1)));
        assert_eq!(desk.pass(millis(200)), [check(&peer, &[hold(1)])]);
    }
}

fn unbound_while_its_row_is_read_stays_unbound(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    peer.bind(hold(2));
    desk.accept(&mut peer);
    peer.unbind(hold(1));
    desk.renew(&mut peer);
    desk.checked(&peer, &[HoldStanding::Lost, HELD]);
    assert_eq!(desk.bound(&peer), [hold(2)]);
    let ack = desk.renew(&mut peer);
    assert_eq!((ack.stops, ack.resync), (vec![], false));
    // The same if the store fails: nobody asks about it again.
    peer.bind(hold(3));
    desk.accept(&mut peer);
    peer.unbind(hold(3));
    desk.renew(&mut peer);
    desk.tell(Input::Checked { key: peer.key.clone(), standings: None });
    assert_eq!(desk.pass(secs(6)), []);
}

fn bound_again_while_its_row_is_read_is_judged_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    // A worker that cannot make up its mind: out of the full set, and into it again.
    let full = |desk: &mut Desk, peer: &mut Peer, holds: &[Hold]| {
        (peer.held, peer.wants_full) = (holds.iter().copied().collect(), true);
        desk.renew(peer)
    };
    full(&mut desk, &mut peer, &[]);
    full(&mut desk, &mut peer, &[hold(1)]);
    assert_eq!(desk.checked(&peer, &[HELD]), [], "and the row is not asked a second time");
    assert!(desk.registry.is_bound(&peer.key, hold(1)));
}

fn refused_bind_is_lost_even_with_a_record(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    for job in [1, 2] {
        assert_eq!(desk.verify(&peer, hold(job)), Verdict::TakeBack, "it has not bound it");
    }
    assert_eq!(desk.view(&peer).assigned, 0);
    // The record comes late, the bind later.
    desk.granted(&peer, &[hold(1), hold(2)]);
    let bind = peer.bind(hold(1));
    let stop = Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(1))] };
    assert_eq!(early(&mut desk, &peer, bind), [stop]);
    peer.bind(hold(2));
    assert_eq!(desk.renew(&mut peer).stops, [lost(hold(1)), lost(hold(2))]);
    assert!(!desk.registry.is_bound(&peer.key, hold(1)));
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
}

fn refused_bind_is_lost_even_if_its_row_still_says_held(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let full = |desk: &mut Desk, peer: &mut Peer, holds: &[Hold]| {
        (peer.held, peer.wants_full) = (holds.iter().copied().collect(), true);
        desk.accept(peer)
    };
    full(&mut desk, &mut peer, &[hold(1)]);
    // The row is read, says held, and the answer is on its way. Meanwhile the worker drops the hold, the row is given
    // up, and the worker claims to have it after all.
    full(&mut desk, &mut peer, &[]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
    let (ack, _) = full(&mut desk, &mut peer, &[hold(1)]);
    assert_eq!(ack.stops, [lost(hold(1))]);
    desk.checked(&peer, &[HELD]);
    assert!(!desk.registry.is_bound(&peer.key, hold(1)));
}

fn refused_marks_last_a_minute_and_go(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let wait = |desk: &mut Desk, peer: &mut Peer, secs: u64| {
        for _ in 0..secs {
            desk.pass(super::desk::secs(1));
            desk.renew(peer);
        }
    };
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
    wait(&mut desk, &mut peer, 30);
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::TakeBack);
    wait(&mut desk, &mut peer, 59);
    peer.bind(hold(2));
    assert_eq!(desk.renew(&mut peer).stops, [lost(hold(2))], "59 s");
    peer.unbind(hold(2));
    wait(&mut desk, &mut peer, 61);
    peer.bind(hold(1));
    let (ack, others) = desk.accept(&mut peer);
    assert_eq!(
        (ack.stops, others),
        (vec![], vec![check(&peer, &[hold(1)])]),
        "its row has moved and says so itself"
    );
}
