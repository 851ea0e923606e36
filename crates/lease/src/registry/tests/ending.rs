//! How workers end, and what is remembered of them.

use model::{HolderEnd, Nonce};

use super::desk::{Desk, done, ended, millis, secs, split, stopped, terms};
use super::peer::{Peer, hold, key};
use super::{Bug, cases};
use crate::message::Answer;
use crate::registry::{Enlisted, Input, Output, Retired, Ticket, WorkerState};

cases![
    silent_worker_expires_when_its_lease_is_over,
    heartbeats_keep_a_worker_alive_for_ever,
    retirement_is_asked_for_until_it_is_done,
    key_that_comes_back_has_one_timer,
    ended_workers_are_remembered_for_a_while,
    worker_that_stopped_everything_leaves_at_once,
    worker_that_holds_nothing_leaves_at_once,
    worker_that_leaves_while_jobs_run_is_only_silent,
    leave_with_another_nonce_changes_nothing,
    leaves_of_the_unknown_and_the_ended_are_done,
    several_leaves_wait_for_one_retirement,
    holder_that_never_heartbeat_leaves,
    holder_that_never_heartbeat_cannot_end_a_worker,
    kicked_worker_ends_at_once,
    leave_and_kick_of_a_joining_worker_wait_for_it,
    leave_and_kick_wait_until_the_store_was_read,
];

fn leave(desk: &mut Desk, peer: &Peer, all_stopped: bool) -> (Ticket, Vec<Output>) {
    desk.leave(peer, stopped(all_stopped))
}

fn kick(desk: &mut Desk, peer: &Peer) -> (Ticket, Vec<Output>) {
    desk.kick(peer)
}

/// A worker goes now, by no clock, and it does not count against its jobs.
fn gone(desk: &Desk, peer: &Peer, end: HolderEnd) -> [Output; 3] {
    let (key, stopped_by) = (peer.key.clone(), desk.now);
    [
        Output::Ended { key: key.clone(), end },
        Output::Gone { key: key.clone() },
        Output::Retire { key, stranger: None, end, counted: false, stopped_by, unproven: false },
    ]
}

fn silent_worker_expires_when_its_lease_is_over(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let stopped_by = desk.now + millis(19_980);
    assert_eq!(desk.pass(millis(20_019)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    let outputs = desk.pass(millis(1));
    let (key, end) = (peer.key.clone(), HolderEnd::Expired);
    assert_eq!(
        outputs,
        [
            Output::Ended { key: key.clone(), end },
            Output::Gone { key: key.clone() },
            Output::Retire { key, stranger: None, end, counted: true, stopped_by, unproven: false }
        ]
    );
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(end)));
    assert_eq!((desk.bound(&peer), desk.registry.active_count()), (vec![], 0));
    assert_eq!(desk.answer(peer.beat()), ended(end), "at once, durable or not");
    assert_eq!(desk.registry.next_deadline(), None, "nothing to wait for but the store");
}

fn heartbeats_keep_a_worker_alive_for_ever(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    for n in 0..1_000 {
        assert_eq!(desk.pass(secs(n % 20)), []);
        let ack = desk.renew(&mut peer);
        assert_eq!((ack.lease, ack.resync), (secs(20), false));
        assert_eq!(desk.view(&peer).expires, desk.now + millis(20_020));
    }
}

fn retirement_is_asked_for_until_it_is_done(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let when = desk.now + millis(19_980);
    desk.pass(secs(21));
    for pause in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        assert_eq!(desk.retired(&peer, false), []);
        assert_eq!(desk.pass(millis(pause - 1)), []);
        let outputs = desk.pass(millis(1));
        let (key, end) = (peer.key.clone(), HolderEnd::Expired);
        assert_eq!(
            outputs,
            [Output::Retire { key, stranger: None, end, counted: true, stopped_by: when, unproven: false }]
        );
    }
    // Told twice, it is still asked for once, after the longer pause.
    assert_eq!(desk.retired(&peer, false), []);
    desk.now = desk.now + millis(1);
    assert_eq!(desk.retired(&peer, false), []);
    assert_eq!(desk.pass(millis(4_999)), []);
    assert_eq!(desk.pass(secs(20)).len(), 1);
    desk.retired(&peer, true);
    assert_eq!(desk.pass(secs(60)), []);
}

fn key_that_comes_back_has_one_timer(bug: Bug) {
    let mut terms = terms();
    terms.remember_ended = secs(1);
    let mut desk = Desk::with(terms, bug);
    desk.tell(Input::Restored(Vec::new()));
    for _ in 0..10 {
        let mut peer = Peer::new("a");
        desk.join(&mut peer);
        kick(&mut desk, &peer);
        desk.retired(&peer, true);
        assert_eq!(desk.pass(secs(1)), []);
        assert_eq!(desk.state(&peer), None, "it is forgotten, and so may be its end in the store");
    }
    let mut peer = Peer::new("a");
    desk.join(&mut peer);
    for _ in 0..30 {
        assert_eq!(desk.pass(secs(1)), []);
        desk.renew(&mut peer);
    }
    assert_eq!(desk.registry.timers.len(), 1);
}

