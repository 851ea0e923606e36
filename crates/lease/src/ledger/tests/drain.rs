//! The way out.

use super::*;
use crate::message::InactiveReason;
use model::{HolderEnd, Report};

const GRACE: Duration = Duration::from_secs(25);

fn leave(all_stopped: bool) -> Option<LeaveNote> {
    Some(LeaveNote { key: key("w1"), nonce: NONCE, all_stopped, crashed: false })
}

#[test]
fn draining_waits_stops_aborts_hands_back_and_leaves() {
    let mut rig = Rig::new();
    let (quick, polite, deaf, late) = (hold(1, 10), hold(2, 10), hold(3, 10), hold(4, 10));
    for job in [quick, polite, deaf] {
        rig.assign(0, job);
    }
    rig.input(1_000, Input::Drain { grace: GRACE });
    // The server did not know yet.
    assert_eq!(rig.assign(1_001, late), []);
    let frame = rig.frame(1_002);
    assert_eq!((frame.credits, frame.leave), (0, None));
    assert_eq!(frame.reports, [Report { hold: late, outcome: Outcome::HandedBack }]);

    assert_eq!(rig.complete(2_000, quick), [ended(quick, completed())]);
    let told = |hold| (21_000, stop(hold, StopReason::Draining));
    let done = rig.live_until(25_999);
    let beats: Vec<u64> =
        done.iter().filter(|(_, done)| matches!(done, Done::Beat(_))).map(|(ms, _)| *ms).collect();
    assert_eq!(beats, [4_000, 8_000, 12_000, 16_000, 20_000, 24_000], "the lease is kept up meanwhile");
    let outputs: Vec<_> = done.into_iter().filter(|(_, done)| !matches!(done, Done::Beat(_))).collect();
    assert_eq!(outputs, [told(polite), told(deaf)].map(|(ms, output)| (ms, Done::Output(output))));
    assert_eq!(rig.fail(25_999, polite, "interrupted"), [ended(polite, Outcome::HandedBack)]);
    assert_eq!(rig.outputs_until(26_000), [(26_000, Output::Abort { hold: deaf })]);
    let input = Input::Finished { hold: deaf, ended: Ended::Aborted, at: None };
    assert_eq!(rig.input(26_001, input), [ended(deaf, Outcome::HandedBack)]);

    // Leaving waits until every report is answered.
    assert_eq!(rig.try_frame(26_002).and_then(|frame| frame.leave), None);
    for job in [quick, polite, deaf, late] {
        rig.settle(26_003, job);
    }
    assert_eq!(rig.frame(26_004), Transmit { leave: leave(true), ..Transmit::default() });
    assert_eq!(rig.try_frame(28_000), None, "who has said good-bye has nothing more to say");
    assert_eq!(rig.input(28_001, Input::Left), [Output::Gone { unreported: 0 }]);
}

#[test]
fn a_draining_worker_takes_its_credits_back_first() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assert_eq!(rig.try_frame(0).map_or(0, |frame| frame.credits), 0, "the rig has given its credits");
    rig.assign(0, job);
    rig.input(1_000, Input::Drain { grace: GRACE });
    let frame = rig.frame(1_000);
    assert!(frame.draining, "otherwise a hand-back comes straight back to us");
    assert_eq!(rig.try_frame(1_001), None, "once is enough");
    rig.input(2_000, Input::Disconnected);
    rig.connect(3_000);
    assert!(!rig.frame(3_000).draining, "a new stream has no credits of ours");
}

#[test]
fn a_handler_that_cannot_be_ended_is_not_called_stopped() {
    let mut rig = Rig::new();
    let stuck = hold(1, 10);
    rig.assign(0, stuck);
    rig.input(0, Input::Drain { grace: GRACE });
    let told = (20_000, stop(stuck, StopReason::Draining));
    assert_eq!(rig.outputs_until(25_999), [told, (25_000, Output::Abort { hold: stuck })]);
    assert_eq!(rig.try_frame(25_999).and_then(|frame| frame.leave), None);
    rig.ledger.handle_deadline(at(26_000));
    assert_eq!(rig.frame(26_000).leave, leave(false));
}

#[test]
fn without_a_server_a_drain_ends_when_there_is_nothing_left_to_say() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(10, Input::Disconnected);
    assert_eq!(rig.input(20, Input::Drain { grace: GRACE }), []);
    rig.complete(30, job);
    // Its report is worth waiting for, but not for ever.
    let (lapsed, gone) = (Output::NewKey { why: KeyEnd::Lapsed }, Output::Gone { unreported: 1 });
    assert_eq!(rig.outputs_until(60_000), [(19_980, lapsed), (26_020, gone)]);

    let mut idle = Rig::new();
    idle.input(10, Input::Disconnected);
    let gone = idle.input(20, Input::Drain { grace: GRACE });
    assert_eq!(gone, [Output::Gone { unreported: 0 }]);
}

#[test]
fn a_worker_that_was_never_registered_leaves_nobody() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    assert_eq!(rig.input(10, Input::Drain { grace: GRACE }), [], "the server may know us by now");
    assert_eq!(rig.try_frame(10), None, "no leave before it said so");
    assert_eq!(rig.ok(20, number), [Output::Registered { lease: LEASE }]);
    assert_eq!(rig.frame(20), Transmit { leave: leave(true), ..Transmit::default() });

    let mut unknown = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let gone = unknown.input(10, Input::Drain { grace: GRACE });
    assert_eq!(gone, [Output::Gone { unreported: 0 }], "nobody was ever told of us");
}

