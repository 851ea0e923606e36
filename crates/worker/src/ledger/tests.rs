//! Tables of inputs and outputs over virtual time, in milliseconds.

use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Instant, JobId, Outcome, Report, Retry};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::machine::REPORTS_UNANSWERED_MAX;
use super::*;

const LEASE: Duration = Duration::from_secs(20);

/// A ledger with four slots, already connected; its first frame, the credits, is taken.
struct Rig {
    ledger: Ledger,
}

/// Something the ledger did by itself, as time passed.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Output(Output),
    Beat(u64, Vec<Hold>),
}

impl Rig {
    fn new() -> Self {
        Self::with(Terms { slots: 4, kill_wait: Duration::from_secs(5), report_lost: false })
    }

    fn with(terms: Terms) -> Self {
        let slots = terms.slots;
        let mut rig = Rig { ledger: Ledger::new(terms) };
        assert_eq!(rig.input(0, Input::Connected), []);
        assert_eq!(rig.frame(0), Transmit { credits: slots, ..Transmit::default() });
        rig
    }

    /// One input and everything it makes the ledger ask for.
    fn input(&mut self, at_ms: u64, input: Input) -> Vec<Output> {
        self.ledger.handle(at(at_ms), input);
        self.outputs()
    }

    fn assign(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::Assigned(Grant { hold, lease: LEASE, timeout: None }))
    }

    fn complete(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::Finished { hold, ended: Ended::Completed(Bytes::new()) })
    }

    fn answer_beat(&mut self, at_ms: u64, number: u64, holds: &[Hold]) -> Vec<Output> {
        let renewals = holds.iter().map(|hold| (*hold, LEASE)).collect();
        self.input(at_ms, Input::BeatAnswered { number, renewals })
    }

    fn settle(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::ReportAnswered { hold, answer: Answer::Done })
    }

    /// Lives through every deadline up to and including this time, sending frames as they become due.
    fn live_until(&mut self, until_ms: u64) -> Vec<(u64, Done)> {
        let mut done = Vec::new();
        for _ in 0..1000 {
            let Some(deadline) = self.ledger.next_deadline().filter(|deadline| *deadline <= at(until_ms))
            else {
                return done;
            };
            let now_ms = deadline.as_nanos() / 1_000_000;
            self.ledger.handle_deadline(deadline);
            done.extend(self.outputs().into_iter().map(|output| (now_ms, Done::Output(output))));
            if let Some((number, holds)) = self.ledger.poll_transmit(deadline).and_then(|frame| frame.beat) {
                done.push((now_ms, Done::Beat(number, holds)));
            }
        }
        panic!("a deadline is named again and again but never met; so far: {done:?}");
    }

    fn frame(&mut self, at_ms: u64) -> Transmit {
        self.try_frame(at_ms).expect("there is something to send")
    }

    fn try_frame(&mut self, at_ms: u64) -> Option<Transmit> {
        self.ledger.poll_transmit(at(at_ms))
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.ledger.poll_output()).collect()
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn hold(job: u8, fence: i64) -> Hold {
    Hold { job: JobId::from_bytes([job; 16]), fence: Fence::new(fence) }
}

fn lost(hold: Hold) -> Output {
    Output::Stop { hold, reason: StopReason::Lost }
}

fn over(hold: Hold) -> Output {
    Output::Stop { hold, reason: StopReason::LeaseOver }
}

fn ended(hold: Hold, outcome: Outcome) -> Output {
    Output::Ended { hold, outcome: Some(outcome) }
}

fn completed() -> Outcome {
    Outcome::Completed { result: Bytes::new() }
}

fn failure(error: &str) -> Ended {
    Ended::Failed { error: error.into(), retry: Retry::ByPolicy }
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into(), retry: Retry::ByPolicy }
}

