//! The clock rule on the worker's side: until when the key may be used, and what follows when that is over.

use super::*;
use crate::message::InactiveReason;
use model::Report;

const LAPSED: Output = Output::NewKey { why: KeyEnd::Lapsed };

/// Named in the table of mutations.
pub(super) fn a_lease_counts_from_the_send_stamp(rig: &mut Rig) {
    let (number, _) = rig.beat(4_000);
    rig.ok(7_000, number);
    // 20 s less a thousandth, from 4 s and not from 7 s.
    let until = rig.ledger.hold_until().expect("registered");
    assert!(until <= at(24_000), "the registry may have counted from the moment it was sent: {until:?}");
    assert!(until > at(23_900), "{until:?}");
}

/// Named in the table of mutations.
pub(super) fn a_lease_ends_early_by_the_rate_error(rig: &mut Rig) {
    assert_eq!(rig.ledger.hold_until(), Some(at(19_980)), "20 s less a thousandth");
}

/// Named in the table of mutations.
pub(super) fn a_late_acknowledgement_changes_nothing(rig: &mut Rig) {
    let job = hold(1, 10);
    rig.assign(1_000, job);
    let (number, _) = rig.beat(16_000);
    // The process was stopped; the answer has been waiting in its buffers since long ago.
    assert_eq!(rig.ok(20_000, number), [stop(job, StopReason::LeaseOver), LAPSED]);
    assert_eq!((rig.ledger.is_registered(), rig.ledger.hold_until()), (false, None));
    assert_eq!(rig.try_frame(20_000), None);
    rig.rekey(20_000, "w2");
    assert_eq!(rig.ok(20_001, number), [], "nor does it count for the new key");
    assert!(!rig.ledger.is_registered());
}

/// Named in the table of mutations.
pub(super) fn a_lapsed_key_is_never_used_again(rig: &mut Rig) {
    rig.answers = false;
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.live_until(20_000);
    rig.rekey(20_000, "w2");
    rig.connect(20_100);
    let (_, beat) = rig.beat(20_100);
    assert_eq!((rig.ledger.key(), &beat.key), (&key("w2"), &key("w2")));
}

#[test]
fn lease_counts_from_the_send_stamp() {
    a_lease_counts_from_the_send_stamp(&mut Rig::new());
}

#[test]
fn lease_ends_early_by_the_rate_error() {
    a_lease_ends_early_by_the_rate_error(&mut Rig::new());
}

#[test]
fn late_acknowledgement_changes_nothing() {
    a_late_acknowledgement_changes_nothing(&mut Rig::new());
}

#[test]
fn lapsed_key_is_never_used_again() {
    a_lapsed_key_is_never_used_again(&mut Rig::new());
}

#[test]
fn a_lease_never_ends_earlier_than_was_said_before() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    let ack = Ack { lease: Duration::from_secs(1), ..rig.ack() };
    rig.answer(4_010, number, Answer::Ok(ack));
    assert_eq!(rig.ledger.hold_until(), Some(at(19_980)));
    assert_eq!(rig.ledger.next_deadline(), Some(at(4_200)), "five times per new lease");
}

#[test]
fn three_missed_heartbeats_are_survived() {
    let mut rig = Rig::new();
    rig.answers = false;
    let done = rig.live_until(16_000);
    let beats: Vec<u64> = done.iter().map(|(ms, _)| *ms).collect();
    assert_eq!((beats, done.len()), (vec![4_000, 8_000, 12_000, 16_000], 4));
    // Those at 4, 8 and 12 s got lost; the one at 16 s arrives in time.
    assert_eq!(rig.ok(19_900, 5), []);
    assert_eq!(rig.outputs_until(35_900), []);
    assert_eq!(rig.outputs_until(36_000), [(35_980, LAPSED)]);
}

#[test]
fn without_answers_the_key_lapses_exactly_when_its_lease_is_over() {
    let mut rig = Rig::new();
    rig.answers = false;
    let (running, lost, cancelled) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for job in [running, lost, cancelled] {
        rig.assign(0, job);
    }
    rig.order(1, lost, StopOrder::Lost);
    rig.order(1, cancelled, StopOrder::Cancelled);
    assert_eq!(rig.outputs_until(19_979), []);
    let over = (19_980, stop(running, StopReason::LeaseOver));
    assert_eq!(rig.outputs_until(19_980), [over, (19_980, LAPSED)], "the others were told to stop before");
    assert_eq!(rig.live_until(600_000), [], "nothing is sent, and it is said once");
}

#[test]
fn after_a_lapse_the_new_key_names_the_former_and_everything_it_held() {
    let mut rig = Rig::new();
    let (running, reported, lost, settled) = (hold(1, 10), hold(2, 10), hold(3, 10), hold(4, 10));
    for job in [running, reported, lost, settled] {
        rig.assign(0, job);
    }
    let (number, _) = rig.beat(4_000);
    rig.ok(4_010, number);
    rig.complete(4_020, reported);
    rig.complete(4_020, settled);
    rig.frame(4_020);
    rig.settle(4_030, settled);
    rig.order(4_030, lost, StopOrder::Lost);
    rig.input(5_000, Input::Disconnected);
    assert_eq!(rig.outputs_until(23_980).last(), Some(&(23_980, LAPSED)));
    assert_eq!(rig.ledger.holds(), [running, reported]);
    rig.rekey(24_000, "w2");
    rig.connect(24_000);
    for ms in [24_000, 28_000] {
        // An answer to the first one may get lost.
        let frame = rig.frame(ms);
        let (_, beat) = frame.heartbeat.clone().expect("a heartbeat");
        assert_eq!(frame, Transmit { heartbeat: frame.heartbeat.clone(), ..Transmit::default() });
        assert_eq!((&beat.key, beat.nonce, beat.token), (&key("w2"), NONCE, None));
        assert_eq!(beat.former, Some(crate::message::Former { key: key("w1"), nonce: NONCE }));
        assert_eq!((beat.full, beat.binds), (Some(vec![running, reported]), vec![]));
    }
    assert_eq!(rig.ok(28_010, 4), [Output::Registered { lease: LEASE }]);
    let frame = rig.frame(28_010);
    assert_eq!(frame.reports, [Report { hold: reported, outcome: completed() }], "owed under any key");
    assert_eq!(frame.credits, 2, "one winds down, one was told to stop");
    let (_, beat) = rig.beat(32_000);
    assert_eq!((beat.former, beat.full, beat.binds), (None, None, vec![]));
}

