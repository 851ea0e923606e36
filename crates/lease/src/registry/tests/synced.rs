//! When all that a worker holds is known for the first time: said once, and never of one that has ended.

use super::desk::{Desk, HELD, HELD_EXCLUSIVE, known, secs, split, stopped};
use super::peer::{Peer, hold, key};
use super::{Bug, cases};
use crate::message::Answer;
use crate::registry::{CHECK_MAX, Enlisted, HoldStanding, Input, Output};

cases![
    new_worker_without_jobs_is_synced_when_it_joins,
    worker_with_jobs_is_synced_when_their_rows_were_read,
    worker_that_holds_what_it_was_just_given_is_synced,
    restored_worker_is_synced_with_its_full_set,
    set_that_is_not_what_its_digest_says_is_not_known,
    worker_that_ends_before_is_never_synced,
    successor_is_synced_like_any_other,
];

fn new_worker_without_jobs_is_synced_when_it_joins(bug: Bug) {
    let mut desk = Desk::open(bug);
    let mut peer = Peer::new("a");
    desk.beat(peer.beat());
    assert_eq!(desk.synced, [], "it is not durable yet");
    desk.enlisted(&peer.key, Enlisted::Trouble);
    assert_eq!(desk.synced, [], "it was sent away");
    desk.join(&mut peer);
    assert_eq!(desk.synced, [key("a")]);
    desk.give(&mut peer, &[hold(1)]);
    peer.bind(hold(2));
    desk.accept(&mut peer);
    desk.checked(&peer, &[HoldStanding::Lost]);
    assert_eq!(desk.synced.len(), 1, "once, whatever comes later");
}

/// A worker whose first heartbeat names jobs.
fn joins_with(desk: &mut Desk, peer: &mut Peer) {
    let (ticket, _) = desk.beat(peer.beat());
    let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
    peer.hear(peer.change, &answer);
}

fn worker_with_jobs_is_synced_when_their_rows_were_read(bug: Bug) {
    for is_full in [false, true] {
        let mut desk = Desk::open(bug);
        let mut peer = Peer { wants_full: is_full, ..Peer::new("a") };
        (0..1_500).for_each(|job| _ = peer.bind(hold(job)));
        joins_with(&mut desk, &mut peer);
        assert_eq!(desk.synced, []);
        desk.checked(&peer, &[HELD; CHECK_MAX]);
        assert_eq!(desk.synced, [], "there are more");
        desk.tell(Input::Checked { key: peer.key.clone(), standings: None });
        desk.pass(secs(1));
        desk.checked(&peer, &[HELD; 500]);
        assert_eq!(desk.synced, [key("a")]);
    }
}

fn worker_that_holds_what_it_was_just_given_is_synced(bug: Bug) {
    let mut desk = Desk::open(bug);
    let peer = Peer::new("a");
    let (ticket, _) = desk.beat(peer.beat());
    desk.granted_exclusive(&peer, &[hold(1)]);
    let outputs = desk.enlisted(&peer.key, Enlisted::Known);
    assert!(matches!(split(ticket, &peer.key, outputs).0, Answer::Ok(_)));
    assert_eq!(desk.synced, [key("a")], "what is on its way is known, too");
}

fn restored_worker_is_synced_with_its_full_set(bug: Bug) {
    let mut peer = Peer::new("a");
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    peer.bind(hold(1));
    peer.binds.clear();
    let answer = desk.answer(peer.beat());
    peer.hear(peer.change, &answer);
    peer.wants_full = false;
    desk.renew(&mut peer);
    assert_eq!(desk.synced, [], "it did not say everything");
    let (_, others) = desk.accept(&mut peer);
    assert!(matches!(others[..], [Output::Check { .. }]));
    desk.checked(&peer, &[HELD_EXCLUSIVE]);
    assert_eq!(desk.synced, [key("a")]);
}

fn set_that_is_not_what_its_digest_says_is_not_known(bug: Bug) {
    let mut desk = Desk::open(bug);
    let mut peer = Peer::new("a");
    peer.bind(hold(1));
    let told = std::mem::take(&mut peer.binds);
    joins_with(&mut desk, &mut peer);
    assert_eq!(desk.synced, [], "it holds something that it has not named");
    assert!(peer.wants_full);
    desk.accept(&mut peer);
    desk.checked(&peer, &[HELD]);
    assert_eq!((desk.synced.len(), told.len()), (1, 1));
}

fn worker_that_ends_before_is_never_synced(bug: Bug) {
    let ends: [fn(&mut Desk, &Peer); 3] = [
        |desk, peer| _ = desk.kick(peer),
        |desk, peer| _ = desk.leave(peer, stopped(true)),
        |desk, _| _ = desk.pass(secs(30)),
    ];
    for end in ends {
        let mut desk = Desk::open(bug);
        let mut peer = Peer::new("a");
        peer.bind(hold(1));
        joins_with(&mut desk, &mut peer);
        end(&mut desk, &peer);
        desk.checked(&peer, &[HELD_EXCLUSIVE]);
        desk.retired(&peer, true);
        desk.beat(peer.beat());
        assert_eq!(desk.synced, []);
    }
}

fn successor_is_synced_like_any_other(bug: Bug) {
    let (mut desk, mut old) = Desk::joined(bug, "a");
    desk.give(&mut old, &[hold(1)]);
    let new = old.successor("b");
    desk.beat(new.beat());
    desk.enlisted(&new.key, Enlisted::Known);
    assert_eq!(desk.synced, [key("a")], "its holds are being moved");
    desk.tell(Input::Succeeded { key: new.key.clone(), moved: Some(vec![true]) });
    assert_eq!(desk.synced, [key("a"), key("b")]);
}
