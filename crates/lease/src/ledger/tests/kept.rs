//! Results that somebody comes back for: told to every life of the server, forgotten when that one knows or after a while.

use super::*;
use crate::ledger::kept::{RESULT_BYTES_MAX, RESULT_KEEP, RESULTS_MAX};
use crate::message::InactiveReason;
use model::{HolderEnd, Report};

const NEXT: Generation = Generation(4);
const KEEP_MS: u64 = RESULT_KEEP.as_millis() as u64;

/// Runs a job to this end, and has its report answered.
fn run(rig: &mut Rig, at_ms: u64, hold: Hold, ended: Ended, answer: ReportAnswer) {
    rig.assign_at_once(at_ms, hold);
    rig.input(at_ms, Input::Finished { hold, ended, at: None });
    rig.try_frame(at_ms);
    rig.input(at_ms, Input::ReportAnswered { hold, answer });
}

fn complete(rig: &mut Rig, at_ms: u64, hold: Hold) {
    run(rig, at_ms, hold, Ended::Completed(Bytes::from_static(b"42")), ReportAnswer::Done);
}

/// What the next life of the server is told of results when it is found.
fn reported(rig: &mut Rig, at_ms: u64, generation: Generation) -> Vec<Hold> {
    rig.input(at_ms, Input::Disconnected);
    rig.connect_to(at_ms, generation);
    let frames = std::iter::from_fn(|| rig.try_frame(at_ms));
    frames.flat_map(|frame| frame.reports).map(|report| report.hold).collect()
}

#[test]
fn a_result_is_told_to_every_new_life_of_the_server_until_its_client_knows() {
    let mut rig = Rig::new();
    complete(&mut rig, 100, awaited(1));
    complete(&mut rig, 200, awaited(2));
    assert_eq!(reported(&mut rig, 300, GENERATION), [], "this one took them");
    rig.input(400, Input::Disconnected);
    rig.connect_to(400, NEXT);
    let outcome = Outcome::Completed { result: Bytes::from_static(b"42") };
    let report = |hold| Report { hold, outcome: outcome.clone() };
    assert_eq!(rig.frame(400).reports, [report(awaited(1)), report(awaited(2))]);
    assert_eq!(rig.settle(410, awaited(1)), [], "that is no news to whoever ran it");
    assert_eq!(reported(&mut rig, 500, NEXT), [awaited(2)], "what was not answered is told again");
    rig.settle(510, awaited(2));
    assert_eq!(reported(&mut rig, 600, NEXT), []);
    rig.input(700, Input::Forget(vec![awaited(1), awaited(9)]));
    assert_eq!(reported(&mut rig, 800, Generation(5)), [awaited(2)]);
    rig.input(900, Input::Forget(vec![awaited(2)]));
    assert_eq!(reported(&mut rig, 1_000, Generation(6)), []);
}

#[test]
fn a_result_survives_the_key_that_reported_it() {
    let mut rig = Rig::new();
    complete(&mut rig, 100, awaited(1));
    let (number, _) = rig.beat(4_000);
    let why = InactiveReason::Ended(HolderEnd::Kicked);
    rig.answer(4_010, number, Answer::Inactive { why });
    rig.rekey(4_020, "w2");
    rig.connect_to(4_030, NEXT);
    let (number, beat) = rig.beat(4_030);
    assert_eq!(beat.full, Some(vec![]), "it is not held, only remembered");
    rig.ok(4_040, number);
    assert_eq!(holds_of(&rig.frame(4_040)), [awaited(1)]);
}

fn holds_of(frame: &Transmit) -> Vec<Hold> {
    frame.reports.iter().map(|report| report.hold).collect()
}

#[test]
fn only_ends_that_are_final_and_awaited_are_kept() {
    let failed = |retry| Ended::Failed { error: "no".into(), retry };
    let refused = ReportAnswer::Refused { current: Fence::new(2) };
    let unattended = ClientId::unattended(WallTime::from_millis(1), 1).job(1);
    let unattended = Hold { job: unattended, fence: Fence::new(1) };
    let cases = [
        (awaited(1), failed(Retry::Never), ReportAnswer::Done, true),
        (awaited(1), failed(Retry::ByPolicy), ReportAnswer::Done, false),
        (awaited(1), failed(Retry::After(Duration::ZERO)), ReportAnswer::Done, false),
        (awaited(1), Ended::Completed(Bytes::new()), refused, false),
        (unattended, Ended::Completed(Bytes::new()), ReportAnswer::Done, false),
        (hold(1, 10), Ended::Completed(Bytes::new()), ReportAnswer::Done, false),
    ];
    for (hold, ended, answer, is_kept) in cases {
        let mut rig = Rig::new();
        let what = format!("{hold:?} {ended:?} {answer:?}");
        run(&mut rig, 100, hold, ended, answer);
        assert_eq!(reported(&mut rig, 200, NEXT).len(), usize::from(is_kept), "{what}");
    }
}

