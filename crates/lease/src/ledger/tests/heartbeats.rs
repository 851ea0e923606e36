//! Registration, the pace of heartbeats, and what every answer means.

use super::*;
use crate::message::{InactiveReason, LaterReason};
use model::HolderEnd;

#[test]
fn nothing_but_heartbeats_is_sent_before_the_key_is_registered() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let frame = rig.frame(0);
    let (number, beat) = frame.heartbeat.clone().expect("the first thing to say");
    assert_eq!(frame, Transmit { heartbeat: frame.heartbeat.clone(), ..Transmit::default() });
    assert_eq!((&beat.key, beat.nonce, beat.token), (&key("w1"), NONCE, None));
    assert_eq!((beat.lease, beat.free_slots), (LEASE, 4));
    assert_eq!(beat.profile, Some(terms(4).profile));
    assert_eq!((rig.ledger.is_registered(), rig.ledger.hold_until()), (false, None));
    assert_eq!(rig.try_frame(10), None, "no credits yet");
    assert_eq!(rig.ok(20, number), [Output::Registered { lease: LEASE }]);
    assert!(rig.ledger.is_registered());
    assert_eq!(rig.frame(20), Transmit { credits: 4, ..Transmit::default() });
}

#[test]
fn five_heartbeats_per_granted_lease_show_the_token_of_the_answer_before() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    // Asked for 20 s, granted 10.
    let lease = Duration::from_secs(10);
    let ack = Ack { lease, ..rig.ack() };
    assert_eq!(rig.answer(50, number, Answer::Ok(ack)), [Output::Registered { lease }]);
    let token = rig.last_token();
    assert_eq!(rig.ledger.next_deadline(), Some(at(2_000)));
    rig.frame(50);
    let (number, beat) = rig.beat(2_000);
    assert_eq!((beat.token, beat.profile, beat.lease), (Some(token), None, LEASE));
    let ack = Ack { lease, ..rig.ack() };
    assert_eq!(rig.answer(2_010, number, Answer::Ok(ack)), [], "the lease is no news");
    let ack = rig.ack();
    let (number, _) = rig.beat(4_000);
    assert_eq!(rig.answer(4_010, number, Answer::Ok(ack)), [Output::Registered { lease: LEASE }]);
    assert_eq!(rig.ledger.next_deadline(), Some(at(8_000)), "and the pace is that of the new lease");
}

#[test]
fn a_heartbeat_that_is_not_answered_for_an_interval_is_followed_by_another() {
    let mut rig = Rig::new();
    let (first, beat) = rig.beat(4_000);
    assert_eq!(rig.try_frame(7_999), None, "one is in flight");
    let (second, again) = rig.beat(8_000);
    assert_eq!((second, again.token), (first + 1, beat.token));
    let before = rig.ledger.hold_until();
    assert_eq!(rig.ok(8_010, first), [], "its time is over");
    assert_eq!((rig.ledger.hold_until(), again.token), (before, beat.token));
    rig.ok(8_020, second);
    assert!(rig.ledger.hold_until() > before);
    let renewed = rig.ledger.hold_until();
    assert_eq!(rig.ok(8_030, second), [], "answered once");
    assert_eq!(rig.ledger.hold_until(), renewed);
}

#[test]
fn after_a_mismatch_the_token_is_taken_and_shown_at_once_one_time() {
    let mut rig = Rig::new();
    let hold_until = rig.ledger.hold_until();
    let (number, _) = rig.beat(4_000);
    assert_eq!(rig.mismatch(4_100, number, false), []);
    assert_eq!(rig.ledger.hold_until(), hold_until, "nothing was renewed");
    let (number, beat) = rig.beat(4_100);
    assert_eq!((beat.token, beat.full), (Some(rig.last_token()), None));
    rig.mismatch(4_200, number, false);
    assert_eq!(rig.try_frame(8_099), None, "not again and again");
    let (number, beat) = rig.beat(8_100);
    assert_eq!(beat.token, Some(rig.last_token()));
    rig.mismatch(8_200, number, false);
    rig.beat(8_200);
}

#[test]
fn a_first_answer_that_got_lost_is_healed_by_the_mismatch() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    rig.beat(0);
    let (number, beat) = rig.beat(4_000);
    assert_eq!((beat.token, beat.profile.is_some()), (None, true), "who we are, until someone answers");
    rig.mismatch(4_010, number, false);
    assert!(!rig.ledger.is_registered());
    let (number, beat) = rig.beat(4_010);
    assert_eq!((beat.token, beat.profile.is_some()), (Some(rig.last_token()), true), "and takes it");
    assert_eq!(rig.ok(4_020, number), [Output::Registered { lease: LEASE }]);
    assert_eq!(rig.beat(8_010).1.profile, None);
}

