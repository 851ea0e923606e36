//! The bound set: what counts, in which order, and as of when.

use model::Nonce;

use super::desk::{Desk, cancelled, lost, secs};
use super::peer::{Peer, hold, key};
use super::{Bug, cases};
use crate::digest::Digest;
use crate::message::{Answer, Change};
use crate::registry::{HoldStanding, Input, Output, Verdict, WorkerView};

cases![
    bind_of_a_recorded_claim_stands_at_once,
    early_bind_of_a_recorded_claim_is_acknowledged_at_once,
    early_bind_does_not_count_as_a_heartbeat,
    early_bind_of_somebody_else_is_ignored,
    delayed_early_bind_does_not_undo_an_unbind,
    binds_apply_before_unbinds,
    repeated_changes_count_once,
    job_that_ended_before_the_next_heartbeat_costs_nothing,
    different_sets_are_noticed_and_healed,
    full_set_does_not_undo_a_later_bind,
    digest_says_nothing_about_a_later_bind,
    full_set_drops_what_vanished,
    full_set_that_contradicts_its_digest_is_not_asked_for_again,
    cancelled_job_is_stopped_until_it_is_unbound,
    cancelled_job_that_is_still_on_its_way_is_stopped,
    settled_claim_is_not_stopped_and_not_bound,
    stop_is_repeated_until_the_hold_is_unbound,
    cancellation_never_replaces_a_loss,
    unbinding_what_was_never_bound_is_harmless,
];

fn early(desk: &mut Desk, peer: &Peer, binds: &[Change]) -> Vec<Output> {
    desk.tell(Input::Bind { key: peer.key.clone(), nonce: peer.nonce, binds: binds.to_vec() })
}

fn bind_of_a_recorded_claim_stands_at_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    assert_eq!((desk.view(&peer).bound, desk.view(&peer).assigned), (0, 2));
    peer.bind(hold(1));
    assert!(!desk.renew(&mut peer).resync, "no row is asked, no digest differs");
    assert!(desk.registry.is_bound(&peer.key, hold(1)));
    assert!(!desk.registry.is_bound(&peer.key, hold(2)));
    assert!(!desk.registry.is_bound(&key("nobody"), hold(1)));
    assert_eq!((desk.view(&peer).bound, desk.view(&peer).assigned), (1, 1));
    assert_eq!(desk.registry.bound(&peer.key, 0), []);
}

fn early_bind_of_a_recorded_claim_is_acknowledged_at_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    let binds = [peer.bind(hold(1)), peer.bind(hold(2))];
    let acknowledged = [Output::Bound { key: peer.key.clone(), holds: vec![hold(1), hold(2)] }];
    assert_eq!(early(&mut desk, &peer, &binds), acknowledged);
    assert_eq!(early(&mut desk, &peer, &binds), acknowledged, "the first acknowledgement may be lost");
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(1), hold(2)]);
    assert_eq!(early(&mut desk, &peer, &binds), acknowledged, "and whenever it asks");
}

fn early_bind_does_not_count_as_a_heartbeat(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    peer.bind(hold(1));
    let second = peer.bind(hold(2));
    let before = desk.view(&peer);
    early(&mut desk, &peer, &[second]);
    assert_eq!(desk.view(&peer), WorkerView { bound: 1, assigned: 1, ..before });
    // The bind before it is not taken for a repeat.
    desk.renew(&mut peer);
    assert_eq!(desk.bound(&peer), [hold(1), hold(2)]);
}

fn early_bind_of_somebody_else_is_ignored(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    let bind = peer.bind(hold(1));
    let other = Peer { nonce: Nonce::new(8), ..peer.clone() };
    assert_eq!(early(&mut desk, &other, &[bind]), []);
    assert_eq!(early(&mut desk, &Peer::new("nobody"), &[bind]), []);
    assert_eq!(desk.bound(&peer), []);
    let joining = Peer::new("joining");
    desk.beat(joining.beat());
    assert_eq!(early(&mut desk, &joining, &[bind]), []);
    desk.pass(secs(21));
    assert_eq!(early(&mut desk, &peer, &[bind]), [], "its lease is over");
}

fn delayed_early_bind_does_not_undo_an_unbind(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    let delayed = peer.bind(hold(1));
    peer.unbind(hold(1));
    desk.renew(&mut peer);
    let stop = Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(1))] };
    assert_eq!(early(&mut desk, &peer, &[delayed]), [stop]);
    assert_eq!(desk.bound(&peer), [], "unbinding is final");
    let ack = desk.renew(&mut peer);
    assert_eq!((ack.resync, ack.stops), (false, vec![]), "it was an answer, and no order");
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
}

fn binds_apply_before_unbinds(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    peer.bind(hold(1));
    peer.unbind(hold(1));
    peer.bind(hold(2));
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(2)]);
}

fn repeated_changes_count_once(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    peer.bind(hold(1));
    peer.bind(hold(2));
    peer.unbind(hold(1));
    // The answer to this one is lost, so the changes come again, twice over in one list.
    desk.answer(peer.beat());
    peer.token = Some(desk.view(&peer).token);
    peer.binds = [peer.binds.clone(), peer.binds.clone()].concat();
    peer.unbinds = [peer.unbinds.clone(), peer.unbinds.clone()].concat();
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(2)]);
}

fn job_that_ended_before_the_next_heartbeat_costs_nothing(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    assert_eq!(desk.tell(Input::Settled { key: peer.key.clone(), holds: vec![hold(1)] }), []);
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!((desk.view(&peer).bound, desk.view(&peer).assigned), (0, 0));
}

