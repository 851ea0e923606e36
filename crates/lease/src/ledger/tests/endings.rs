//! Exclusive jobs from the order to stop to their end: aborted in time, and the process doomed with those that do not end.

use super::farewell::word;
use super::*;

const JOB: Hold = Hold { job: JobId::from_bytes([1; 16]), fence: Fence::new(10) };
const ABORT: Output = Output::Abort { hold: JOB };
const DOOM: Output = Output::Doom { hold: JOB };
const LAPSED: Output = Output::NewKey { why: KeyEnd::Lapsed };

/// A job that has run since 0, with no acknowledgement after the registration at 0.
fn run_unheard(rig: &mut Rig) {
    rig.answers = false;
    rig.run_exclusive(0, JOB);
}

/// Named in the table of mutations.
pub(super) fn exclusive_jobs_are_gone_before_the_lease_is_over(rig: &mut Rig) {
    run_unheard(rig);
    let over = stop(JOB, StopReason::LeaseOver);
    assert_eq!(rig.outputs_until(18_980), [(13_980, over), (18_980, ABORT)], "19.98 s less 6 s and less 1 s");
    let input = Input::Finished { hold: JOB, ended: Ended::Aborted, at: None };
    assert_eq!(rig.input(18_990, input), [ended(JOB, Outcome::HandedBack)]);
    let lapsed = [(19_980, word("w1", 18_990)), (19_980, LAPSED)];
    assert_eq!(rig.outputs_until(60_000), lapsed, "nobody is doomed");
}

/// Named in the table of mutations.
pub(super) fn a_renewal_does_not_bring_back_what_was_told_to_stop(rig: &mut Rig) {
    run_unheard(rig);
    let (number, _) = rig.beat(13_000);
    rig.live_until(13_980);
    assert_eq!(rig.ok(14_000, number), []);
    assert_eq!(rig.ledger.hold_until(), Some(at(32_980)));
    let done = rig.outputs_until(19_500);
    assert_eq!(done, [(18_980, ABORT), (19_480, DOOM)], "by the lease of the moment it was told to stop");
}

/// Named in the table of mutations.
pub(super) fn what_does_not_end_takes_the_process_with_it(rig: &mut Rig) {
    run_unheard(rig);
    rig.live_until(18_980);
    let done = rig.outputs_until(60_000);
    assert_eq!(done, [(19_480, DOOM), (19_980, LAPSED)], "half a second before the lease is over");
}

/// Named in the table of mutations.
pub(super) fn a_running_exclusive_job_is_not_inherited(rig: &mut Rig) {
    rig.answers = false;
    let (reported, ordinary) = (hold(2, 10), hold(3, 10));
    rig.run_exclusive(0, JOB);
    rig.run_exclusive(0, reported);
    rig.assign(0, ordinary);
    rig.complete(100, reported);
    rig.live_until(19_980);
    rig.rekey(19_980, "w2");
    rig.connect(20_000);
    assert_eq!(rig.try_frame(20_000), None, "the server would give away what is not named");
    assert_eq!(rig.complete(20_020, JOB), [dropped(JOB), word("w1", 20_020)]);
    let (_, beat) = rig.beat(20_020);
    assert_eq!(
        beat.full,
        Some(vec![reported, ordinary]),
        "what has ended can be handed on, and what may run twice"
    );
}

#[test]
fn exclusive_jobs_end_before_the_lease_is_over() {
    exclusive_jobs_are_gone_before_the_lease_is_over(&mut Rig::new());
}

#[test]
fn renewal_does_not_bring_back_what_was_told_to_stop() {
    a_renewal_does_not_bring_back_what_was_told_to_stop(&mut Rig::new());
}

#[test]
fn whatever_does_not_end_takes_the_process_with_it() {
    what_does_not_end_takes_the_process_with_it(&mut Rig::new());
}

#[test]
fn running_exclusive_jobs_are_not_inherited() {
    a_running_exclusive_job_is_not_inherited(&mut Rig::new());
}

#[test]
fn renewals_move_the_deadline_and_ordinary_jobs_have_none() {
    let mut rig = Rig::new();
    let ordinary = hold(2, 10);
    rig.run_exclusive(0, JOB);
    rig.assign(0, ordinary);
    assert_eq!(rig.outputs_until(60_000), [], "it is renewed every 4 s");
    rig.input(60_000, Input::Disconnected);
    let done = rig.outputs_until(80_000);
    let over = |hold| stop(hold, StopReason::LeaseOver);
    let expected =
        [(73_980, over(JOB)), (78_980, ABORT), (79_480, DOOM), (79_980, over(ordinary)), (79_980, LAPSED)];
    assert_eq!(done, expected);
    assert_eq!(rig.outputs_until(600_000), [], "an ordinary job may wind down as long as it likes");
}