#[test]
fn a_resync_is_answered_at_once_with_everything() {
    let mut rig = Rig::new();
    let (one, two) = (hold(1, 10), hold(2, 10));
    rig.assign(0, one);
    rig.assign(0, two);
    let (number, beat) = rig.beat(4_000);
    assert_eq!((holds(&beat.binds), beat.full), (vec![one, two], None));
    let ack = Ack { resync: true, ..rig.ack() };
    rig.answer(4_010, number, Answer::Ok(ack));
    let (number, beat) = rig.beat(4_010);
    assert_eq!((beat.full, beat.binds, beat.unbinds), (Some(vec![one, two]), vec![], vec![]));
    // Lost: it is still owed.
    let (second, beat) = rig.beat(8_010);
    assert_eq!((second, beat.full), (number + 1, Some(vec![one, two])));
    let ack = Ack { resync: true, ..rig.ack() };
    rig.answer(8_020, second, Answer::Ok(ack));
    assert_eq!(
        rig.try_frame(12_009),
        None,
        "a server that is never content is not followed as fast as it asks"
    );
    let (number, beat) = rig.beat(12_010);
    assert!(beat.full.is_some());
    rig.ok(12_020, number);
    assert_eq!(rig.beat(16_010).1.full, None);
}

#[test]
fn a_mismatch_may_ask_for_everything_too() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    let (number, _) = rig.beat(4_000);
    rig.mismatch(4_010, number, true);
    let (number, beat) = rig.beat(4_010);
    assert_eq!((beat.full, beat.token), (Some(vec![job]), Some(rig.last_token())));
    rig.ok(4_020, number);
    let (_, beat) = rig.beat(8_010);
    assert_eq!((beat.full, beat.binds), (None, vec![]), "it was told with the full set");
}

#[test]
fn an_inactive_key_loses_everything_and_is_replaced() {
    let mut rig = Rig::new();
    let (running, cancelled, done) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for job in [running, cancelled, done] {
        rig.assign(0, job);
    }
    rig.order(1, cancelled, StopOrder::Cancelled);
    rig.complete(2, done);
    let (number, _) = rig.beat(4_000);
    let why = InactiveReason::Ended(HolderEnd::Expired);
    let lost = |hold| stop(hold, StopReason::Lost);
    assert_eq!(
        rig.answer(4_010, number, Answer::Inactive { why }),
        [
            lost(running),
            lost(cancelled),
            Output::Refused { hold: done, current: Fence::NONE },
            Output::NewKey { why: KeyEnd::Inactive }
        ]
    );
    assert_eq!((rig.ledger.holds(), rig.ledger.hold_until()), (vec![], None));
    assert_eq!(rig.try_frame(4_020), None, "there is no key to send anything under");
    assert_eq!(rig.rekey(4_030, "w2"), []);
    assert_eq!(rig.try_frame(4_040), None, "there is no stream");
    rig.connect(4_050);
    let (number, beat) = rig.beat(4_050);
    let nothing = Some(vec![]);
    assert_eq!((&beat.key, beat.token, beat.former, beat.full), (&key("w2"), None, None, nothing));
    assert_eq!((beat.binds, beat.free_slots), (vec![], 2), "two handlers wind down");
    rig.ok(4_060, number);
    assert_eq!(rig.frame(4_060), Transmit { credits: 2, ..Transmit::default() });
    assert_eq!(rig.complete(4_070, running), [Output::Ended { hold: running, outcome: None }]);
}

#[test]
fn reports_of_an_inactive_key_are_kept_if_the_terms_say_so() {
    let mut rig = Rig::with(Terms { report_lost: true, ..terms(4) });
    let (running, done) = (hold(1, 10), hold(2, 10));
    rig.assign(0, running);
    rig.assign(0, done);
    rig.complete(1, done);
    let (number, _) = rig.beat(4_000);
    let outputs = rig.answer(4_010, number, Answer::Inactive { why: InactiveReason::Unknown });
    assert_eq!(outputs, [stop(running, StopReason::Lost), Output::NewKey { why: KeyEnd::Inactive }]);
    rig.complete(4_020, running);
    rig.rekey(4_030, "w2");
    rig.connect(4_040);
    let (number, beat) = rig.beat(4_040);
    assert_eq!((beat.binds, beat.full), (vec![], Some(vec![])), "what is lost is not claimed");
    rig.ok(4_050, number);
    let sent: Vec<Hold> = rig.frame(4_050).reports.into_iter().map(|report| report.hold).collect();
    assert_eq!(sent, [running, done]);
}

#[test]
fn another_owner_is_moved_to_under_the_same_key() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    let (number, _) = rig.beat(4_000);
    let address = Some("http://b:7117".to_owned());
    assert_eq!(
        rig.answer(4_010, number, Answer::NotOwner { address: address.clone() }),
        [Output::MoveTo { address }]
    );
    rig.input(4_020, Input::Disconnected);
    rig.connect(4_030);
    let (_, beat) = rig.beat(4_030);
    assert_eq!((beat.key, holds(&beat.binds), beat.former), (key("w1"), vec![job], None));
}