fn different_sets_are_noticed_and_healed(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1), hold(2)]);
    // The worker has lost its list of changes.
    desk.granted(&peer, &[hold(3)]);
    peer.bind(hold(3));
    peer.unbind(hold(1));
    (peer.binds, peer.unbinds) = (Vec::new(), Vec::new());
    assert!(desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(1), hold(2)]);
    assert!(peer.wants_full);
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(2), hold(3)]);
}

fn full_set_does_not_undo_a_later_bind(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    desk.granted(&peer, &[hold(2)]);
    peer.wants_full = true;
    let full = peer.beat();
    // Sent after the full set, and on a faster way.
    let later = peer.bind(hold(2));
    let acknowledged = [Output::Bound { key: peer.key.clone(), holds: vec![hold(2)] }];
    assert_eq!(early(&mut desk, &peer, &[later]), acknowledged);
    let answer = desk.answer(full.clone());
    assert!(matches!(&answer, Answer::Ok(ack) if !ack.resync), "{answer:?}");
    assert!(desk.registry.is_bound(&peer.key, hold(2)), "what was acknowledged stays");
    peer.hear(full.change, &answer);
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.bound(&peer), [hold(1), hold(2)]);
}

fn digest_says_nothing_about_a_later_bind(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    desk.granted(&peer, &[hold(2), hold(3)]);
    let slow = peer.beat();
    let later = [peer.bind(hold(2)), peer.bind(hold(3))];
    early(&mut desk, &peer, &later);
    let answer = desk.answer(slow.clone());
    assert!(matches!(&answer, Answer::Ok(ack) if !ack.resync), "{answer:?}");
    peer.hear(slow.change, &answer);
    // And it says everything about it once the counter has caught up.
    let mut caught_up = peer.beat();
    caught_up.digest = [hold(1), hold(2)].into_iter().collect::<Digest>();
    assert!(matches!(desk.answer(caught_up), Answer::Ok(ack) if ack.resync));
}

fn full_set_drops_what_vanished(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1), hold(2)]);
    for job in [1, 2] {
        desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(job) });
    }
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1)), cancelled(hold(2))]);
    peer.unbind(hold(1));
    peer.unbinds.clear();
    peer.wants_full = true;
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(2))]);
    assert_eq!(desk.bound(&peer), [hold(2)]);
}

fn full_set_that_contradicts_its_digest_is_not_asked_for_again(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let mut beat = Peer { wants_full: true, ..peer.clone() }.beat();
    beat.full = Some(vec![hold(1), hold(1)]);
    beat.digest = Digest::from_parts(u32::MAX, u64::MAX);
    let answer = desk.answer(beat);
    assert!(matches!(&answer, Answer::Ok(ack) if !ack.resync), "it would go on for ever: {answer:?}");
    assert_eq!(desk.bound(&peer), [hold(1)]);
}

fn cancelled_job_is_stopped_until_it_is_unbound(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1), hold(2)]);
    let told = desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(1) });
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![cancelled(hold(1))] }]);
    (0..3).for_each(|_| assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1))]));
    assert!(desk.registry.is_bound(&peer.key, hold(1)), "it stays held until it is reported");
    peer.unbind(hold(1));
    assert_eq!(desk.renew(&mut peer).stops, []);
    for (key, hold) in [(peer.key.clone(), hold(7)), (key("nobody"), hold(2))] {
        assert_eq!(desk.tell(Input::Cancel { key, hold }), [], "the row will tell whoever has it");
    }
}

fn cancelled_job_that_is_still_on_its_way_is_stopped(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1), hold(2)]);
    let told = desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(1) });
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![cancelled(hold(1))] }]);
    peer.bind(hold(1));
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1))]);
    // One that never arrives is not stopped for ever.
    desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(2) });
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::TakeBack);
    assert_eq!(desk.renew(&mut peer).stops, [cancelled(hold(1))]);
}

fn settled_claim_is_not_stopped_and_not_bound(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(1) });
    desk.tell(Input::Settled { key: peer.key.clone(), holds: vec![hold(1)] });
    assert_eq!(desk.renew(&mut peer).stops, []);
    // Whoever binds it nevertheless is asked for the row.
    peer.bind(hold(1));
    let (_, others) = desk.accept(&mut peer);
    assert_eq!(others, [Output::Check { key: peer.key.clone(), holds: vec![hold(1)] }]);
}

fn stop_is_repeated_until_the_hold_is_unbound(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    let told = desk.checked(&peer, &[HoldStanding::Lost]);
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(1))] }]);
    for _ in 0..3 {
        let ack = desk.renew(&mut peer);
        assert_eq!(
            (ack.stops, ack.resync),
            (vec![lost(hold(1))], false),
            "its digest is that of its own set"
        );
    }
    assert!(!desk.registry.is_bound(&peer.key, hold(1)));
    peer.unbind(hold(1));
    assert_eq!(desk.renew(&mut peer).stops, []);
}

fn cancellation_never_replaces_a_loss(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    // Cancelled while its row is read, and then lost: the loss is what it must know.
    let told = desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(1) });
    assert_eq!(told.len(), 1, "{told:?}");
    desk.checked(&peer, &[HoldStanding::Lost]);
    assert_eq!(desk.tell(Input::Cancel { key: peer.key.clone(), hold: hold(1) }), []);
    assert_eq!(desk.renew(&mut peer).stops, [lost(hold(1))]);
}

fn unbinding_what_was_never_bound_is_harmless(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    for job in [1, 2, 2] {
        peer.change += 1;
        peer.unbinds.push(Change { hold: hold(job), change: peer.change });
    }
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(
        (desk.view(&peer).bound, desk.view(&peer).assigned),
        (0, 0),
        "what it let go of is not on its way"
    );
}
