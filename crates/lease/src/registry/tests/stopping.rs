//! Kicked workers that must stop exclusive jobs first, and what workers say of when they stopped.

use std::time::Duration;

use model::{HolderEnd, Instant, Nonce};

use super::desk::{Desk, HELD_EXCLUSIVE, done, ended, known, lost, millis, row, secs, split, stopped};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, Leave};
use crate::registry::{Enlisted, HoldStanding, Input, Output, Row, Verdict, WorkerState};

cases![
    kicked_worker_with_exclusive_jobs_stops_first,
    stopping_worker_ends_by_its_own_word,
    worker_that_may_have_exclusive_jobs_stops_first,
    worker_without_exclusive_jobs_is_kicked_at_once,
    stopping_worker_gets_nothing_and_learns_nothing,
    waiting_heartbeat_of_a_stopping_worker_is_answered,
    successor_of_a_stopping_worker_inherits_nothing,
    former_that_is_kicked_while_a_successor_waits_ends_with_its_lease,
    former_that_is_stopping_when_its_holds_have_moved_ends_as_kicked,
    own_stall_is_not_given_back_to_a_stopping_worker,
    crashed_worker_is_counted_and_says_when_it_stopped,
    late_word_is_passed_on_once,
    late_word_matters_only_where_jobs_were_handed_over,
    shorter_lease_does_not_hide_what_a_longer_one_allowed,
    restored_worker_may_have_run_for_as_long_as_its_grant,
];

/// A worker with an exclusive job.
fn exclusive(bug: Bug) -> (Desk, Peer) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give_exclusive(&mut peer, &[hold(1)]);
    (desk, peer)
}

fn end_of_session(peer: &Peer) -> Output {
    Output::Ended { key: peer.key.clone(), end: HolderEnd::Kicked }
}

fn retire(peer: &Peer, end: HolderEnd, counted: bool, stopped_by: Instant) -> Output {
    Output::Retire { key: peer.key.clone(), stranger: None, end, counted, stopped_by, unproven: false }
}

/// Nothing exclusive of it runs any more, and the store is to know.
fn goes(peer: &Peer, end: HolderEnd, counted: bool, stopped_by: Instant) -> [Output; 2] {
    [Output::Gone { key: peer.key.clone() }, retire(peer, end, counted, stopped_by)]
}

/// All has stopped, this long ago.
fn since(stopped_for: Duration) -> Leave {
    Leave { stopped_for, ..stopped(true) }
}

fn kicked_worker_with_exclusive_jobs_stops_first(bug: Bug) {
    let (mut desk, mut peer) = exclusive(bug);
    let (renewed_at, before) = (desk.now, desk.view(&peer));
    desk.pass(secs(5));
    let (ticket, outputs) = desk.kick(&peer);
    assert_eq!(outputs, [end_of_session(&peer), done(ticket)], "its session ends, its jobs stay");
    assert_eq!((desk.state(&peer), desk.registry.active_count()), (Some(WorkerState::Stopping), 0));
    assert_eq!((desk.view(&peer).expires, desk.view(&peer).bound), (before.expires, 1));
    for _ in 0..3 {
        assert_eq!(desk.answer(peer.beat()), ended(HolderEnd::Kicked));
        for beats_itself in [false, true] {
            let row = Row { beats_itself, exclusive: true, ..row(&peer, hold(1)) };
            assert_eq!(desk.verify_row(&row), Verdict::AskAgain);
        }
        let (again, outputs) = desk.kick(&peer);
        assert_eq!(outputs, [done(again)], "once is enough");
    }
    let binds = vec![peer.bind(hold(2))];
    let outputs = desk.tell(Input::Bind { key: peer.key.clone(), nonce: peer.nonce, binds });
    assert_eq!(outputs, [Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(2))] }]);
    assert_eq!(desk.pass(millis(15_019)), [], "not before its lease is over");
    let by_the_rule = renewed_at + millis(19_980);
    assert_eq!(desk.pass(millis(1)), goes(&peer, HolderEnd::Kicked, false, by_the_rule));
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain, "that is not durable yet");
    desk.retired(&peer, true);
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Kicked)));
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
}