fn ended_workers_are_remembered_for_a_while(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    kick(&mut desk, &peer);
    assert_eq!(desk.pass(secs(6_000)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Kicked)), "its end is not durable");
    desk.retired(&peer, true);
    desk.pass(millis(599_999));
    assert_eq!(desk.registry.workers().len(), 1);
    desk.pass(millis(1));
    assert_eq!(desk.registry.workers(), []);
    assert_eq!(desk.registry.next_deadline(), None);

    // More than anybody wants to see: the oldest go first.
    let mut terms = terms();
    terms.registrations_per_second = 1_000_000;
    let mut desk = Desk::with(terms, bug);
    desk.tell(Input::Restored(Vec::new()));
    for n in 0..10_002 {
        let mut peer = Peer::new(&format!("w{n:05}"));
        desk.join(&mut peer);
        kick(&mut desk, &peer);
        desk.retired(&peer, true);
    }
    let remembered = desk.registry.workers();
    assert_eq!((remembered.len(), remembered[0].key.as_str()), (10_000, "w00002"));
    assert!(remembered.is_sorted_by_key(|view| view.key.clone()));
}

fn worker_that_stopped_everything_leaves_at_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let (ticket, outputs) = leave(&mut desk, &peer, true);
    let expected = gone(&desk, &peer, HolderEnd::Left);
    assert_eq!(outputs, expected);
    assert_eq!(desk.retired(&peer, false), []);
    assert_eq!(desk.pass(millis(100)), expected[2..], "no clock was involved");
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
    assert_eq!(desk.pass(secs(30)), [], "its lease means nothing any more");
}

fn worker_that_holds_nothing_leaves_at_once(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    assert_eq!(leave(&mut desk, &peer, false).1, gone(&desk, &peer, HolderEnd::Left));
    // Who was just given a job may have begun it.
    let (mut desk, peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    let (ticket, outputs) = leave(&mut desk, &peer, false);
    assert_eq!((outputs, desk.state(&peer)), (vec![done(ticket)], Some(WorkerState::Active)));
}

fn worker_that_leaves_while_jobs_run_is_only_silent(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let (ticket, outputs) = leave(&mut desk, &peer, false);
    assert_eq!(outputs, [done(ticket)]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    let outputs = desk.pass(secs(21));
    assert!(matches!(
        outputs[..],
        [Output::Ended { end: HolderEnd::Expired, .. }, Output::Gone { .. }, Output::Retire { .. }]
    ));
    // Of a restored worker nobody knows what it holds.
    let mut desk = Desk::reopened(bug, &[super::desk::known(&peer)]);
    let (ticket, outputs) = leave(&mut desk, &peer, false);
    assert_eq!(outputs, [done(ticket)]);
    assert_eq!(leave(&mut desk, &peer, true).1, gone(&desk, &peer, HolderEnd::Left));
}

fn leave_with_another_nonce_changes_nothing(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let before = desk.view(&peer);
    let other = Peer { nonce: Nonce::new(8), ..peer.clone() };
    let (ticket, outputs) = leave(&mut desk, &other, true);
    assert_eq!((outputs, desk.view(&peer)), (vec![done(ticket)], before));
}

fn leaves_of_the_unknown_and_the_ended_are_done(bug: Bug) {
    let mut desk = Desk::open(bug);
    let mut peer = Peer::new("a");
    let (ticket, outputs) = leave(&mut desk, &peer, false);
    assert_eq!(outputs, [done(ticket)]);
    let (ticket, outputs) = kick(&mut desk, &peer);
    assert_eq!(outputs, [done(ticket)]);
    desk.join(&mut peer);
    leave(&mut desk, &peer, true);
    desk.retired(&peer, true);
    for all_stopped in [false, true] {
        let (ticket, outputs) = leave(&mut desk, &peer, all_stopped);
        assert_eq!(outputs, [done(ticket)]);
        let (ticket, outputs) = kick(&mut desk, &peer);
        assert_eq!(outputs, [done(ticket)]);
    }
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Left)));
}

fn several_leaves_wait_for_one_retirement(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let (first, _) = leave(&mut desk, &peer, true);
    let (second, outputs) = leave(&mut desk, &peer, true);
    assert_eq!(outputs, [], "it is asked for once");
    let (third, outputs) = kick(&mut desk, &peer);
    assert_eq!(outputs, []);
    assert_eq!(desk.retired(&peer, true), [done(first), done(second), done(third)]);
    assert_eq!(desk.retired(&peer, true), []);
}

