//! A registry that is ours for certain only until we say so again.

use model::HolderEnd;

use super::desk::{Desk, HELD_EXCLUSIVE, bound, done, ended, known, millis, row, secs, split, stopped};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, Change, LaterReason};
use crate::registry::{Enlisted, Input, Output, Row, Verdict, WorkerState};

cases![
    exclusive_hold_is_extended_only_while_the_registry_is_ours,
    heartbeat_that_waited_for_the_store_is_answered_by_what_is_certain_now,
    exclusive_bind_is_acknowledged_when_the_registry_is_ours_again,
    early_exclusive_bind_is_withheld_and_said_later,
    exclusive_bind_whose_row_was_read_is_withheld_and_said_later,
    withheld_bind_that_was_let_go_of_is_not_said,
    ordinary_binds_wait_for_nothing,
    exclusive_lease_that_ran_out_stays_run_out,
    first_heartbeat_comes_back_later,
    known_worker_lives_on_and_gets_a_larger_grant,
    lease_timer_ends_nobody,
    silence_while_cut_off_does_not_count,
    hiccup_of_ownership_gives_nobody_time,
    late_answers_do_not_hide_how_long_it_was_not_ours,
    rows_are_asked_about_again,
    kick_waits,
    leave_goes_through_the_store,
    last_word_counts,
    never_said_means_ours,
];

/// A worker that knows its place, on a registry that is ours for another five seconds.
fn owned(bug: Bug) -> (Desk, Peer) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    assert_eq!(desk.own_for(secs(5)), []);
    (desk, peer)
}

/// The same when those are over.
fn uncertain(bug: Bug) -> (Desk, Peer) {
    let (mut desk, peer) = owned(bug);
    assert_eq!(desk.pass(secs(5)), []);
    (desk, peer)
}

fn early(desk: &mut Desk, peer: &Peer, bind: Change) -> Vec<Output> {
    desk.tell(Input::Bind { key: peer.key.clone(), nonce: peer.nonce, binds: vec![bind] })
}

fn exclusive_hold_is_extended_only_while_the_registry_is_ours(bug: Bug) {
    let (mut desk, mut peer) = owned(bug);
    desk.pass(millis(4_999));
    assert!(desk.renew(&mut peer).exclusive_hold, "not over yet");
    desk.pass(millis(1));
    for _ in 0..3 {
        let ack = desk.renew(&mut peer);
        assert!(!ack.exclusive_hold);
        assert_eq!(ack.lease, secs(20), "ordinary jobs go on");
        assert_eq!(desk.view(&peer).expires, desk.now + millis(20_020));
        desk.pass(secs(4));
    }
    assert_eq!(desk.own_for(secs(5)), []);
    assert!(desk.renew(&mut peer).exclusive_hold);
}

fn heartbeat_that_waited_for_the_store_is_answered_by_what_is_certain_now(bug: Bug) {
    for (own_again, expected) in [(false, false), (true, true)] {
        let (mut desk, mut peer) = owned(bug);
        peer.lease = secs(40);
        let (ticket, outputs) = desk.beat(peer.beat());
        assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
        desk.pass(secs(6));
        if own_again {
            desk.own_for(secs(5));
        }
        let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
        assert!(matches!(&answer, Answer::Ok(ack) if ack.exclusive_hold == expected), "{answer:?}");
    }
}

fn exclusive_bind_is_acknowledged_when_the_registry_is_ours_again(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.granted_exclusive(&peer, &[hold(1), hold(2)]);
    peer.bind(hold(1));
    desk.renew(&mut peer);
    peer.bind(hold(2));
    desk.renew(&mut peer);
    assert_eq!(desk.tell(Input::OwnedUntil(desk.now)), [], "that is not ours");
    assert_eq!(desk.own_for(secs(5)), [bound(&peer, &[hold(1), hold(2)])]);
    assert_eq!(desk.own_for(secs(6)), [], "once is enough");
    desk.renew(&mut peer);
}

fn early_exclusive_bind_is_withheld_and_said_later(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.granted_exclusive(&peer, &[hold(1)]);
    let bind = peer.bind(hold(1));
    for _ in 0..3 {
        assert_eq!(early(&mut desk, &peer, bind), []);
    }
    assert_eq!(desk.own_for(secs(5)), [bound(&peer, &[hold(1)])]);
    assert_eq!(early(&mut desk, &peer, bind), [bound(&peer, &[hold(1)])], "as often as it asks");
}