fn stopping_worker_ends_by_its_own_word(bug: Bug) {
    let (mut desk, peer) = exclusive(bug);
    desk.kick(&peer);
    desk.pass(secs(5));
    let (ticket, outputs) = desk.leave(&peer, stopped(false));
    assert_eq!(outputs, [done(ticket)], "that says nothing");
    let (ticket, outputs) = desk.leave(&Peer { nonce: Nonce::new(8), ..peer.clone() }, stopped(true));
    assert_eq!(outputs, [done(ticket)], "that is somebody else");
    let ticket = desk.ticket();
    let anonymous =
        Input::Leave { ticket, key: peer.key.clone(), nonce: Nonce::default(), leave: stopped(true) };
    assert_eq!(desk.tell(anonymous), [done(ticket)]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Stopping));
    let (ticket, outputs) = desk.leave(&peer, since(secs(2)));
    let expected = goes(&peer, HolderEnd::Kicked, false, desk.now - secs(2));
    assert_eq!(outputs, expected);
    assert_eq!(desk.retired(&peer, false), []);
    assert_eq!(desk.pass(millis(100)), expected[1..], "the same whenever it is asked for");
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
    assert_eq!(desk.pass(secs(60)), []);
}

fn worker_that_may_have_exclusive_jobs_stops_first(bug: Bug) {
    // Not heard of since a restart, given one, or one whose row is being read.
    let peer = Peer::new("a");
    let mut restored = Desk::reopened(bug, &[known(&peer)]);
    restored.kick(&peer);
    let (mut given, peer) = Desk::joined(bug, "a");
    given.granted_exclusive(&peer, &[hold(1)]);
    given.kick(&peer);
    let (mut checking, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    checking.accept(&mut peer);
    checking.kick(&peer);
    for desk in [restored, given, checking] {
        assert_eq!(desk.state(&peer), Some(WorkerState::Stopping));
    }
}

fn worker_without_exclusive_jobs_is_kicked_at_once(bug: Bug) {
    let (mut desk, mut peer) = exclusive(bug);
    desk.give(&mut peer, &[hold(2)]);
    desk.granted_exclusive(&peer, &[hold(3), hold(4)]);
    desk.tell(Input::Settled { key: peer.key.clone(), holds: vec![hold(3)] });
    assert_eq!(desk.verify(&peer, hold(4)), Verdict::TakeBack, "it never came");
    peer.unbind(hold(1));
    desk.renew(&mut peer);
    desk.pass(secs(1));
    let (_, outputs) = desk.kick(&peer);
    let [gone, retire] = goes(&peer, HolderEnd::Kicked, false, desk.now);
    assert_eq!(outputs, [end_of_session(&peer), gone, retire]);
}

fn stopping_worker_gets_nothing_and_learns_nothing(bug: Bug) {
    let (mut desk, mut peer) = exclusive(bug);
    peer.bind(hold(2));
    desk.accept(&mut peer);
    desk.kick(&peer);
    let before = desk.view(&peer);
    desk.granted_exclusive(&peer, &[hold(3)]);
    assert_eq!(desk.view(&peer), before, "a claim that came too late is not its");
    assert_eq!(desk.tell(Input::Drain { key: peer.key.clone() }), []);
    assert_eq!(desk.checked(&peer, &[HELD_EXCLUSIVE]), [], "nothing may start");
    assert_eq!(desk.state(&peer), Some(WorkerState::Stopping));
}

fn waiting_heartbeat_of_a_stopping_worker_is_answered(bug: Bug) {
    let (mut desk, mut peer) = exclusive(bug);
    peer.lease = secs(60);
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    let expires = desk.view(&peer).expires;
    let (answer, others) = split(ticket, &peer.key, desk.kick(&peer).1);
    assert_eq!(answer, ended(HolderEnd::Kicked));
    assert_eq!(others.len(), 2, "{others:?}");
    for answer in [Enlisted::Known, Enlisted::Terminal(HolderEnd::Left), Enlisted::Taken] {
        assert_eq!(desk.enlisted(&peer.key, answer), []);
    }
    assert_eq!((desk.state(&peer), desk.view(&peer).expires), (Some(WorkerState::Stopping), expires));
}

fn successor_of_a_stopping_worker_inherits_nothing(bug: Bug) {
    let (mut desk, old) = exclusive(bug);
    desk.kick(&old);
    let expires = desk.view(&old).expires;
    let new = old.successor("new");
    let (ticket, _) = desk.beat(new.beat());
    let (answer, others) = split(ticket, &new.key, desk.enlisted(&new.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "it is welcome: {answer:?}");
    assert_eq!(others, [Output::Check { key: new.key.clone(), holds: vec![hold(1)] }]);
    desk.checked(&new, &[HoldStanding::Lost]);
    assert_eq!((desk.state(&old), desk.view(&old).expires), (Some(WorkerState::Stopping), expires));
    let outputs = desk.pass(expires.since(desk.now));
    assert!(matches!(&outputs[1], Output::Retire { key, .. } if *key == old.key), "{outputs:?}");
}

fn former_that_is_kicked_while_a_successor_waits_ends_with_its_lease(bug: Bug) {
    // Whether its lease is over by then, or is over later.
    for (wait, rest) in [(60, 0), (5, 16)] {
        let (mut desk, old) = exclusive(bug);
        let by_the_rule = desk.now + millis(19_980);
        let new = old.successor("new");
        let (ticket, _) = desk.beat(new.beat());
        assert_eq!(desk.pass(secs(wait)), [], "the store takes its time");
        desk.kick(&old);
        assert_eq!(desk.pass(secs(rest)), goes(&old, HolderEnd::Kicked, false, by_the_rule));
        let (_, others) = split(ticket, &new.key, desk.enlisted(&new.key, Enlisted::Known));
        assert_eq!(others, [Output::Check { key: new.key.clone(), holds: vec![hold(1)] }]);
    }
}

fn former_that_is_stopping_when_its_holds_have_moved_ends_as_kicked(bug: Bug) {
    let (mut desk, old) = exclusive(bug);
    let new = old.successor("new");
    let (ticket, _) = desk.beat(new.beat());
    assert!(matches!(desk.enlisted(&new.key, Enlisted::Known)[..], [Output::Succeed { .. }]));
    desk.kick(&old);
    let outputs = desk.tell(Input::Succeeded { key: new.key.clone(), moved: Some(vec![true]) });
    let (_, others) = split(ticket, &new.key, outputs);
    assert_eq!(others, [super::desk::bound(&new, &[hold(1)])], "the store's word counts");
    assert_eq!(desk.state(&old), Some(WorkerState::Stopping), "and hastens nothing");
    let outputs = desk.pass(millis(20_020));
    assert!(matches!(&outputs[1], Output::Retire { key, end: HolderEnd::Kicked, .. } if *key == old.key));
}

fn own_stall_is_not_given_back_to_a_stopping_worker(bug: Bug) {
    let (mut desk, peer) = exclusive(bug);
    let mut other = Peer::new("b");
    desk.join(&mut other);
    desk.kick(&peer);
    let expires = desk.view(&peer).expires;
    desk.freeze(secs(10));
    desk.registry.handle_deadline(desk.now);
    assert_eq!(desk.registry.stalls(), 1);
    assert_eq!(desk.view(&peer).expires, expires, "none of its heartbeats could have renewed anything");
}

fn crashed_worker_is_counted_and_says_when_it_stopped(bug: Bug) {
    let (mut desk, peer) = exclusive(bug);
    desk.pass(secs(3));
    let (ticket, outputs) = desk.leave(&peer, Leave { crashed: true, ..stopped(false) });
    assert_eq!(outputs, [done(ticket)], "jobs may still run");
    let (_, outputs) = desk.leave(&peer, Leave { crashed: true, ..since(millis(300)) });
    let end = HolderEnd::Crashed;
    let [gone, retire] = goes(&peer, end, true, desk.now - millis(300));
    assert_eq!(outputs, [Output::Ended { key: peer.key.clone(), end }, gone, retire]);
    assert_eq!(desk.answer(peer.beat()), ended(end));

    let (mut desk, peer) = exclusive(bug);
    let (_, outputs) = desk.leave(&peer, since(millis(300)));
    assert_eq!(outputs[1..], goes(&peer, HolderEnd::Left, false, desk.now - millis(300)));
}

fn late_word(peer: &Peer, ended_at: Instant, stopped_at: Instant) -> Output {
    Output::LateWord { key: peer.key.clone(), ended_at, stopped_at, volatile: false }
}

fn late_word_is_passed_on_once(bug: Bug) {
    for is_kicked in [false, true] {
        let (mut desk, peer) = exclusive(bug);
        let ended_at = desk.now + millis(20_020);
        if is_kicked {
            desk.kick(&peer);
        }
        desk.pass(secs(30));
        let (silence, outputs) = desk.leave(&peer, stopped(false));
        assert_eq!(outputs, [], "it waits for the retirement, and says nothing of when it stopped");
        let ticket = desk.ticket();
        let anonymous =
            Input::Leave { ticket, key: peer.key.clone(), nonce: Nonce::default(), leave: stopped(true) };
        assert_eq!(desk.tell(anonymous), [done(ticket)], "nor does anybody else");
        let (word, outputs) = desk.leave(&peer, since(secs(11)));
        assert_eq!(outputs, [late_word(&peer, ended_at, desk.now - secs(11))]);
        assert_eq!(desk.retired(&peer, true), [done(silence), done(word)]);
        let (ticket, outputs) = desk.leave(&peer, since(secs(11)));
        assert_eq!(outputs, [done(ticket)], "once");
    }
    // It is worth the same when the end is long durable.
    let (mut desk, peer) = exclusive(bug);
    desk.pass(secs(30));
    desk.retired(&peer, true);
    desk.pass(secs(300));
    let (ticket, outputs) = desk.leave(&peer, since(secs(311)));
    assert_eq!(outputs[1], done(ticket));
    assert!(matches!(outputs[0], Output::LateWord { .. }), "{outputs:?}");
}

fn late_word_matters_only_where_jobs_were_handed_over(bug: Bug) {
    let late_words = |desk: &mut Desk, peer: &Peer| {
        let (_, outputs) = desk.leave(peer, since(secs(1)));
        outputs.iter().filter(|output| matches!(output, Output::LateWord { .. })).count()
    };
    let (mut ordinary, mut peer) = Desk::joined(bug, "a");
    ordinary.give(&mut peer, &[hold(1)]);
    ordinary.pass(secs(30));
    assert_eq!(late_words(&mut ordinary, &peer), 0, "ordinary jobs may run twice");
    let (mut left, peer) = exclusive(bug);
    left.leave(&peer, stopped(true));
    assert_eq!(late_words(&mut left, &peer), 0, "it repeats itself");
    let mut unheard = Desk::reopened(bug, &[known(&peer)]);
    unheard.pass(secs(30));
    assert_eq!(late_words(&mut unheard, &peer), 0, "of this one we know nothing");
}

fn shorter_lease_does_not_hide_what_a_longer_one_allowed(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let start = desk.now;
    let stopped_by = |outputs: &[Output]| match outputs {
        [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { stopped_by, .. }] => *stopped_by,
        other => panic!("{other:?}"),
    };
    desk.pass(secs(1));
    peer.lease = secs(1);
    desk.renew(&mut peer);
    // Its own clock lets it run by the first answer, made shorter by what the last one is made shorter.
    assert_eq!(stopped_by(&desk.pass(secs(30))), start + millis(19_999));

    // Back to the longer one, it is as if there had been no other.
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    for lease in [1, 20] {
        peer.lease = secs(lease);
        desk.pass(secs(1));
        desk.renew(&mut peer);
    }
    let renewed_at = desk.now;
    assert_eq!(stopped_by(&desk.pass(secs(30))), renewed_at + millis(19_980));
}

fn restored_worker_may_have_run_for_as_long_as_its_grant(bug: Bug) {
    let peer = Peer::new("a");
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    let restarted_at = desk.now;
    let outputs = desk.pass(secs(21));
    assert_eq!(outputs[1..], goes(&peer, HolderEnd::Expired, true, restarted_at + secs(20)));
}
