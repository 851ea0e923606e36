//! Who may speak for a key: the process that the registry has taken a heartbeat of, and before that nobody.

use model::{HolderEnd, Nonce};

use super::desk::{Desk, known, secs, split, stopped};
use super::peer::Peer;
use super::{Bug, cases};
use crate::message::{Answer, Generation, Token};
use crate::registry::{Enlisted, Retired, Speaker};

cases![
    worker_speaks_for_its_key_and_nobody_else_does,
    nobody_speaks_for_a_key_before_its_first_heartbeat_was_taken,
    restored_worker_speaks_before_it_was_heard,
    worker_of_a_life_before_speaks_once_it_is_durable,
    key_of_a_worker_that_is_over_is_still_its_own,
    word_of_a_stranger_gives_no_right_to_a_key,
];

fn speaks(desk: &Desk, peer: &Peer) -> [Speaker; 2] {
    [peer.nonce, Nonce::new(666)].map(|nonce| desk.registry.speaker(&peer.key, nonce))
}

const ITS_OWN: [Speaker; 2] = [Speaker::Worker, Speaker::Impostor];
const NOBODYS: [Speaker; 2] = [Speaker::Unknown; 2];

fn worker_speaks_for_its_key_and_nobody_else_does(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    assert_eq!(speaks(&desk, &peer), ITS_OWN);
    desk.renew(&mut peer);
    assert_eq!(speaks(&desk, &peer), ITS_OWN);
}

fn nobody_speaks_for_a_key_before_its_first_heartbeat_was_taken(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    assert_eq!(speaks(&desk, &peer), NOBODYS);
    // Whoever says so first may be anybody: the store decides.
    let (ticket, _) = desk.beat(peer.beat());
    assert_eq!(speaks(&desk, &peer), NOBODYS);
    split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Taken));
    assert_eq!(speaks(&desk, &peer), NOBODYS);
    let (ticket, _) = desk.beat(peer.beat());
    split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert_eq!(speaks(&desk, &peer), ITS_OWN);
}

fn restored_worker_speaks_before_it_was_heard(bug: Bug) {
    let peer = Peer::new("a");
    let desk = Desk::reopened(bug, &[known(&peer)]);
    assert_eq!(speaks(&desk, &peer), ITS_OWN);
}

fn worker_of_a_life_before_speaks_once_it_is_durable(bug: Bug) {
    let (mut desk, mut peer) = (Desk::memoryless(bug), Peer::new("a"));
    peer.token = Some(Token { generation: Generation(8), sequence: 40 });
    assert_eq!(speaks(&desk, &peer), NOBODYS);
    let (ticket, _) = desk.beat(peer.beat());
    let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Mismatch { .. }), "{answer:?}");
    assert_eq!(speaks(&desk, &peer), ITS_OWN, "what it has to report need not wait for its next heartbeat");
}

fn key_of_a_worker_that_is_over_is_still_its_own(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    desk.pass(secs(21));
    assert_eq!(desk.registry.worker(&peer.key).map(|view| view.state), Some(ended(HolderEnd::Expired)));
    assert_eq!(speaks(&desk, &peer), ITS_OWN);
}

fn word_of_a_stranger_gives_no_right_to_a_key(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    desk.leave(&peer, stopped(true));
    assert_eq!(speaks(&desk, &peer), NOBODYS);
    desk.tell(crate::registry::Input::Retired { key: peer.key.clone(), answer: Retired::Done });
    assert_eq!(speaks(&desk, &peer), NOBODYS);
}

fn ended(end: HolderEnd) -> crate::registry::WorkerState {
    crate::registry::WorkerState::Ended(end)
}

#[test]
fn a_record_decides_who_speaks() {
    let (its, other) = (Nonce::new(7), Nonce::new(8));
    for (on_record, expected) in
        [(None, Speaker::Unknown), (Some(its), Speaker::Worker), (Some(other), Speaker::Impostor)]
    {
        assert_eq!(Speaker::by_record(its, on_record), expected, "{on_record:?}");
    }
}
