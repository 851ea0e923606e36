//! How long a lease is, and that a longer one is durable before it is answered.

use std::time::Duration;

use model::HolderEnd;

use super::desk::{Desk, KEY_TAKEN, ended, millis, secs, split};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::Answer;
use crate::registry::{Enlisted, Input, Output, WorkerState};

cases![
    wishes_are_clamped_and_none_is_the_default,
    expires_never_moves_earlier,
    larger_grant_is_durable_before_it_is_answered,
    smaller_grant_needs_no_store,
    longest_lease_may_become_shorter_and_what_was_promised_stands,
    store_trouble_leaves_the_largest_durable_grant,
    repeat_does_not_wait_for_the_store_again,
    waiting_for_a_larger_grant_costs_nobody_its_lease,
    larger_grant_of_a_terminal_key_ends_the_worker,
    larger_grant_of_a_taken_key_ends_the_worker,
    worker_that_ends_while_it_waits_is_told,
];

fn granted_for(bug: Bug, wish: Duration) -> (Duration, Duration) {
    let (mut desk, mut peer) = (Desk::open(bug), Peer { lease: wish, ..Peer::new("a") });
    let lease = desk.join(&mut peer).lease;
    assert_eq!(desk.view(&peer).lease, lease);
    (lease, desk.view(&peer).expires.since(desk.now))
}

fn wishes_are_clamped_and_none_is_the_default(bug: Bug) {
    let ten_years = secs(10 * 365 * 24 * 3_600);
    assert_eq!(granted_for(bug, Duration::ZERO), (secs(20), millis(20_020)));
    assert_eq!(granted_for(bug, Duration::from_nanos(1)), (millis(500), Duration::from_micros(500_500)));
    assert_eq!(granted_for(bug, secs(60)), (secs(60), millis(60_060)));
    for wish in [ten_years, Duration::MAX] {
        assert_eq!(granted_for(bug, wish), (secs(3_600), millis(3_603_600)));
    }
}

fn expires_never_moves_earlier(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let expires = desk.view(&peer).expires;
    peer.lease = secs(1);
    assert_eq!(desk.renew(&mut peer).lease, secs(1));
    assert_eq!(desk.view(&peer).expires, expires, "the longer promise stands");
    desk.pass(millis(19_500));
    desk.renew(&mut peer);
    assert_eq!(desk.view(&peer).expires, desk.now + millis(1_001));
}

/// A known worker that now asks for a minute. Its heartbeat waits.
fn asking_for_more(bug: Bug) -> (Desk, Peer, crate::registry::Ticket) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.lease = secs(60);
    let (ticket, outputs) = desk.beat(peer.beat());
    let [Output::Enlist { key, nonce, grant, profile }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((key, *nonce, *grant, profile.name.as_str()), (&peer.key, peer.nonce, secs(60), "host"));
    (desk, peer, ticket)
}

fn larger_grant_is_durable_before_it_is_answered(bug: Bug) {
    let (mut desk, mut peer, ticket) = asking_for_more(bug);
    assert_eq!(desk.pass(secs(3)), []);
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert_eq!(others, []);
    assert!(matches!(&answer, Answer::Ok(ack) if ack.lease == secs(60)), "{answer:?}");
    assert_eq!(desk.view(&peer).expires, desk.now + millis(60_060), "counted from the answer");
    peer.hear(peer.change, &answer);
    assert_eq!(desk.renew(&mut peer).lease, secs(60), "from now on it needs no store");
}

fn smaller_grant_needs_no_store(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    for lease in [10, 20, 5] {
        peer.lease = secs(lease);
        assert_eq!(desk.renew(&mut peer).lease, secs(lease));
    }
}

fn store_trouble_leaves_the_largest_durable_grant(bug: Bug) {
    let (mut desk, mut peer, ticket) = asking_for_more(bug);
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Trouble));
    assert_eq!(others, []);
    assert!(matches!(&answer, Answer::Ok(ack) if ack.lease == secs(20)), "{answer:?}");
    peer.hear(peer.change, &answer);
    assert!(matches!(desk.beat(peer.beat()).1[..], [Output::Enlist { .. }]), "the next one tries again");
}