#[test]
fn what_ends_after_a_lapse_counts_only_if_it_was_completed_and_not_lost() {
    let mut rig = Rig::new();
    let (deaf, polite, gone) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for job in [deaf, polite, gone] {
        rig.assign(0, job);
    }
    rig.input(1_000, Input::Disconnected);
    rig.live_until(19_980);
    rig.rekey(20_000, "w2");
    // Ended while nobody could be told.
    assert_eq!(rig.complete(20_010, deaf), [ended(deaf, completed())]);
    rig.connect(30_000);
    let (number, beat) = rig.beat(30_000);
    assert_eq!(beat.full, Some(vec![deaf, polite, gone]));
    assert_eq!(rig.try_frame(30_001), None, "not before the new key is registered");
    let ack = Ack { stops: vec![Stop { hold: gone, reason: StopOrder::Lost }], ..rig.ack() };
    assert_eq!(
        rig.answer(30_010, number, Answer::Ok(ack)),
        [Output::Registered { lease: LEASE }, stop(gone, StopReason::Lost)]
    );
    assert_eq!(rig.fail(30_020, polite, "interrupted"), [ended(polite, Outcome::HandedBack)]);
    assert_eq!(rig.complete(30_030, gone), [Output::Ended { hold: gone, outcome: None }]);
    let reports = rig.frame(30_040).reports;
    let sent: Vec<_> = reports.iter().map(|report| (report.hold, &report.outcome)).collect();
    assert_eq!(sent, [(deaf, &completed()), (polite, &Outcome::HandedBack)]);
}

#[test]
fn the_last_registered_key_stays_the_former_until_a_successor_is_registered() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1_000, Input::Disconnected);
    rig.live_until(19_980);
    for name in ["w2", "w3"] {
        rig.rekey(20_000, name);
    }
    rig.connect(20_000);
    let (number, beat) = rig.beat(20_000);
    assert_eq!((beat.key, beat.former.map(|former| former.key)), (key("w3"), Some(key("w1"))));
    // The registry has no place for this key either: there is nothing left to hand on.
    let outputs = rig.answer(20_010, number, Answer::Inactive { why: InactiveReason::KeyTaken });
    assert_eq!(outputs, [stop(job, StopReason::Lost), Output::NewKey { why: KeyEnd::Inactive }]);
    rig.rekey(20_020, "w4");
    rig.connect(20_020);
    let (_, beat) = rig.beat(20_020);
    assert_eq!((beat.key, beat.former, beat.full), (key("w4"), None, Some(vec![])));
}

#[test]
fn a_new_key_beats_at_the_pace_it_asks_for_until_it_is_granted_another() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    let ack = Ack { lease: Duration::from_secs(120), ..rig.ack() };
    rig.answer(4_000, number, Answer::Ok(ack));
    rig.input(5_000, Input::Disconnected);
    rig.live_until(124_000);
    rig.rekey(124_000, "w2");
    rig.connect(124_000);
    rig.beat(124_000);
    assert_eq!(rig.ledger.next_deadline(), Some(at(128_000)), "not a fifth of what the old key was granted");
}

#[test]
fn a_key_in_use_is_not_replaced() {
    let mut rig = Rig::new();
    rig.input(1_000, Input::Rekeyed { key: key("w2") });
    assert_eq!(rig.ledger.key(), &key("w1"));
    assert!(rig.ledger.is_registered());
    rig.beat(4_000);
}

#[test]
fn everything_that_could_send_or_start_notices_the_lapse_first() {
    let job = hold(1, 10);
    let late = || {
        let mut rig = Rig::new();
        rig.assign(0, job);
        rig
    };
    let over = || [stop(job, StopReason::LeaseOver), LAPSED];

    let mut rig = late();
    let grant = rig.grant(hold(2, 10));
    assert_eq!(rig.input(19_980, Input::Assigned(grant)), over(), "not started");

    let mut rig = late();
    assert!(rig.ledger.poll_transmit(at(19_980)).is_none(), "no heartbeat under the old key");
    assert_eq!(rig.outputs(), over());

    let mut rig = late();
    let [first, second] = over();
    assert_eq!(rig.complete(19_980, job), [first, second, ended(job, completed())]);
    assert_eq!(rig.try_frame(19_980), None, "no report under the old key");

    let mut rig = late();
    rig.input(1_000, Input::Disconnected);
    assert_eq!(rig.connect(19_980), over(), "a stream that was opened under the old key leads nowhere");
    assert_eq!(rig.try_frame(19_990), None);
}