#[test]
fn a_lease_that_is_not_renewed_is_over_exactly_at_its_end() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assert_eq!(rig.assign(1_000, job), [Output::Start { hold: job }]);
    // Never acknowledged: 90 % of 20 s after its arrival. The beats on the way find no answer.
    let done = rig.live_until(18_999);
    assert!(done.iter().all(|(_, done)| matches!(done, Done::Beat(..))), "{done:?}");
    assert_eq!(rig.live_until(19_000), [(19_000, Done::Output(over(job)))]);
    let done = rig.live_until(100_000);
    assert!(
        !done.is_empty() && done.iter().all(|(_, done)| matches!(done, Done::Beat(..))),
        "told once, asked on: {done:?}"
    );
    assert_eq!(rig.input(100_001, Input::Lost(job)), [lost(job)]);
    assert_eq!(rig.live_until(200_000), [], "a lost job is not beaten for");
}

#[test]
fn what_ends_after_its_lease_was_over_counts_unless_the_server_said_lost() {
    let mut rig = Rig::new();
    let (deaf, polite, gone) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for job in [deaf, polite, gone] {
        rig.assign(0, job);
    }
    rig.input(1_000, Input::Disconnected);
    rig.live_until(18_000);
    rig.input(30_000, Input::Connected);
    assert_eq!(
        rig.frame(30_000).beat,
        Some((1, vec![deaf, polite, gone])),
        "the server is asked about all three"
    );
    rig.answer_beat(30_010, 1, &[deaf, polite]);
    rig.input(30_010, Input::Lost(gone));
    assert_eq!(rig.complete(30_020, deaf), [ended(deaf, completed())]);
    let input = Input::Finished { hold: polite, ended: failure("interrupted") };
    assert_eq!(
        rig.input(30_030, input),
        [ended(polite, Outcome::HandedBack)],
        "the interruption was not its fault"
    );
    assert_eq!(rig.complete(30_040, gone), [Output::Ended { hold: gone, outcome: None }]);
}

#[test]
fn an_acknowledged_beat_counts_from_its_send_stamp() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    assert_eq!(rig.live_until(4_000), [(4_000, Done::Beat(1, vec![job]))]);
    // The answer takes three seconds; the lease runs from 4 s, not from 7 s.
    rig.answer_beat(7_000, 1, &[job]);
    let done = rig.live_until(24_000);
    assert!(done.contains(&(24_000, Done::Output(over(job)))), "{done:?}");
}

#[test]
fn three_missed_beats_are_survived() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.live_until(4_000);
    rig.answer_beat(4_010, 1, &[job]);
    let beats: Vec<u64> = rig.live_until(20_000).into_iter().map(|(ms, _)| ms).collect();
    assert_eq!(beats, [8_000, 12_000, 16_000, 20_000]);
    // The three at 8, 12 and 16 s got lost; the one at 20 s arrives in time.
    assert_eq!(rig.answer_beat(23_900, 5, &[job]), []);
    let done = rig.live_until(39_999);
    assert!(done.iter().all(|(_, done)| matches!(done, Done::Beat(..))), "{done:?}");
}

#[test]
fn a_late_answer_counts_from_its_own_beat() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.live_until(8_000);
    // Beat 1, sent at 4 s, is answered after beat 2 went out.
    rig.answer_beat(8_500, 1, &[job]);
    let done = rig.live_until(24_000);
    assert!(done.contains(&(24_000, Done::Output(over(job)))), "{done:?}");
}

#[test]
fn the_shortest_lease_sets_the_pace() {
    let mut rig = Rig::new();
    let (long, short) = (hold(1, 10), hold(2, 10));
    rig.assign(0, long);
    rig.input(100, Input::Assigned(Grant { hold: short, lease: Duration::from_secs(1), timeout: None }));
    assert_eq!(rig.live_until(300), [(300, Done::Beat(1, vec![long, short]))]);
    rig.complete(350, short);
    // The pace is kept until the next beat, which is then back to a fifth of 20 s.
    assert_eq!(rig.live_until(5_000), [(500, Done::Beat(2, vec![long])), (4_500, Done::Beat(3, vec![long]))]);
    rig.complete(6_000, long);
    assert_eq!(rig.live_until(60_000), [], "nothing is held, nothing is beaten for");
}