fn exclusive_bind_whose_row_was_read_is_withheld_and_said_later(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    peer.bind(hold(1));
    assert!(matches!(desk.accept(&mut peer).1[..], [Output::Check { .. }]));
    assert_eq!(desk.checked(&peer, &[HELD_EXCLUSIVE]), []);
    assert_eq!(desk.own_for(secs(5)), [bound(&peer, &[hold(1)])]);
}

fn withheld_bind_that_was_let_go_of_is_not_said(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.granted_exclusive(&peer, &[hold(1), hold(2)]);
    [hold(1), hold(2)].into_iter().for_each(|hold| _ = peer.bind(hold));
    desk.renew(&mut peer);
    peer.unbind(hold(1));
    desk.renew(&mut peer);
    assert_eq!(desk.own_for(secs(5)), [bound(&peer, &[hold(2)])]);

    let (mut desk, mut peer) = uncertain(bug);
    desk.granted_exclusive(&peer, &[hold(1)]);
    peer.bind(hold(1));
    desk.renew(&mut peer);
    desk.leave(&peer, stopped(true));
    assert_eq!(desk.own_for(secs(5)), [], "it is gone");
}

fn ordinary_binds_wait_for_nothing(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.granted(&peer, &[hold(1)]);
    desk.granted_exclusive(&peer, &[hold(2)]);
    let binds = vec![peer.bind(hold(1)), peer.bind(hold(2))];
    let (key, nonce) = (peer.key.clone(), peer.nonce);
    assert_eq!(desk.tell(Input::Bind { key, nonce, binds }), [bound(&peer, &[hold(1)])]);
}

fn exclusive_lease_that_ran_out_stays_run_out(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.granted_exclusive(&peer, &[hold(1), hold(2)]);
    let bind = peer.bind(hold(1));
    for _ in 0..5 {
        desk.renew(&mut peer);
        desk.pass(secs(4));
    }
    // Its exclusive lease was over at twenty seconds; now its ordinary one is renewed and the registry is ours again.
    desk.renew(&mut peer);
    assert_eq!(desk.own_for(secs(5)), []);
    assert_eq!(early(&mut desk, &peer, bind), []);
    peer.bind(hold(2));
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[0], Output::Answer { .. }), "the lease comes before what lives by it");
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert!(matches!(&answer, Answer::Ok(ack) if ack.exclusive_hold), "{answer:?}");
    assert_eq!(others, [bound(&peer, &[hold(1), hold(2)])]);
}

fn first_heartbeat_comes_back_later(bug: Bug) {
    let (mut desk, a) = uncertain(bug);
    let shows_token = Peer { token: a.token, ..Peer::new("somebody's") };
    for peer in [Peer::new("b"), a.successor("c"), shows_token] {
        let answer = desk.answer(peer.beat());
        assert_eq!(answer, Answer::Later { retry_after: secs(1), why: LaterReason::StoreTrouble });
        assert_eq!(desk.state(&peer), None);
    }
    desk.own_for(secs(5));
    desk.join(&mut Peer::new("b"));
}

fn known_worker_lives_on_and_gets_a_larger_grant(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    peer.lease = secs(60);
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "the store says whether it is ours: {outputs:?}");
    let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Trouble));
    assert!(matches!(&answer, Answer::Ok(ack) if ack.lease == secs(20)), "{answer:?}");
}

fn lease_timer_ends_nobody(bug: Bug) {
    let (mut desk, peer) = owned(bug);
    let mut heard = Peer::new("heard");
    desk.join(&mut heard);
    let mut kicked = Peer::new("kicked");
    desk.join(&mut kicked);
    desk.give_exclusive(&mut kicked, &[hold(1)]);
    desk.kick(&kicked);
    assert_eq!(desk.pass(secs(300)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    assert_eq!(desk.state(&kicked), Some(WorkerState::Stopping));
    desk.renew(&mut heard);
    // When it is ours again they have the whole time to be heard, and are ended only then.
    assert_eq!(desk.own_for(secs(100)), []);
    desk.pass(secs(10));
    desk.renew(&mut heard);
    assert_eq!(desk.pass(millis(10_019)), []);
    let ends: Vec<Output> = desk.pass(millis(1));
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Expired)));
    assert_eq!(desk.state(&kicked), Some(WorkerState::Ended(HolderEnd::Kicked)));
    assert_eq!(ends.len(), 5, "an end, and two that are gone and retired: {ends:?}");
    assert_eq!(desk.state(&heard), Some(WorkerState::Active));
    assert!(!desk.pass(secs(11)).is_empty(), "its own timer is set");
}

