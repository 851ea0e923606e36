//! Exclusive jobs that the server counts as running from the moment it sent them: they start as they come, under all the
//! conditions of an exclusive job but its bind.

use muster::Health;

use super::*;
use crate::message::InactiveReason;
use model::{HolderEnd, Report};

const JOB: Hold = Hold { job: JobId::from_bytes([1; 16]), fence: Fence::new(10) };
/// When exclusive jobs are told to stop, if nothing is acknowledged after the registration at 0.
const STOP_AT: u64 = 13_980;

/// Named in the table of mutations.
pub(super) fn what_starts_at_once_starts_in_time_and_alone(rig: &mut Rig) {
    let back = |hold| [ended(hold, Outcome::HandedBack)];
    let mutation = rig.ledger.mutation;
    assert_eq!(rig.assign_at_once(100, JOB), [Output::Start { hold: JOB }]);
    assert_eq!(Rig::broken(mutation).assign_at_once(STOP_AT, JOB), back(JOB), "too late to stop it in time");

    let mut draining = Rig::broken(mutation);
    draining.input(50, Input::Drain { grace: Duration::from_secs(25) });
    assert_eq!(draining.assign_at_once(100, JOB), back(JOB));

    let newer = hold(1, 11);
    assert_eq!(rig.assign_at_once(200, newer), [stop(JOB, StopReason::Lost)], "the older claim still runs");
    assert!(rig.ledger.is_waiting(newer));
}

#[test]
fn what_may_start_at_once_starts_in_time_and_alone() {
    what_starts_at_once_starts_in_time_and_alone(&mut Rig::new());
}

/// Named in the table of mutations.
pub(super) fn whoever_is_not_well_starts_nothing(rig: &mut Rig) {
    let back = |hold| [ended(hold, Outcome::HandedBack)];
    let next = |job| hold(job, 10);
    assert_eq!(rig.assign_at_once(12_000, next(1)), [Output::Start { hold: next(1) }]);
    assert_eq!(rig.assign_at_once(12_001, next(2)), back(next(2)), "it has not been heard for so long");
    assert_eq!(rig.assign_exclusive(12_001, next(3)), [], "a bind will tell");
    let (number, _) = rig.beat(12_001);
    rig.ok(12_010, number);
    assert_eq!(rig.assign_at_once(12_010, next(4)), [Output::Start { hold: next(4) }]);
    rig.live_until(20_000);
    assert_eq!(rig.ledger.health(at(20_000)), Health::Healthy);
    assert_eq!(rig.assign_at_once(20_001, next(5)), back(next(5)), "its last healthcheck is too old");
    rig.checked(20_002);
    assert_eq!(rig.assign_at_once(20_002, next(6)), [Output::Start { hold: next(6) }]);

    // The next life of the server knows nothing of that.
    rig.connect_to(20_010, Generation(4));
    let (number, _) = rig.beat(20_010);
    rig.ok(20_020, number);
    assert_eq!(rig.assign_at_once(20_020, next(7)), back(next(7)), "no healthcheck of it has come");
    rig.checked(20_030);
    assert_eq!(rig.assign_at_once(20_030, next(8)), [Output::Start { hold: next(8) }]);
}

#[test]
fn a_worker_that_is_not_well_starts_nothing_volatile() {
    let mut rig = Rig::with(terms(8));
    whoever_is_not_well_starts_nothing(&mut rig);
}

/// What was answered late was no earlier heard for that, and while the scheduler asks for all that we hold it knows nothing of us.
#[test]
fn a_heartbeat_counts_from_when_it_was_sent_and_only_if_all_is_known() {
    let mut rig = Rig::with(terms(8));
    let back = |hold| [ended(hold, Outcome::HandedBack)];
    let next = |job| hold(job, 10);
    let (number, _) = rig.beat(4_000);
    rig.ok(6_000, number);
    assert_eq!(rig.assign_at_once(16_000, next(1)), [Output::Start { hold: next(1) }]);
    assert_eq!(rig.assign_at_once(16_001, next(2)), back(next(2)));

    rig.connect_to(16_010, Generation(4));
    let (number, _) = rig.beat(16_010);
    let ack = Ack { resync: true, ..rig.ack() };
    rig.answer(16_020, number, Answer::Ok(ack));
    rig.checked(16_030);
    assert_eq!(rig.assign_at_once(16_030, next(3)), back(next(3)));
}