#[test]
fn a_lost_job_stays_lost_and_its_report_is_dropped() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.live_until(4_000);
    assert_eq!(rig.input(5_000, Input::Lost(job)), [lost(job)]);
    assert_eq!(rig.input(5_001, Input::Lost(job)), [], "told once");
    rig.answer_beat(5_002, 1, &[job]);
    assert_eq!(rig.live_until(60_000), []);
    assert_eq!(rig.complete(60_000, job), [Output::Ended { hold: job, outcome: None }]);
    // Only the slot comes back.
    assert_eq!(rig.frame(60_000), Transmit { credits: 1, ..Transmit::default() });
}

#[test]
fn a_lost_job_is_reported_if_the_terms_say_so() {
    let mut rig = Rig::with(Terms { slots: 4, kill_wait: Duration::ZERO, report_lost: true });
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1_000, Input::Lost(job));
    assert_eq!(rig.complete(2_000, job), [ended(job, completed())]);
    assert_eq!(rig.frame(2_000).reports, [Report { hold: job, outcome: completed() }]);
    let answer = Answer::Refused { current: Fence::new(11) };
    let refused = Output::Refused { hold: job, current: Fence::new(11) };
    assert_eq!(rig.input(2_001, Input::ReportAnswered { hold: job, answer }), [refused]);
}

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
    rig.input(400, Input::Connected);
    let frame = rig.frame(400);
    assert_eq!(frame.reports, [report, Report { hold: second, outcome: completed() }]);
    assert_eq!(frame.credits, 4, "all slots are free, whatever the old stream was given");

    rig.settle(500, first);
    rig.input(600, Input::Disconnected);
    rig.input(700, Input::Connected);
    let left: Vec<Hold> = rig.frame(700).reports.into_iter().map(|report| report.hold).collect();
    assert_eq!(left, [second]);
}

#[test]
fn a_new_stream_begins_with_a_beat_for_what_still_runs() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(1_000, Input::Disconnected);
    rig.input(2_000, Input::Connected);
    let frame = rig.frame(2_000);
    assert_eq!((frame.beat, frame.credits), (Some((1, vec![job])), 3), "before the next beat would be due");
    rig.input(3_000, Input::Disconnected);
    assert_eq!(rig.live_until(9_000), [], "no beats without a stream");
}

#[test]
fn a_late_stop_of_a_finished_job_is_ignored() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.complete(100, job);
    assert_eq!(rig.input(101, Input::Lost(job)), []);
    assert_eq!(rig.input(102, Input::CancelOrdered(job)), []);
    assert_eq!(rig.frame(103).reports.len(), 1, "the report is still owed");
    assert_eq!(rig.settle(104, job), [Output::Accepted { hold: job }]);
    assert_eq!(rig.settle(105, job), [], "a second answer changes nothing");
}

#[test]
fn a_cancelled_job_stays_held_and_reports_what_became_of_it() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    let stop = Output::Stop { hold: job, reason: StopReason::Cancelled };
    assert_eq!(rig.input(1, Input::CancelOrdered(job)), [stop]);
    assert_eq!(rig.live_until(4_000), [(4_000, Done::Beat(1, vec![job]))]);
    let input = Input::Finished { hold: job, ended: failure("stopped half-way") };
    assert_eq!(rig.input(5_000, input), [ended(job, failed("stopped half-way"))]);
}

