//! Reports: kept until answered, sent again where nobody knows whether they arrived, bounded.

use super::*;
use crate::ledger::frames::REPORTS_UNANSWERED_MAX;
use crate::ledger::reports::Reports;
use model::Report;

#[test]
fn a_report_is_sent_again_after_a_reconnect_until_it_is_answered() {
    let mut rig = Rig::new();
    let (first, second) = (hold(1, 10), hold(2, 10));
    rig.assign(0, first);
    rig.assign(0, second);
    rig.complete(100, first);
    let report = Report { hold: first, outcome: completed() };
    assert_eq!(rig.frame(100).reports, std::slice::from_ref(&report));
    assert_eq!(rig.try_frame(101), None, "once per stream");

    rig.input(200, Input::Disconnected);
    rig.complete(300, second);
    assert_eq!(rig.try_frame(300), None, "there is no stream");
    rig.connect(400);
    let frame = rig.frame(400);
    assert_eq!(frame.reports, [report, Report { hold: second, outcome: completed() }]);
    rig.ok(410, frame.heartbeat.expect("a new stream begins with one").0);
    assert_eq!(rig.frame(410).credits, 4, "all slots are free, whatever the old stream was given");

    rig.settle(500, first);
    rig.input(600, Input::Disconnected);
    rig.connect(700);
    let left: Vec<Hold> = rig.frame(700).reports.into_iter().map(|report| report.hold).collect();
    assert_eq!(left, [second]);
}

#[test]
fn a_lost_job_is_reported_if_the_terms_say_so() {
    let mut rig = Rig::with(Terms { report_lost: true, ..terms(4) });
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.order(1_000, job, StopOrder::Lost);
    assert_eq!(rig.complete(2_000, job), [ended(job, completed())]);
    assert_eq!(rig.frame(2_000).reports, [Report { hold: job, outcome: completed() }]);
    assert_eq!(rig.beat(4_000).1.binds, [], "but it is not claimed to be held");
    let answer = ReportAnswer::Refused { current: Fence::new(11) };
    let refused = Output::Refused { hold: job, current: Fence::new(11) };
    assert_eq!(rig.input(4_001, Input::ReportAnswered { hold: job, answer }), [refused]);
}

#[test]
fn frames_are_bounded_in_entries_and_bytes() {
    let mut rig = Rig::with(terms(4000));
    let finish_all = |rig: &mut Rig, jobs: std::ops::Range<usize>, bytes: usize| {
        for hold in jobs.map(numbered) {
            rig.assign(0, hold);
            rig.input(0, Input::Finished { hold, ended: Ended::Completed(vec![0; bytes].into()), at: None });
        }
        std::iter::from_fn(|| rig.try_frame(0)).map(|frame| frame.reports.len()).collect::<Vec<_>>()
    };
    assert_eq!(finish_all(&mut rig, 0..2500, 0), [1000, 1000, 500]);
    assert_eq!(finish_all(&mut rig, 2500..2503, 600 << 10), [2, 1]);
}

#[test]
fn a_server_that_does_not_answer_reports_gets_no_more_credits() {
    let mut rig = Rig::with(terms(1));
    let mut taken = 0;
    for hold in (0..=REPORTS_UNANSWERED_MAX).map(numbered) {
        rig.assign(0, hold);
        rig.complete(0, hold);
        taken += rig.try_frame(0).map_or(0, |frame| frame.credits);
    }
    assert_eq!(taken as usize, REPORTS_UNANSWERED_MAX);
    rig.settle(1, numbered(0));
    assert_eq!(rig.frame(1).credits, 1, "it caught up");
}

#[test]
fn reports_that_are_dropped_leave_nothing_to_send() {
    let mut reports = Reports::new(NONCE);
    reports.owe(hold(1, 10), completed());
    assert_eq!(reports.drop_all(), [hold(1, 10)]);
    assert!(!reports.has_unsent() && reports.is_empty());
}