fn repeat_does_not_wait_for_the_store_again(bug: Bug) {
    let (mut desk, mut peer, _) = asking_for_more(bug);
    desk.granted(&peer, &[hold(1)]);
    peer.bind(hold(1));
    assert_eq!(desk.renew(&mut peer).lease, secs(20), "what is durable");
    assert_eq!(desk.bound(&peer), [hold(1)]);
    assert_eq!(desk.enlisted(&peer.key, Enlisted::Known), [], "nobody waits for it any more");
    assert_eq!(desk.renew(&mut peer).lease, secs(60));
}

fn waiting_for_a_larger_grant_costs_nobody_its_lease(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.pass(secs(19));
    peer.lease = secs(60);
    let (ticket, _) = desk.beat(peer.beat());
    assert_eq!(desk.pass(secs(19)), [], "it was heard in time");
    let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
}

fn larger_grant_of_a_terminal_key_ends_the_worker(bug: Bug) {
    let (mut desk, peer, ticket) = asking_for_more(bug);
    let outputs = desk.enlisted(&peer.key, Enlisted::Terminal(HolderEnd::Kicked));
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert_eq!(answer, ended(HolderEnd::Kicked));
    let key = peer.key.clone();
    let gone = [Output::Ended { key: key.clone(), end: HolderEnd::Kicked }, Output::Gone { key }];
    assert_eq!(others, gone, "the store knows already");
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Kicked)));
    desk.pass(secs(601));
    assert_eq!(desk.state(&peer), None);
}

fn larger_grant_of_a_taken_key_ends_the_worker(bug: Bug) {
    let (mut desk, peer, ticket) = asking_for_more(bug);
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Taken));
    assert_eq!(answer, KEY_TAKEN);
    assert!(matches!(others[..], [Output::Ended { .. }, Output::Gone { .. }]), "{others:?}");
    assert_eq!((desk.state(&peer), desk.registry.active_count()), (None, 0));
    assert_eq!(desk.pass(secs(60)), []);
}

fn worker_that_ends_while_it_waits_is_told(bug: Bug) {
    let (mut desk, peer, ticket) = asking_for_more(bug);
    let leaves = desk.ticket();
    let outputs = desk.tell(Input::Kick { ticket: leaves, key: peer.key.clone() });
    let (answer, others) = split(ticket, &peer.key, outputs);
    assert_eq!(answer, ended(HolderEnd::Kicked));
    assert!(
        matches!(others[..], [Output::Ended { .. }, Output::Gone { .. }, Output::Retire { .. }]),
        "{others:?}"
    );
    assert_eq!(desk.enlisted(&peer.key, Enlisted::Known), [], "a late word of the store revives nobody");
    assert_eq!(desk.state(&peer), Some(WorkerState::Ended(HolderEnd::Kicked)));
}

fn longest_lease_may_become_shorter_and_what_was_promised_stands(bug: Bug) {
    let (mut desk, mut peer) = (Desk::open(bug), Peer { lease: secs(60), ..Peer::new("a") });
    desk.join(&mut peer);
    desk.registry.grant_at_most(secs(20));
    assert!(desk.registry.is_promised_more(desk.now, &peer.key, secs(20)));
    assert!(!desk.registry.is_promised_more(desk.now, &peer.key, secs(60)));
    for _ in 0..4 {
        desk.pass(secs(9));
        assert_eq!(desk.renew(&mut peer).lease, secs(20));
        assert!(desk.registry.is_promised_more(desk.now, &peer.key, secs(20)), "its minute is not over");
    }
    desk.pass(secs(9));
    desk.renew(&mut peer);
    assert!(!desk.registry.is_promised_more(desk.now, &peer.key, secs(20)));
}