#[test]
fn an_attempt_that_takes_too_long_is_stopped_then_aborted() {
    let mut rig = Rig::new();
    let (deaf, polite, quick) = (hold(1, 10), hold(2, 10), hold(3, 10));
    for hold in [deaf, polite, quick] {
        let timeout = Some(Duration::from_millis(1_500));
        rig.input(0, Input::Assigned(Grant { hold, lease: LEASE, timeout }));
    }
    rig.complete(1_499, quick);
    let stop = |hold| (1_500, Done::Output(Output::Stop { hold, reason: StopReason::TimedOut }));
    assert_eq!(rig.live_until(3_999), [stop(deaf), stop(polite)]);
    let input = Input::Finished { hold: polite, ended: failure("gave up") };
    assert_eq!(rig.input(4_000, input), [ended(polite, failed("timed out after 1.5s: gave up"))]);
    let aborts: Vec<_> =
        rig.live_until(6_500).into_iter().filter(|(_, done)| matches!(done, Done::Output(_))).collect();
    assert_eq!(aborts, [(6_500, Done::Output(Output::Abort { hold: deaf }))]);
    let text = "timed out after 1.5s; the handler did not stop when told and was ended";
    let input = Input::Finished { hold: deaf, ended: Ended::Aborted };
    assert_eq!(rig.input(6_501, input), [ended(deaf, failed(text))]);
}

#[test]
fn what_arrives_twice_starts_once() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assert_eq!(rig.assign(0, job), [Output::Start { hold: job }]);
    assert_eq!(rig.assign(1, job), []);
    rig.complete(2, job);
    assert_eq!(rig.assign(3, job), [], "its report is owed");
}

#[test]
fn a_newer_claim_ends_the_older_one_and_never_the_other_way_round() {
    let mut rig = Rig::new();
    let (older, newer) = (hold(1, 10), hold(1, 11));
    rig.assign(0, older);
    assert_eq!(rig.assign(1, newer), [lost(older), Output::Start { hold: newer }]);
    rig.complete(2, older);
    assert_eq!(rig.assign(3, older), [], "a delayed assignment does not start");
}

#[test]
fn after_a_sleep_old_assignments_are_handed_back_and_fresh_ones_start() {
    let mut rig = Rig::new();
    let running = hold(1, 10);
    rig.assign(0, running);
    rig.live_until(4_000);
    rig.answer_beat(4_010, 1, &[running]);
    // Stopped from 5 s to 60 s. What was held is in doubt before anything else is looked at.
    rig.ledger.handle(at(60_000), Input::Overslept { since: at(5_000) });
    rig.ledger.handle_deadline(at(60_000));
    assert_eq!(rig.outputs(), [over(running)]);
    let stale = hold(2, 10);
    assert_eq!(rig.assign(60_001, stale), []);
    let frame = rig.frame(60_002);
    assert_eq!(frame.reports, [Report { hold: stale, outcome: Outcome::HandedBack }]);
    assert_eq!(frame.credits, 0, "what is handed back must not come again at once");
    let (number, _) = frame.beat.expect("a beat finds out where the old frames end");
    assert_eq!(rig.assign(60_003, hold(3, 10)), [], "still before the answer");
    rig.answer_beat(60_010, number, &[]);
    let fresh = hold(4, 10);
    assert_eq!(rig.assign(60_011, fresh), [Output::Start { hold: fresh }]);
    assert_eq!(rig.frame(60_012).credits, 2, "one handler of a doubtful job and one fresh one run");
}

#[test]
fn a_short_nap_costs_an_assignment_only_that_much_of_its_lease() {
    let mut rig = Rig::new();
    rig.input(12_000, Input::Overslept { since: at(10_000) });
    let job = hold(1, 10);
    assert_eq!(rig.assign(12_001, job), [Output::Start { hold: job }]);
    let done = rig.live_until(28_000);
    assert!(done.contains(&(28_000, Done::Output(over(job)))), "{done:?}");
}

#[test]
fn a_doubt_without_an_answer_is_beaten_for_again() {
    let mut rig = Rig::new();
    rig.input(2_000, Input::Overslept { since: at(0) });
    assert_eq!(rig.live_until(8_000), [(2_000, Done::Beat(1, vec![])), (6_000, Done::Beat(2, vec![]))]);
    rig.answer_beat(8_001, 2, &[]);
    assert_eq!(rig.live_until(60_000), []);
}