#[test]
fn without_exclusive_jobs_there_is_no_earlier_deadline() {
    let mut rig = Rig::new();
    rig.run_exclusive(0, JOB);
    rig.input(100, Input::Disconnected);
    assert_eq!(rig.ledger.next_deadline(), Some(at(13_980)));
    rig.complete(200, JOB);
    assert_eq!(rig.ledger.next_deadline(), Some(at(19_980)));
}

#[test]
fn every_reason_to_stop_sets_the_end_of_an_exclusive_job() {
    let orders = [
        (StopOrder::Cancelled, StopReason::Cancelled),
        (StopOrder::Lost, StopReason::Lost),
        (StopOrder::Silent, StopReason::Wedged),
    ];
    for (order, reason) in orders {
        let mut rig = Rig::new();
        rig.run_exclusive(0, JOB);
        assert_eq!(rig.order(1_000, JOB, order), [stop(JOB, reason)]);
        let done = rig.outputs_until(60_000);
        assert_eq!(done, [(6_000, ABORT), (6_500, DOOM)], "{reason:?}");
        assert_eq!(rig.ledger.holds().is_empty(), order == StopOrder::Lost);
    }
    let mut rig = Rig::new();
    let timeout = Some(Duration::from_secs(2));
    let grant = Grant { exclusive: true, timeout, ..rig.grant(JOB) };
    rig.input(0, Input::Assigned(grant));
    rig.frame(0);
    rig.confirm(0, JOB);
    let told = (2_000, stop(JOB, StopReason::TimedOut));
    assert_eq!(rig.outputs_until(60_000), [told, (7_000, ABORT), (7_500, DOOM)]);
}

#[test]
fn the_kill_wait_is_cut_by_the_end_of_the_lease() {
    let mut rig = Rig::new();
    run_unheard(&mut rig);
    rig.live_until(13_900);
    assert_eq!(rig.order(13_979, JOB, StopOrder::Cancelled), [stop(JOB, StopReason::Cancelled)]);
    let done = rig.outputs_until(19_500);
    assert_eq!(done, [(18_979, ABORT), (19_479, DOOM)], "one reason is enough");

    let slow = Stopping { kill_wait: Duration::from_secs(6), safety: Duration::from_secs(1) };
    let mut rig = Rig::with(Terms { stopping: slow, ..terms(4) });
    run_unheard(&mut rig);
    rig.ledger.handle_deadline(at(15_000));
    assert_eq!(rig.outputs(), [stop(JOB, StopReason::LeaseOver)], "two seconds late");
    let done = rig.outputs_until(19_500);
    assert_eq!(done, [(18_980, ABORT), (19_480, DOOM)]);
}

#[test]
fn a_process_that_was_stopped_catches_up_in_order_before_it_does_anything_else() {
    let over = stop(JOB, StopReason::LeaseOver);
    let other = hold(2, 10);
    for (at_ms, expected) in [
        (14_000, vec![over.clone()]),
        (19_000, vec![over.clone(), ABORT]),
        (19_500, vec![over.clone(), ABORT, DOOM]),
        (19_980, vec![over.clone(), ABORT, DOOM, LAPSED]),
    ] {
        let mut rig = Rig::new();
        run_unheard(&mut rig);
        let grant = rig.grant(other);
        let mut outputs = rig.input(at_ms, Input::Assigned(grant));
        let started = Output::Start { hold: other };
        if at_ms < 19_980 {
            assert_eq!(outputs.pop(), Some(started), "an ordinary job may start, after all of that");
        }
        assert_eq!(outputs, expected);

        let mut rig = Rig::new();
        run_unheard(&mut rig);
        rig.ledger.poll_transmit(at(at_ms));
        assert_eq!(rig.outputs(), expected);
    }
}

#[test]
fn draining_ends_exclusive_jobs_for_certain() {
    let mut rig = Rig::new();
    rig.run_exclusive(0, JOB);
    rig.input(0, Input::Drain { grace: Duration::from_secs(25) });
    let told = |ms| (ms, stop(JOB, StopReason::Draining));
    assert_eq!(rig.outputs_until(25_900), [told(20_000), (25_000, ABORT), (25_500, DOOM)], "aborted once");

    let mut rig = Rig::new();
    rig.run_exclusive(0, JOB);
    rig.input(1_000, Input::Drain { grace: Duration::from_secs(2) });
    assert_eq!(rig.outputs_until(3_900), [told(1_000), (3_000, ABORT), (3_500, DOOM)], "by its own grace");
}
