//! The hold of exclusive jobs, apart from the lease: a server that cannot be sure of its workers renews one without the other.

use super::*;

const JOB: Hold = Hold { job: JobId::from_bytes([1; 16]), fence: Fence::new(10) };
const NEXT: Hold = Hold { job: JobId::from_bytes([2; 16]), fence: Fence::new(10) };
const ORDINARY: Hold = Hold { job: JobId::from_bytes([3; 16]), fence: Fence::new(10) };
/// When exclusive jobs are told to stop, if nothing vouches for them after the registration at 0.
const STOP_AT: u64 = 13_980;
const OVER: Output = Output::Stop { hold: JOB, reason: StopReason::LeaseOver };
const ABORT: Output = Output::Abort { hold: JOB };
const DOOM: Output = Output::Doom { hold: JOB };

/// Ends a job that was told to stop and aborted.
fn abort(rig: &mut Rig, at_ms: u64, hold: Hold) -> Vec<Output> {
    rig.input(at_ms, Input::Finished { hold, ended: Ended::Aborted, at: None })
}

/// Named in the table of mutations.
pub(super) fn only_answers_that_vouch_extend_the_exclusive_hold(rig: &mut Rig) {
    rig.run_exclusive(0, JOB);
    rig.vouches = false;
    let done = rig.outputs_until(19_500);
    assert_eq!(done, [(STOP_AT, OVER), (18_980, ABORT), (19_480, DOOM)], "although the lease is renewed");
    assert_eq!(rig.ledger.exclusive_hold_until(), Some(at(19_980)));
    assert_eq!(rig.ledger.hold_until(), Some(at(35_980)));
}

/// Named in the table of mutations.
pub(super) fn nothing_exclusive_starts_without_its_hold(rig: &mut Rig) {
    rig.vouches = false;
    rig.live_until(STOP_AT - 100);
    assert_eq!(rig.assign_exclusive(STOP_AT - 100, JOB), [], "there is room left");
    rig.frame(STOP_AT - 100);
    let back = |hold| [ended(hold, Outcome::HandedBack)];
    assert_eq!(rig.confirm(STOP_AT, JOB), back(JOB), "its bind was taken too late");
    assert_eq!(rig.assign_exclusive(STOP_AT, NEXT), back(NEXT));
    assert_eq!(rig.assign(STOP_AT, ORDINARY), [Output::Start { hold: ORDINARY }]);
}

/// Named in the table of mutations.
pub(super) fn ordinary_jobs_outlive_the_exclusive_hold(rig: &mut Rig) {
    rig.run_exclusive(0, JOB);
    rig.assign(0, ORDINARY);
    rig.vouches = false;
    assert_eq!(rig.outputs_until(STOP_AT), [(STOP_AT, OVER)]);
    assert_eq!(abort(rig, 14_000, JOB), [ended(JOB, Outcome::HandedBack)]);
    let given_back = model::Report { hold: JOB, outcome: Outcome::HandedBack };
    assert_eq!(rig.frame(14_000).reports, [given_back], "under the key, which is as alive as before");
    assert_eq!(rig.settle(14_010, JOB), [Output::Accepted { hold: JOB }]);
    assert_eq!(rig.outputs_until(300_000), [], "nobody is told to stop, and no key is over");
    assert_eq!((rig.ledger.key(), rig.ledger.holds()), (&key("w1"), vec![ORDINARY]));
    assert_eq!(rig.assign(300_000, NEXT), [Output::Start { hold: NEXT }]);
}

/// Named in the table of mutations.
pub(super) fn a_server_is_trusted_when_it_took_a_heartbeat(rig: &mut Rig) {
    rig.input(100, Input::Disconnected);
    rig.connect(200);
    let frame = rig.frame(200);
    assert_eq!((frame.credits, frame.leave), (0, None), "it may be nothing to this server");
    let (number, _) = frame.heartbeat.expect("a heartbeat");
    rig.ok(210, number);
    assert_eq!(rig.frame(210).credits, 4);
}

#[test]
fn exclusive_hold_is_extended_by_answers_that_vouch_for_it() {
    only_answers_that_vouch_extend_the_exclusive_hold(&mut Rig::new());
}

