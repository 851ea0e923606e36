//! Exclusive jobs: their binds are acknowledged, and nothing hands them over while they may run.

use model::Hold;

use super::desk::{Desk, HELD, HELD_EXCLUSIVE, bound, cancelled, known, lost, millis, row, split};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, Change, Stop, StopOrder};
use crate::registry::{Enlisted, HoldStanding, Input, Output, Row, Verdict, WorkerState};

cases![
    exclusive_bind_in_a_heartbeat_is_acknowledged,
    exclusive_bind_in_a_full_set_is_acknowledged,
    exclusive_bind_without_a_record_waits_for_its_row,
    repeated_bind_is_answered_again,
    repeated_bind_while_its_row_is_read_is_acknowledged_later,
    repeated_bind_before_the_full_set_is_not_judged,
    nothing_is_acknowledged_once_the_lease_is_over,
    cancelled_exclusive_job_hears_that_first,
    silent_exclusive_job_is_told_to_stop_and_stays,
    silent_exclusive_job_that_is_cancelled_is_not_told_twice,
    unbound_exclusive_job_is_taken_back,
    exclusive_holds_stay_exclusive_under_a_new_key,
];

fn early(desk: &mut Desk, peer: &Peer, bind: Change) -> Vec<Output> {
    desk.tell(Input::Bind { key: peer.key.clone(), nonce: peer.nonce, binds: vec![bind] })
}

fn check(peer: &Peer, holds: &[Hold]) -> Output {
    Output::Check { key: peer.key.clone(), holds: holds.to_vec() }
}

fn stop(peer: &Peer, stop: Stop) -> Output {
    Output::Stop { key: peer.key.clone(), stops: vec![stop] }
}

fn silent(hold: Hold) -> Stop {
    Stop { hold, reason: StopOrder::Silent }
}

fn exclusive_bind_in_a_heartbeat_is_acknowledged(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let (key, holds) = (peer.key.clone(), vec![hold(1), hold(2), hold(3)]);
    desk.tell(Input::Granted { key, holds, exclusive: vec![hold(2), hold(3)], start: 3 });
    [hold(1), hold(2), hold(3)].into_iter().for_each(|hold| _ = peer.bind(hold));
    // What it has let go of already must not start.
    peer.unbind(hold(3));
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[0], Output::Answer { .. }), "the lease comes before what lives by it");
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert_eq!(others, [bound(&peer, &[hold(2)])], "ordinary jobs wait for nothing");
    peer.hear(peer.change, &answer);
    desk.renew(&mut peer);
}

fn exclusive_bind_in_a_full_set_is_acknowledged(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    desk.granted_exclusive(&peer, &[hold(2)]);
    [hold(1), hold(2)].into_iter().for_each(|hold| _ = peer.bind(hold));
    (peer.binds, peer.wants_full) = (Vec::new(), true);
    assert_eq!(desk.accept(&mut peer).1, [bound(&peer, &[hold(2)])]);
}

fn exclusive_bind_without_a_record_waits_for_its_row(bug: Bug) {
    for is_early in [false, true] {
        let (mut desk, mut peer) = Desk::joined(bug, "a");
        let binds = [peer.bind(hold(1)), peer.bind(hold(2))];
        if is_early {
            let (key, nonce) = (peer.key.clone(), peer.nonce);
            let outputs = desk.tell(Input::Bind { key, nonce, binds: binds.to_vec() });
            assert_eq!(outputs, [check(&peer, &[hold(1), hold(2)])]);
        } else {
            assert_eq!(desk.accept(&mut peer).1, [check(&peer, &[hold(1), hold(2)])]);
        }
        let told = desk.checked(&peer, &[HELD_EXCLUSIVE, HoldStanding::Lost]);
        assert_eq!(told, [stop(&peer, lost(hold(2))), bound(&peer, &[hold(1)])]);
        desk.kick(&peer);
        assert_eq!(desk.state(&peer), Some(WorkerState::Stopping), "the row has taught us what it is");
    }
}

fn repeated_bind_is_answered_again(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted_exclusive(&peer, &[hold(1), hold(2)]);
    let binds = [peer.bind(hold(1)), peer.bind(hold(2)), peer.bind(hold(3))];
    let (_, others) = desk.accept(&mut peer);
    assert_eq!(others, [check(&peer, &[hold(3)]), bound(&peer, &[hold(1), hold(2)])]);
    desk.checked(&peer, &[HoldStanding::Lost]);
    // The acknowledgement was lost: it asks again, however often.
    for _ in 0..2 {
        assert_eq!(early(&mut desk, &peer, binds[0]), [bound(&peer, &[hold(1)])]);
        assert_eq!(early(&mut desk, &peer, binds[2]), [stop(&peer, lost(hold(3)))]);
    }
    peer.unbind(hold(2));
    desk.renew(&mut peer);
    assert_eq!(early(&mut desk, &peer, binds[1]), [stop(&peer, lost(hold(2)))], "unbinding is final");
    assert_eq!(desk.bound(&peer), [hold(1), hold(3)]);
}