fn silence_while_cut_off_does_not_count(bug: Bug) {
    let (mut desk, mut a) = owned(bug);
    let mut b = Peer { lease: secs(60), ..Peer::new("b") };
    desk.join(&mut b);
    b.lease = secs(1);
    desk.renew(&mut b);
    // It is ours again before anybody's time is over, and still nobody could have been heard of.
    desk.pass(secs(19));
    assert_eq!(desk.own_for(secs(1_000)), []);
    assert_eq!(desk.pass(secs(20)), []);
    desk.renew(&mut a);
    assert_eq!(desk.state(&b), Some(WorkerState::Active), "by its largest grant, not its last");
    let outputs = desk.pass(secs(41));
    assert_eq!(desk.state(&b), Some(WorkerState::Ended(HolderEnd::Expired)), "{outputs:?}");
    assert_eq!(desk.answer(b.beat()), ended(HolderEnd::Expired));
}

fn hiccup_of_ownership_gives_nobody_time(bug: Bug) {
    let (mut desk, peer) = owned(bug);
    desk.pass(secs(4));
    desk.own_for(secs(16) - millis(500));
    // It is over 480 ms before the registry is ours again.
    assert_eq!(desk.pass(secs(16) + millis(20)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    let outputs = desk.own_for(secs(5));
    assert!(
        matches!(outputs[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{outputs:?}"
    );
}

fn late_answers_do_not_hide_how_long_it_was_not_ours(bug: Bug) {
    let (mut desk, peer) = uncertain(bug);
    desk.pass(secs(14));
    // Only now do we hear that it was ours a moment ago.
    desk.tell(Input::OwnedUntil(desk.now - millis(100)));
    desk.pass(millis(200));
    assert_eq!(desk.own_for(secs(100)), []);
    assert_eq!(desk.pass(secs(20)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    assert!(!desk.pass(secs(1)).is_empty());
}

fn rows_are_asked_about_again(bug: Bug) {
    let (mut desk, mut peer) = owned(bug);
    desk.give(&mut peer, &[hold(1)]);
    let nobodys = Row { registry: None, ..row(&Peer::new("curl"), hold(3)) };
    let rows = [row(&peer, hold(1)), row(&peer, hold(2)), row(&Peer::new("nobody"), hold(3)), nobodys];
    desk.pass(secs(5));
    for row in &rows {
        assert_eq!(desk.verify_row(row), Verdict::AskAgain);
    }
    desk.own_for(secs(5));
    let verdicts = rows.each_ref().map(|row| desk.verify_row(row));
    assert_eq!(verdicts, [Verdict::Push, Verdict::TakeBack, Verdict::TakeBack, Verdict::TakeBack]);
}

fn kick_waits(bug: Bug) {
    let (mut desk, peer) = uncertain(bug);
    let (ticket, outputs) = desk.kick(&peer);
    assert_eq!(outputs, []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    let outputs = desk.own_for(secs(5));
    assert!(
        matches!(outputs[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{outputs:?}"
    );
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
}

fn leave_goes_through_the_store(bug: Bug) {
    let (mut desk, mut peer) = uncertain(bug);
    desk.give(&mut peer, &[hold(1)]);
    let (ticket, outputs) = desk.leave(&peer, stopped(false));
    assert_eq!(outputs, [done(ticket)], "while jobs run it is silence");
    let (ticket, outputs) = desk.leave(&peer, stopped(true));
    assert!(
        matches!(outputs[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{outputs:?}"
    );
    // The store refuses: it is another server's by now. Nobody hears that it is done.
    assert_eq!(desk.retired(&peer, false), []);
    assert!(matches!(desk.pass(secs(1))[..], [Output::Retire { .. }]));
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
}

fn last_word_counts(bug: Bug) {
    let (mut desk, mut peer) = owned(bug);
    desk.own_for(secs(50));
    assert!(desk.renew(&mut peer).exclusive_hold);
    // We resign.
    desk.own_for(secs(0));
    assert!(!desk.renew(&mut peer).exclusive_hold);
}

fn never_said_means_ours(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    for _ in 0..50 {
        assert!(desk.renew(&mut peer).exclusive_hold);
        desk.pass(secs(10));
    }
    let mut restored = Peer::new("r");
    let mut desk = Desk::reopened(bug, &[known(&restored)]);
    let answer = desk.answer(restored.beat());
    restored.hear(0, &answer);
    assert!(desk.renew(&mut restored).exclusive_hold);
}