#[test]
fn a_client_may_know_before_the_answer_comes() {
    let mut rig = Rig::new();
    rig.assign_at_once(100, awaited(1));
    rig.complete(100, awaited(1));
    rig.frame(100);
    rig.input(110, Input::Forget(vec![awaited(1)]));
    assert_eq!(rig.settle(120, awaited(1)), [Output::Accepted { hold: awaited(1) }]);
    assert_eq!(reported(&mut rig, 200, NEXT), []);
}

#[test]
fn a_result_that_a_later_life_refuses_is_not_told_again() {
    let mut rig = Rig::new();
    complete(&mut rig, 100, awaited(1));
    assert_eq!(reported(&mut rig, 200, NEXT), [awaited(1)]);
    let answer = ReportAnswer::Refused { current: Fence::new(2) };
    assert_eq!(rig.input(210, Input::ReportAnswered { hold: awaited(1), answer }), []);
    assert_eq!(reported(&mut rig, 300, Generation(5)), []);
}

#[test]
fn a_result_is_forgotten_after_a_while() {
    let mut rig = Rig::new();
    rig.live_until(1_000);
    complete(&mut rig, 1_000, awaited(1));
    rig.live_until(2_000);
    complete(&mut rig, 2_000, awaited(2));
    rig.live_until(1_000 + KEEP_MS);
    assert_eq!(reported(&mut rig, 1_001 + KEEP_MS, NEXT), [awaited(2)]);
    rig.ledger.handle_deadline(at(2_000 + KEEP_MS));
    assert_eq!(reported(&mut rig, 2_000 + KEEP_MS, Generation(5)), []);
}

#[test]
fn too_many_results_stop_the_intake_until_clients_know_them() {
    let mut rig = Rig::with(terms(1));
    let last = RESULTS_MAX as u64 - 1;
    for sequence in 0..last {
        complete(&mut rig, 100, awaited(sequence));
    }
    rig.assign_at_once(100, awaited(last));
    rig.complete(100, awaited(last));
    assert_eq!(rig.frame(100).credits, 1, "there is room for the result of one more");
    rig.settle(100, awaited(last));
    // The server has a credit from before.
    rig.assign_at_once(100, awaited(last + 1));
    rig.complete(100, awaited(last + 1));
    assert_eq!(rig.frame(100).credits, 0);
    rig.settle(100, awaited(last + 1));
    assert_eq!(rig.try_frame(100), None);
    rig.input(110, Input::Forget(vec![awaited(0)]));
    assert_eq!(rig.try_frame(110), None, "as many as before are kept");
    rig.input(120, Input::Forget(vec![awaited(1)]));
    assert_eq!(rig.frame(120).credits, 1);

    let mut rig = Rig::with(terms(1));
    let large = Bytes::from(vec![0; RESULT_BYTES_MAX / 4]);
    for sequence in 0..5 {
        run(&mut rig, 100, awaited(sequence), Ended::Completed(large.clone()), ReportAnswer::Done);
    }
    assert_eq!(rig.try_frame(100), None, "no credit");
    rig.live_until(100 + KEEP_MS - 1);
    assert_eq!(rig.try_frame(100 + KEEP_MS - 1), None);
    rig.ledger.handle_deadline(at(100 + KEEP_MS));
    assert_eq!(rig.frame(100 + KEEP_MS).credits, 1, "or time has passed");
}

#[test]
fn what_was_forgotten_leaves_nothing_behind_however_old_the_first_one_is() {
    let mut rig = Rig::new();
    complete(&mut rig, 0, awaited(0));
    for sequence in 1..10_000 {
        complete(&mut rig, 0, awaited(sequence));
        rig.input(0, Input::Forget(vec![awaited(sequence)]));
        assert!(rig.ledger.kept.ages_len() < 100, "after {sequence}");
    }
    assert_eq!(reported(&mut rig, 1, NEXT), [awaited(0)]);
}

#[test]
fn a_worker_that_leaves_does_not_wait_for_anybody_to_know() {
    let mut rig = Rig::new();
    complete(&mut rig, 100, awaited(1));
    rig.input(200, Input::Drain { grace: Duration::from_secs(25) });
    assert!(rig.frame(200).leave.is_some());
    assert_eq!(rig.input(210, Input::Left), [Output::Gone { unreported: 0 }]);
}

#[test]
fn whatever_is_held_fits_into_a_heartbeat() {
    let max = model::Limits::BOUND_MAX;
    let mut rig = Rig::with(terms(u32::try_from(max).expect("it fits")));
    for hold in (0..10).map(numbered) {
        rig.assign(0, hold);
        rig.complete(0, hold);
    }
    let frame = rig.frame(0);
    assert_eq!((frame.reports.len(), frame.credits), (10, 0), "unanswered reports are held, too");
    rig.settle(1, numbered(0));
    assert_eq!(rig.frame(1).credits, 1);
}