#[test]
fn exclusive_jobs_do_not_start_without_their_hold() {
    nothing_exclusive_starts_without_its_hold(&mut Rig::new());
}

#[test]
fn ordinary_jobs_go_on_when_the_exclusive_hold_is_over() {
    ordinary_jobs_outlive_the_exclusive_hold(&mut Rig::new());
}

#[test]
fn server_is_trusted_when_it_took_a_heartbeat() {
    a_server_is_trusted_when_it_took_a_heartbeat(&mut Rig::new());
}

#[test]
fn a_job_that_waits_for_its_bind_is_given_up_when_its_hold_has_no_room_left() {
    let mut rig = Rig::new();
    rig.vouches = false;
    rig.assign_exclusive(100, JOB);
    rig.frame(100);
    assert_eq!(rig.outputs_until(60_000), [(STOP_AT, ended(JOB, Outcome::HandedBack))]);
    assert_eq!(rig.confirm(60_000, JOB), []);
}

#[test]
fn exclusive_jobs_are_taken_again_when_a_server_vouches_for_them_again() {
    let mut rig = Rig::new();
    rig.vouches = false;
    rig.live_until(60_000);
    assert_eq!(rig.assign_exclusive(60_000, JOB), [ended(JOB, Outcome::HandedBack)]);
    rig.vouches = true;
    rig.live_until(64_000);
    assert_eq!(rig.ledger.exclusive_hold_until(), Some(at(83_980)), "from the send stamp, as ever");
    rig.run_exclusive(64_000, NEXT);
    assert_eq!(rig.ledger.key(), &key("w1"));
}

#[test]
fn a_key_that_nobody_has_vouched_for_yet_takes_nothing_exclusive() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    rig.vouches = false;
    rig.register(0);
    assert_eq!((rig.ledger.hold_until(), rig.ledger.exclusive_hold_until()), (Some(at(19_980)), None));
    assert_eq!(rig.assign_exclusive(100, JOB), [ended(JOB, Outcome::HandedBack)]);
}

#[test]
fn a_vouching_answer_brings_nothing_back_and_starts_nothing_beside_what_outlived_its_hold() {
    let mut rig = Rig::new();
    rig.answers = false;
    rig.run_exclusive(0, JOB);
    let (number, _) = rig.beat(12_000);
    rig.vouches = false;
    rig.ok(12_010, number);
    let (number, _) = rig.beat(16_000);
    // The process stood still until the exclusive hold was over; the lease is not.
    rig.vouches = true;
    assert_eq!(rig.ok(20_500, number), [OVER, ABORT, DOOM], "before the answer is looked at");
    assert_eq!(rig.ledger.exclusive_hold_until(), Some(at(35_980)));
    rig.assign_exclusive(20_600, NEXT);
    rig.frame(20_600);
    assert_eq!(rig.confirm(20_700, NEXT), [], "the other one lived on the hold before");
    assert_eq!(abort(&mut rig, 20_800, JOB), [ended(JOB, Outcome::HandedBack)]);
    assert_eq!(rig.confirm(20_900, NEXT), [Output::Start { hold: NEXT }]);
}

#[test]
fn an_unbroken_hold_lets_jobs_start_beside_one_that_was_told_to_stop() {
    let mut rig = Rig::new();
    rig.run_exclusive(0, JOB);
    rig.order(1_000, JOB, StopOrder::Cancelled);
    rig.live_until(4_000);
    rig.run_exclusive(4_000, NEXT);
}

#[test]
fn the_whole_lease_still_ends_everything() {
    let mut rig = Rig::new();
    rig.assign(0, ORDINARY);
    rig.vouches = false;
    rig.live_until(20_000);
    rig.input(20_000, Input::Disconnected);
    let over = stop(ORDINARY, StopReason::LeaseOver);
    let lapsed = Output::NewKey { why: KeyEnd::Lapsed };
    assert_eq!(rig.outputs_until(100_000), [(39_980, over), (39_980, lapsed)]);
    assert_eq!((rig.ledger.hold_until(), rig.ledger.exclusive_hold_until()), (None, None));
}