fn holder_that_never_heartbeat_leaves(bug: Bug) {
    let mut desk = Desk::open(bug);
    let curl = |ticket, all_stopped| Input::Leave {
        ticket,
        key: key("curl"),
        nonce: Nonce::new(3),
        leave: stopped(all_stopped),
    };
    assert_eq!(desk.tell(curl(Ticket(1), false)), [done(Ticket(1))], "its row leases decide");
    let outputs = desk.tell(curl(Ticket(2), true));
    let end = HolderEnd::Left;
    let stopped_by = desk.now;
    let stranger = Some(Nonce::new(3));
    assert_eq!(
        outputs,
        [Output::Retire { key: key("curl"), stranger, end, counted: false, stopped_by, unproven: false }]
    );
    assert_eq!(desk.tell(curl(Ticket(3), true)), [], "it is asked for once");
    assert_eq!(desk.tell(Input::Retired { key: key("curl"), answer: Retired::Trouble }), []);
    assert_eq!(desk.pass(millis(100)).len(), 1);
    let outputs = desk.tell(Input::Retired { key: key("curl"), answer: Retired::Done });
    assert_eq!(outputs, [done(Ticket(2)), done(Ticket(3))]);
    assert_eq!(desk.answer(Peer::new("curl").beat()), ended(end), "the store would say the same");
    assert_eq!((desk.registry.active_count(), desk.pass(secs(601))), (0, vec![]));
    assert_eq!(desk.registry.workers(), []);
}

fn holder_that_never_heartbeat_cannot_end_a_worker(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let ticket = desk.ticket();
    let outputs = desk.tell(Input::Leave {
        ticket,
        key: peer.key.clone(),
        nonce: Nonce::default(),
        leave: stopped(true),
    });
    assert_eq!((outputs, desk.state(&peer)), (vec![done(ticket)], Some(WorkerState::Active)));
}

fn kicked_worker_ends_at_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let (ticket, outputs) = kick(&mut desk, &peer);
    assert_eq!(outputs, gone(&desk, &peer, HolderEnd::Kicked));
    assert_eq!(desk.answer(peer.beat()), ended(HolderEnd::Kicked));
    desk.granted(&peer, &[hold(2)]);
    assert_eq!(desk.view(&peer).assigned, 0, "a claim that came too late is not its");
    assert_eq!(desk.retired(&peer, true), [done(ticket)]);
}

fn leave_and_kick_of_a_joining_worker_wait_for_it(bug: Bug) {
    for is_kick in [false, true] {
        let go =
            |desk: &mut Desk, peer: &Peer| if is_kick { kick(desk, peer) } else { leave(desk, peer, true) };
        let end = if is_kick { HolderEnd::Kicked } else { HolderEnd::Left };
        let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
        let (beat, _) = desk.beat(peer.beat());
        let (ticket, outputs) = go(&mut desk, &peer);
        assert_eq!(outputs, []);
        let (answer, others) = split(beat, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
        assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
        assert_eq!(others, gone(&desk, &peer, end));
        assert_eq!(desk.retired(&peer, true), [done(ticket)]);

        let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
        let (beat, _) = desk.beat(peer.beat());
        let (ticket, _) = go(&mut desk, &peer);
        let (_, others) = split(beat, &peer.key, desk.enlisted(&peer.key, Enlisted::Trouble));
        if is_kick {
            assert_eq!(others, [done(ticket)], "nobody is left to go");
            continue;
        }
        // The store may have taken it in all the same.
        let stranger = Some(peer.nonce);
        assert!(matches!(others[..], [Output::Retire { stranger: it, .. }] if it == stranger), "{others:?}");
    }
}

fn leave_and_kick_wait_until_the_store_was_read(bug: Bug) {
    let (left, kicked) = (Peer::new("left"), Peer::new("kicked"));
    let mut desk = Desk::closed(bug);
    assert_eq!(leave(&mut desk, &left, true).1, []);
    assert_eq!(kick(&mut desk, &kicked).1, []);
    let ticket = desk.ticket();
    // Somebody who knows a worker's key but is not it.
    let (key, nonce) = (kicked.key.clone(), Nonce::default());
    assert_eq!(desk.tell(Input::Leave { ticket, key, nonce, leave: stopped(true) }), []);
    let outputs = desk.tell(Input::Restored(vec![super::desk::known(&left), super::desk::known(&kicked)]));
    // Nobody knows what a restored worker holds: a kicked one may have to stop exclusive jobs first.
    let stops = Output::Ended { key: kicked.key.clone(), end: HolderEnd::Kicked };
    let expected =
        [&gone(&desk, &left, HolderEnd::Left)[..], &[stops, done(Ticket(2)), done(ticket)]].concat();
    assert_eq!(outputs, expected);
}