#[test]
fn draining_waits_stops_aborts_hands_back_and_leaves() {
    let mut rig = Rig::new();
    let (quick, polite, deaf, late) = (hold(1, 10), hold(2, 10), hold(3, 10), hold(4, 10));
    for job in [quick, polite, deaf] {
        rig.input(0, Input::Assigned(Grant { hold: job, lease: Duration::from_secs(100), timeout: None }));
    }
    rig.input(1_000, Input::Drain { grace: Duration::from_secs(25) });
    // The server did not know yet.
    assert_eq!(rig.assign(1_001, late), []);
    let frame = rig.frame(1_002);
    assert_eq!((frame.credits, frame.leave), (0, None));
    assert_eq!(frame.reports, [Report { hold: late, outcome: Outcome::HandedBack }]);

    assert_eq!(rig.complete(2_000, quick), [ended(quick, completed())]);
    let stop = |hold| (21_000, Done::Output(Output::Stop { hold, reason: StopReason::Draining }));
    assert_eq!(
        rig.live_until(25_999),
        [(20_000, Done::Beat(1, vec![polite, deaf])), stop(polite), stop(deaf)]
    );
    let input = Input::Finished { hold: polite, ended: failure("interrupted") };
    assert_eq!(rig.input(21_500, input), [ended(polite, Outcome::HandedBack)]);
    assert_eq!(rig.live_until(26_000), [(26_000, Done::Output(Output::Abort { hold: deaf }))]);
    let input = Input::Finished { hold: deaf, ended: Ended::Aborted };
    assert_eq!(rig.input(26_001, input), [ended(deaf, Outcome::HandedBack)]);

    // Leaving waits until every report is answered.
    assert_eq!(rig.try_frame(26_002).and_then(|frame| frame.leave), None);
    for job in [quick, polite, deaf, late] {
        rig.settle(26_003, job);
    }
    assert_eq!(rig.frame(26_004), Transmit { leave: Some(true), ..Transmit::default() });
    assert_eq!(rig.try_frame(26_005), None);
    assert_eq!(rig.input(26_006, Input::Left), [Output::Gone { unreported: 0 }]);
}

#[test]
fn a_draining_worker_takes_its_credits_back_first() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assert_eq!(rig.try_frame(0).map_or(0, |frame| frame.credits), 0, "the rig has given its credits");
    rig.assign(0, job);
    rig.input(1_000, Input::Drain { grace: Duration::from_secs(25) });
    let frame = rig.frame(1_000);
    assert!(frame.draining, "otherwise a hand-back comes straight back to us");
    assert_eq!(rig.try_frame(1_001), None, "once is enough");
    rig.input(2_000, Input::Disconnected);
    rig.input(3_000, Input::Connected);
    assert!(!rig.frame(3_000).draining, "a new stream has no credits of ours");
}

#[test]
fn a_handler_that_cannot_be_ended_is_not_called_stopped() {
    let mut rig = Rig::new();
    let stuck = hold(1, 10);
    rig.input(0, Input::Assigned(Grant { hold: stuck, lease: Duration::from_secs(100), timeout: None }));
    rig.input(0, Input::Drain { grace: Duration::from_secs(25) });
    rig.ledger.handle_deadline(at(20_000));
    rig.ledger.handle_deadline(at(25_000));
    assert_eq!(rig.frame(25_000).leave, None);
    rig.ledger.handle_deadline(at(26_000));
    assert_eq!(rig.frame(26_000).leave, Some(false));
}

#[test]
fn without_a_server_a_drain_ends_when_there_is_nothing_left_to_say() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(10, Input::Disconnected);
    assert_eq!(rig.input(20, Input::Drain { grace: Duration::from_secs(25) }), []);
    rig.complete(30, job);
    // Its report is worth waiting for, but not for ever.
    assert_eq!(rig.live_until(60_000), [(26_020, Done::Output(Output::Gone { unreported: 1 }))]);

    let mut idle = Rig::new();
    idle.input(10, Input::Disconnected);
    let gone = idle.input(20, Input::Drain { grace: Duration::from_secs(25) });
    assert_eq!(gone, [Output::Gone { unreported: 0 }]);
}