/// The scheduler takes it for another worker, of which it knows nothing.
#[test]
fn a_new_key_is_not_well_until_it_was_checked_itself() {
    let mut rig = Rig::with(terms(8));
    let (number, _) = rig.beat(4_000);
    rig.answer(4_010, number, Answer::Inactive { why: InactiveReason::Ended(HolderEnd::Kicked) });
    rig.rekey(4_020, "w2");
    rig.connect(4_030);
    let (number, _) = rig.beat(4_030);
    rig.ok(4_040, number);
    assert_eq!(rig.assign_at_once(4_040, hold(1, 10)), [ended(hold(1, 10), Outcome::HandedBack)]);
    rig.checked(4_050);
    assert_eq!(rig.assign_at_once(4_050, hold(2, 10)), [Output::Start { hold: hold(2, 10) }]);
}

#[test]
fn it_need_not_be_bound_before_the_next_heartbeat() {
    let mut rig = Rig::new();
    rig.assign_at_once(100, JOB);
    assert!(!rig.ledger.is_waiting(JOB));
    assert_eq!(rig.try_frame(100), None, "there is no hurry");
    let (_, beat) = rig.beat(4_000);
    assert_eq!((holds(&beat.binds), beat.starts_seen, beat.free_slots), (vec![JOB], 1, 3));
    assert_eq!(rig.confirm(4_010, JOB), [], "it runs already, and was said to be held");
    rig.assign_at_once(4_020, hold(2, 10));
    rig.complete(4_030, hold(2, 10));
    assert_eq!(rig.frame(4_030).reports, [Report { hold: hold(2, 10), outcome: completed() }]);
    rig.settle(4_040, hold(2, 10));
    let beat = rig.beat(8_000).1;
    assert_eq!(
        (beat.binds, beat.starts_seen),
        (vec![], 2),
        "what ended between two heartbeats is never mentioned"
    );
}

#[test]
fn it_is_stopped_like_any_exclusive_job() {
    let mut rig = Rig::new();
    rig.answers = false;
    rig.assign_at_once(100, JOB);
    let within = Stopping::DEFAULT;
    let kill_at = STOP_AT + within.kill_wait.as_millis() as u64;
    let doom_at = kill_at + (within.safety / 2).as_millis() as u64;
    let done = rig.outputs_until(doom_at);
    let expected = [
        (STOP_AT, stop(JOB, StopReason::LeaseOver)),
        (kill_at, Output::Abort { hold: JOB }),
        (doom_at, Output::Doom { hold: JOB }),
    ];
    assert_eq!(done, expected);
    assert_eq!(rig.try_frame(doom_at), None, "nothing is said of it before it has ended");
    rig.input(doom_at, Input::Finished { hold: JOB, ended: Ended::Aborted, at: None });
    assert_eq!(rig.frame(doom_at).reports, [Report { hold: JOB, outcome: Outcome::HandedBack }]);
}

#[test]
fn it_waits_for_its_bind_if_something_must_end_first() {
    let mut rig = Rig::new();
    let next = hold(2, 10);
    rig.assign_at_once(0, JOB);
    let (number, _) = rig.beat(4_000);
    let why = InactiveReason::Ended(HolderEnd::Kicked);
    rig.answer(4_010, number, Answer::Inactive { why });
    rig.rekey(4_020, "w2");
    rig.connect(4_030);
    rig.register(4_030);
    assert_eq!(rig.assign_at_once(4_040, next), [], "a job of the dead key still runs");
    assert_eq!(holds(&rig.frame(4_040).binds), [next], "so it is bound like any other");
    assert_eq!(rig.confirm(4_050, next), [], "not yet");
    rig.complete(4_060, JOB);
    assert_eq!(holds(&rig.frame(8_030).binds), [next]);
    assert_eq!(rig.confirm(8_040, next), [Output::Start { hold: next }]);
}