fn repeated_bind_while_its_row_is_read_is_acknowledged_later(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let bind = peer.bind(hold(1));
    assert_eq!(desk.accept(&mut peer).1, [check(&peer, &[hold(1)])]);
    assert_eq!(early(&mut desk, &peer, bind), []);
    assert_eq!(desk.checked(&peer, &[HELD]), [bound(&peer, &[hold(1)])], "it waits for it now");
}

fn repeated_bind_before_the_full_set_is_not_judged(bug: Bug) {
    let mut peer = Peer::new("a");
    let bind = peer.bind(hold(1));
    peer.binds.clear();
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    let answer = desk.answer(peer.beat());
    peer.hear(peer.change, &answer);
    // It forgets to send its full set, so we do not know what it has.
    peer.wants_full = false;
    assert!(desk.renew(&mut peer).resync);
    assert_eq!(early(&mut desk, &peer, bind), []);
    assert_eq!(desk.accept(&mut peer).1, [check(&peer, &[hold(1)])]);
    assert_eq!(desk.checked(&peer, &[HELD_EXCLUSIVE]), [bound(&peer, &[hold(1)])]);
}

fn nothing_is_acknowledged_once_the_lease_is_over(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted_exclusive(&peer, &[hold(1)]);
    let binds = [peer.bind(hold(1)), peer.bind(hold(2))];
    assert_eq!(early(&mut desk, &peer, binds[1]), [check(&peer, &[hold(2)])]);
    desk.pass(millis(19_900));
    // Nobody has looked yet.
    desk.freeze(millis(120));
    assert_eq!(early(&mut desk, &peer, binds[0]), []);
    assert_eq!(desk.checked(&peer, &[HELD_EXCLUSIVE]), []);
    // It comes in time after all, and hears then what it waits for.
    let (_, others) = desk.accept(&mut peer);
    assert_eq!(others, [bound(&peer, &[hold(1), hold(2)])]);
}

fn cancelled_exclusive_job_hears_that_first(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    let told = desk.checked(&peer, &[HoldStanding::Held { cancelled: true, exclusive: true }]);
    assert_eq!(told, [stop(&peer, cancelled(hold(1))), bound(&peer, &[hold(1)])], "it need not even start");
}

fn silent_exclusive_job_is_told_to_stop_and_stays(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give_exclusive(&mut peer, &[hold(1), hold(2)]);
    let exclusive = Row { exclusive: true, ..row(&peer, hold(1)) };
    assert_eq!(desk.verify_row(&exclusive), Verdict::Push, "it need not beat by itself");
    let silent_row = Row { beats_itself: true, ..exclusive };
    assert_eq!(desk.verify_row(&silent_row), Verdict::AskAgain);
    assert_eq!(desk.drain(), [stop(&peer, silent(hold(1)))]);
    for _ in 0..3 {
        assert_eq!(desk.renew(&mut peer).stops, [silent(hold(1))], "in every answer");
        assert_eq!(desk.verify_row(&silent_row), Verdict::AskAgain);
        assert_eq!(desk.drain(), [], "it was told already");
        assert!(desk.registry.is_bound(&peer.key, hold(1)), "it stays held until it is reported");
    }
    desk.tell(Input::Settled { key: peer.key.clone(), holds: vec![hold(1)] });
    peer.unbind(hold(1));
    assert_eq!(desk.renew(&mut peer).stops, []);
    assert_eq!(desk.verify_row(&silent_row), Verdict::TakeBack, "who has let go has stopped");
}

fn silent_exclusive_job_that_is_cancelled_is_not_told_twice(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give_exclusive(&mut peer, &[hold(1)]);
    let silent_row = Row { exclusive: true, beats_itself: true, ..row(&peer, hold(1)) };
    let cancel = Input::Cancel { key: peer.key.clone(), hold: hold(1) };
    assert_eq!(desk.tell(cancel).len(), 1);
    assert_eq!(desk.verify_row(&silent_row), Verdict::AskAgain);
    assert_eq!(desk.drain(), []);
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1))], "that is why it ends");
}

fn unbound_exclusive_job_is_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted_exclusive(&peer, &[hold(1)]);
    let exclusive = Row { exclusive: true, ..row(&peer, hold(1)) };
    assert_eq!(desk.verify_row(&exclusive), Verdict::TakeBack, "it cannot have started");
    let bind = peer.bind(hold(1));
    assert_eq!(early(&mut desk, &peer, bind), [stop(&peer, lost(hold(1)))], "and must not start now");
}

fn exclusive_holds_stay_exclusive_under_a_new_key(bug: Bug) {
    let (mut desk, mut old) = Desk::joined(bug, "old");
    desk.give(&mut old, &[hold(1)]);
    desk.give_exclusive(&mut old, &[hold(2)]);
    let new = old.successor("new");
    let (ticket, _) = desk.beat(new.beat());
    desk.enlisted(&new.key, Enlisted::Known);
    let moved = Some(vec![true, true]);
    let outputs = desk.tell(Input::Succeeded { key: new.key.clone(), moved });
    let (answer, others) = split(ticket, &new.key, outputs);
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    assert_eq!(others[3..], [bound(&new, &[hold(2)])], "after the end of the former");
    desk.kick(&new);
    assert_eq!(desk.state(&new), Some(WorkerState::Stopping));
}