#[test]
fn frames_are_bounded_in_entries_and_bytes() {
    let mut rig = Rig::with(Terms { slots: 4000, kill_wait: Duration::ZERO, report_lost: false });
    let finish_all = |rig: &mut Rig, jobs: std::ops::Range<u16>, bytes: usize| {
        for number in jobs {
            let job = JobId::from_bytes(u128::from(number).to_be_bytes());
            let hold = Hold { job, fence: Fence::new(1) };
            rig.assign(0, hold);
            rig.input(0, Input::Finished { hold, ended: Ended::Completed(vec![0; bytes].into()) });
        }
        std::iter::from_fn(|| rig.try_frame(0)).map(|frame| frame.reports.len()).collect::<Vec<_>>()
    };
    assert_eq!(finish_all(&mut rig, 0..2500, 0), [1000, 1000, 500]);
    assert_eq!(finish_all(&mut rig, 2500..2503, 600 << 10), [2, 1]);
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
    assert_eq!(frame.reports.len(), 1);
    assert_eq!(rig.try_frame(5), None);

    let gone = hold(2, 10);
    rig.assign(6, gone);
    rig.input(7, Input::Noted { hold: gone, note: "half".into() });
    rig.input(8, Input::Lost(gone));
    rig.input(9, Input::Noted { hold: gone, note: "more".into() });
    assert_eq!(rig.try_frame(10), None);
}

#[test]
fn a_server_that_does_not_answer_reports_gets_no_more_credits() {
    let mut rig = Rig::with(Terms { slots: 1, kill_wait: Duration::ZERO, report_lost: false });
    let mut taken = 0;
    for number in 0..=REPORTS_UNANSWERED_MAX as u128 {
        let job = JobId::from_bytes(number.to_be_bytes());
        rig.assign(0, Hold { job, fence: Fence::new(1) });
        rig.complete(0, Hold { job, fence: Fence::new(1) });
        taken += rig.try_frame(0).map_or(0, |frame| frame.credits);
    }
    assert_eq!(taken as usize, REPORTS_UNANSWERED_MAX);
    rig.settle(1, Hold { job: JobId::from_bytes([0; 16]), fence: Fence::new(1) });
    assert_eq!(rig.frame(1).credits, 1, "it caught up");
}

/// Over random lives with reconnects, losses and sleeps, the server never has more credits than there are free slots.
#[test]
fn slots_are_never_promised_twice() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut rig = Rig::new();
        let (mut connected, mut credits, mut handlers, mut now, mut next) =
            (true, 4u32, Vec::new(), 0u64, 0i64);
        for _ in 0..300 {
            now += random.random_range(0..3_000);
            match random.random_range(0..9) {
                0 => {
                    rig.input(now, if connected { Input::Disconnected } else { Input::Connected });
                    connected = !connected;
                    credits = 0;
                }
                1..4 if connected && credits > 0 => {
                    credits -= 1;
                    next += 1;
                    let job = hold(random.random_range(0..6), next);
                    if rig.assign(now, job).contains(&Output::Start { hold: job }) {
                        handlers.push(job);
                    }
                }
                4..6 if !handlers.is_empty() => {
                    let job = handlers.swap_remove(random.random_range(0..handlers.len()));
                    rig.complete(now, job);
                }
                6 if !handlers.is_empty() => {
                    rig.input(now, Input::Lost(handlers[random.random_range(0..handlers.len())]));
                }
                7 => drop(rig.input(now, Input::Overslept { since: at(now.saturating_sub(2_000)) })),
                _ => rig.ledger.handle_deadline(at(now)),
            }
            rig.outputs();
            while let Some(frame) = rig.try_frame(now) {
                credits += frame.credits;
                if let Some((number, _)) = frame.beat.filter(|_| random.random_bool(0.5)) {
                    rig.answer_beat(now, number, &[]);
                }
            }
            let used = handlers.len() + credits as usize;
            assert!(used <= 4, "seed {seed}: {} handlers and {credits} credits in 4 slots", handlers.len());
        }
    }
}