#[test]
fn a_leave_is_said_again_on_a_new_stream() {
    let mut rig = Rig::new();
    rig.input(10, Input::Drain { grace: GRACE });
    assert_eq!(rig.frame(10).leave, leave(true));
    let gone = rig.input(20, Input::Disconnected);
    assert_eq!(gone, [Output::Gone { unreported: 0 }], "there is nobody to tell, and nothing to deliver");

    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.complete(0, job);
    rig.input(10, Input::Drain { grace: GRACE });
    rig.settle(20, job);
    assert!(rig.frame(20).leave.is_some());
    rig.connect(30);
    let (number, _) = rig.beat(30);
    assert_eq!(rig.try_frame(30), None, "whether this server looks after us is still to be seen");
    rig.ok(40, number);
    assert_eq!(rig.frame(40), Transmit { leave: leave(true), ..Transmit::default() });
}

#[test]
fn a_key_that_dies_while_it_takes_leave_is_not_replaced() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    rig.input(4_010, Input::Drain { grace: GRACE });
    assert_eq!(rig.frame(4_010).leave, leave(true));
    let why = InactiveReason::Ended(HolderEnd::Left);
    assert_eq!(rig.answer(4_020, number, Answer::Inactive { why }), [Output::Gone { unreported: 0 }]);
}

#[test]
fn results_that_outlive_the_key_are_delivered_under_the_next_while_draining() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1_000, Input::Disconnected);
    rig.input(1_000, Input::Drain { grace: GRACE });
    rig.complete(2_000, job);
    rig.live_until(19_980);
    rig.rekey(20_000, "w2");
    rig.connect(20_000);
    let frame = rig.register(20_000);
    assert_eq!((frame.reports.len(), frame.credits, frame.leave), (1, 0, None));
    rig.settle(20_010, job);
    let leave = rig.frame(20_010).leave.expect("all is said");
    assert_eq!((leave.key, leave.all_stopped), (key("w2"), true));
}

#[test]
fn a_drain_outlives_the_key() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1_000, Input::Drain { grace: GRACE });
    let (number, _) = rig.beat(4_000);
    let why = InactiveReason::Ended(HolderEnd::Kicked);
    rig.answer(4_010, number, Answer::Inactive { why });
    rig.rekey(4_020, "w2");
    rig.connect(4_020);
    let frame = rig.register(4_020);
    assert_eq!((frame.credits, frame.leave), (0, None), "its handler still runs, and nothing comes after it");
    assert_eq!(rig.assign(4_030, hold(2, 11)), []);
    assert_eq!(rig.frame(4_030).reports[0].outcome, Outcome::HandedBack);
}

#[test]
fn a_drain_that_is_told_with_the_first_answer_comes_before_any_credits() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    let ack = Ack { drain: true, ..rig.ack() };
    let outputs = rig.answer(0, number, Answer::Ok(ack));
    assert_eq!(outputs, [Output::Registered { lease: LEASE }, Output::DrainOrdered]);
    rig.input(0, Input::Drain { grace: GRACE });
    let frame = rig.frame(0);
    assert_eq!((frame.credits, frame.leave.is_some()), (0, true));
}

/// The guardian died under what it ran, and one of that may be what killed it: a hand-back would offer it again for ever.
#[test]
fn what_ran_when_the_guardian_died_is_not_reported_and_the_leave_says_so() {
    let mut rig = Rig::new();
    let (ran, lost, done, late) = (hold(1, 10), hold(2, 10), hold(3, 10), hold(4, 10));
    for job in [ran, lost, done] {
        rig.assign(0, job);
    }
    rig.input(500, Input::Stopped(Stop { hold: lost, reason: StopOrder::Lost }));
    rig.complete(900, done);
    rig.input(1_000, Input::Drain { grace: Duration::ZERO });
    let stopped = stop(ran, StopReason::Draining);
    assert!(rig.outputs_until(1_000).contains(&(1_000, stopped)), "that it was told to stop changes nothing");
    for job in [lost, ran] {
        let input = Input::Finished { hold: job, ended: Ended::Crashed, at: None };
        assert_eq!(rig.input(1_000, input), [Output::Ended { hold: job, outcome: None }]);
    }
    // It never started.
    rig.assign(1_001, late);
    assert_eq!(rig.frame(1_002).reports, [Report { hold: late, outcome: Outcome::HandedBack }]);
    assert_eq!(rig.ledger.holds(), [ran, done, late], "until we leave they are ours");
    for job in [done, late] {
        rig.settle(1_003, job);
    }
    let note = LeaveNote { key: key("w1"), nonce: NONCE, all_stopped: true, crashed: true };
    assert_eq!(rig.frame(1_004).leave, Some(note));
}

#[test]
fn a_guardian_that_died_under_nothing_of_ours_is_no_crash() {
    let mut rig = Rig::new();
    let lost = hold(1, 10);
    rig.assign(0, lost);
    rig.input(500, Input::Stopped(Stop { hold: lost, reason: StopOrder::Lost }));
    rig.input(1_000, Input::Drain { grace: Duration::ZERO });
    rig.input(1_000, Input::Finished { hold: lost, ended: Ended::Crashed, at: None });
    assert_eq!(rig.frame(1_001).leave, leave(true));
}
