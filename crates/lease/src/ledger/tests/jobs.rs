//! Jobs while their handlers run: orders to stop, time limits, slots.

use super::*;

#[test]
fn a_lost_job_stays_lost_and_its_report_is_dropped() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    assert_eq!(rig.order(1_000, job, StopOrder::Lost), [stop(job, StopReason::Lost)]);
    assert_eq!(rig.order(1_001, job, StopOrder::Lost), [], "told once");
    assert_eq!(rig.outputs_until(60_000), []);
    assert_eq!(rig.try_frame(60_000), None, "its handler still takes the slot");
    assert_eq!(rig.complete(60_000, job), [Output::Ended { hold: job, outcome: None }]);
    assert_eq!(rig.frame(60_000), Transmit { credits: 1, ..Transmit::default() });
}

#[test]
fn a_late_stop_of_a_finished_job_is_ignored() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.complete(100, job);
    assert_eq!(rig.order(101, job, StopOrder::Lost), []);
    assert_eq!(rig.order(102, job, StopOrder::Cancelled), []);
    assert_eq!(rig.frame(103).reports.len(), 1, "the report is still owed");
    assert_eq!(rig.settle(104, job), [Output::Accepted { hold: job }]);
    assert_eq!(rig.settle(105, job), [], "a second answer changes nothing");
}

#[test]
fn a_cancelled_job_stays_held_and_reports_what_became_of_it() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    let (number, _) = rig.beat(4_000);
    let order = Stop { hold: job, reason: StopOrder::Cancelled };
    let ack = Ack { stops: vec![order, order], ..rig.ack() };
    assert_eq!(rig.answer(4_010, number, Answer::Ok(ack)), [stop(job, StopReason::Cancelled)]);
    assert_eq!(rig.ledger.holds(), [job]);
    assert_eq!(rig.fail(5_000, job, "stopped half-way"), [ended(job, failed("stopped half-way"))]);
}

#[test]
fn an_attempt_that_takes_too_long_is_stopped_then_aborted() {
    let mut rig = Rig::new();
    let (deaf, polite, quick) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for job in [deaf, polite, quick] {
        let grant = Grant { timeout: Some(Duration::from_millis(1_500)), ..rig.grant(job) };
        rig.input(0, Input::Assigned(grant));
    }
    rig.complete(1_499, quick);
    let told = |hold| (1_500, stop(hold, StopReason::TimedOut));
    assert_eq!(rig.outputs_until(3_999), [told(deaf), told(polite)]);
    let outcome = failed("timed out after 1.5s: gave up");
    assert_eq!(rig.fail(4_000, polite, "gave up"), [ended(polite, outcome)]);
    assert_eq!(rig.outputs_until(6_500), [(6_500, Output::Abort { hold: deaf })]);
    let text = "timed out after 1.5s; the handler did not stop when told and was ended";
    let input = Input::Finished { hold: deaf, ended: Ended::Aborted, at: None };
    assert_eq!(rig.input(6_501, input), [ended(deaf, failed(text))]);
}

#[test]
fn a_lost_handler_is_ended_by_its_time_limit_too() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    let grant = Grant { timeout: Some(Duration::from_secs(10)), ..rig.grant(job) };
    rig.input(0, Input::Assigned(grant));
    rig.order(1_000, job, StopOrder::Lost);
    assert_eq!(rig.outputs_until(60_000), [(15_000, Output::Abort { hold: job })]);
}

#[test]
fn only_the_latest_note_of_a_live_job_is_sent() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1, Input::Noted { hold: job, note: "10 %".into() });
    rig.input(2, Input::Noted { hold: job, note: "20 %".into() });
    rig.complete(3, job);
    let frame = rig.frame(4);
    assert_eq!(frame.notes, [(job, Bytes::from("20 %"))], "the last word before the end counts");
    assert_eq!((frame.reports.len(), frame.beats.len()), (1, 0));
    assert_eq!(rig.try_frame(5), None);

    let gone = hold(2, 10);
    rig.assign(6, gone);
    rig.input(7, Input::Noted { hold: gone, note: "half".into() });
    rig.order(8, gone, StopOrder::Lost);
    rig.input(9, Input::Noted { hold: gone, note: "more".into() });
    assert_eq!(rig.try_frame(10), None);
}