#[test]
fn later_is_waited_for_with_jitter() {
    let mut waits = Vec::new();
    for nonce in 0..50 {
        let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), Nonce::new(nonce)));
        for _ in 0..2 {
            let sent_at = rig.ledger.next_deadline().expect("a heartbeat is planned");
            let sent_ms = sent_at.as_nanos().div_ceil(1_000_000);
            let (number, _) = rig.beat(sent_ms);
            let retry_after = Duration::from_secs(2);
            rig.answer(sent_ms, number, Answer::Later { retry_after, why: LaterReason::Throttled });
            let wait = rig.ledger.next_deadline().expect("it will try again").since(at(sent_ms));
            assert!((retry_after..=retry_after * 3 / 2).contains(&wait), "{wait:?}");
            waits.push(wait);
        }
    }
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 90, "those who were sent away together do not come back together");
    let spread = waits[waits.len() - 1] - waits[0];
    assert!(spread > Duration::from_millis(800), "{spread:?}");

    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    rig.answer(0, number, Answer::Later { retry_after: Duration::MAX, why: LaterReason::StoreTrouble });
    assert!(rig.ledger.next_deadline() <= Some(at(90_000)), "nobody is sent away for ever");

    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    rig.answer(0, number, Answer::Later { retry_after: Duration::ZERO, why: LaterReason::Throttled });
    assert!(rig.ledger.next_deadline() >= Some(at(100)), "and nobody hammers at the door");
}

#[test]
fn a_server_in_trouble_is_left_after_the_third_time_in_a_row() {
    let trouble = || Answer::Later { retry_after: Duration::from_secs(1), why: LaterReason::StoreTrouble };
    let throttled = || Answer::Later { retry_after: Duration::from_secs(1), why: LaterReason::Throttled };
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let mut now = 0;
    let mut hear = |rig: &mut Rig, answer: Answer| {
        let planned = rig.ledger.next_deadline().expect("a heartbeat is planned");
        now = now.max(planned.as_nanos().div_ceil(1_000_000));
        let (number, _) = rig.beat(now);
        rig.answer(now, number, answer)
    };
    for answer in [trouble(), trouble(), throttled(), trouble(), trouble()] {
        assert_eq!(hear(&mut rig, answer), []);
    }
    assert_eq!(hear(&mut rig, trouble()), [Output::TryAnother]);
    // There is no other one: it goes on here, and is told again.
    assert_eq!(hear(&mut rig, trouble()), []);
    assert_eq!(hear(&mut rig, trouble()), []);
    assert_eq!(hear(&mut rig, trouble()), [Output::TryAnother]);
    // What the next one says is counted anew.
    assert_eq!(hear(&mut rig, trouble()), []);
    assert_eq!(hear(&mut rig, trouble()), []);
    rig.input(60_000, Input::Disconnected);
    rig.connect(60_010);
    let (number, _) = rig.beat(60_010);
    assert_eq!(rig.answer(60_020, number, trouble()), []);
    // So it is after a heartbeat that was taken.
    let mut rig = Rig::new();
    for (ms, answer) in
        [(4_000, trouble()), (8_000, trouble()), (12_000, Answer::Ok(rig.ack())), (16_000, trouble())]
    {
        let (number, _) = rig.beat(ms);
        assert_eq!(rig.answer(ms, number, answer), []);
    }
}

#[test]
fn an_operators_drain_is_passed_on_once() {
    let mut rig = Rig::new();
    for (ms, outputs) in [(4_000, vec![Output::DrainOrdered]), (8_000, vec![])] {
        let (number, _) = rig.beat(ms);
        let ack = Ack { drain: true, ..rig.ack() };
        assert_eq!(rig.answer(ms, number, Answer::Ok(ack)), outputs);
    }
}

#[test]
fn a_new_stream_begins_with_a_heartbeat() {
    let mut rig = Rig::new();
    rig.input(1_000, Input::Disconnected);
    rig.answers = false;
    assert_eq!(rig.live_until(1_900), [], "there is no stream");
    rig.connect(2_000);
    let (number, beat) = rig.beat(2_000);
    assert_eq!(beat.token, Some(rig.last_token()), "before the next one would be due");
    rig.input(2_010, Input::Disconnected);
    let before = rig.ledger.hold_until();
    rig.ok(2_020, number);
    assert_eq!(rig.ledger.hold_until(), before, "what was not answered on the old stream is unknown");
}

#[test]
fn a_heartbeat_says_how_late_our_loop_runs() {
    let mut rig = Rig::new();
    assert_eq!(rig.beat(4_000).1.lag, Duration::ZERO);
    rig.ledger.handle_deadline(at(8_400));
    assert_eq!(rig.beat(8_400).1.lag, Duration::from_millis(100), "a quarter of what was seen last");
}
