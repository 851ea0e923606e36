//! Exclusive jobs up to their start: only when the server took their bind, and only while there is time to stop them.

use super::*;
use crate::message::InactiveReason;
use model::HolderEnd;

const JOB: Hold = Hold { job: JobId::from_bytes([1; 16]), fence: Fence::new(10) };
/// When exclusive jobs are told to stop, if nothing is acknowledged after the registration at 0.
const STOP_AT: u64 = 13_980;

/// Named in the table of mutations.
pub(super) fn an_exclusive_job_starts_when_its_bind_is_taken(rig: &mut Rig) {
    assert_eq!(rig.assign_exclusive(100, JOB), [], "not yet");
    assert!(rig.ledger.is_waiting(JOB));
    assert_eq!(holds(&rig.frame(100).binds), [JOB], "at once");
    assert_eq!(rig.confirm(200, JOB), [Output::Start { hold: JOB }]);
    assert!(!rig.ledger.is_waiting(JOB));
    assert_eq!(rig.confirm(300, JOB), [], "once");
}

/// Named in the table of mutations.
pub(super) fn an_acknowledged_heartbeat_starts_nothing(rig: &mut Rig) {
    rig.assign_exclusive(100, JOB);
    rig.frame(100);
    let (number, beat) = rig.beat(4_000);
    assert_eq!(holds(&beat.binds), [JOB]);
    assert_eq!(rig.ok(4_010, number), [], "the registry may still be asking for the row");
    assert_eq!(rig.confirm(4_020, JOB), [Output::Start { hold: JOB }]);
}

/// Named in the table of mutations.
pub(super) fn what_must_stop_before_its_start_never_starts(rig: &mut Rig) {
    let back = [ended(JOB, Outcome::HandedBack)];
    let mut late = Rig::broken(rig.ledger.mutation);
    late.answers = false;
    for rig in [&mut *rig, &mut late] {
        rig.assign_exclusive(100, JOB);
        rig.frame(100);
    }
    assert_eq!(rig.order(200, JOB, StopOrder::Cancelled), back);
    assert_eq!(rig.confirm(300, JOB), [], "the bind was taken too late");
    assert_eq!(late.outputs_until(STOP_AT), back.map(|output| (STOP_AT, output)));
    assert_eq!(late.confirm(STOP_AT, JOB), []);
}

#[test]
fn exclusive_job_starts_when_its_bind_is_taken() {
    an_exclusive_job_starts_when_its_bind_is_taken(&mut Rig::new());
}

#[test]
fn acknowledged_heartbeat_starts_nothing() {
    an_acknowledged_heartbeat_starts_nothing(&mut Rig::new());
}

#[test]
fn whatever_must_stop_before_its_start_never_starts() {
    what_must_stop_before_its_start_never_starts(&mut Rig::new());
}

#[test]
fn a_bind_is_told_with_every_heartbeat_and_on_every_stream_until_it_is_taken() {
    let mut rig = Rig::new();
    rig.assign_exclusive(100, JOB);
    let first = rig.frame(100).binds;
    assert_eq!(rig.try_frame(101), None, "said once");
    let frame = rig.frame(4_000);
    let (number, beat) = frame.heartbeat.expect("a heartbeat");
    assert_eq!((&frame.binds, &beat.binds), (&first, &first), "the same change");
    rig.ok(4_010, number);
    let frame = rig.frame(8_000);
    assert_eq!(frame.binds, first, "although a heartbeat that carried it was acknowledged");
    assert_eq!(frame.heartbeat.expect("a heartbeat").1.binds, []);
    rig.input(8_100, Input::Disconnected);
    rig.connect(8_200);
    assert_eq!(rig.frame(8_200).binds, first);
    assert_eq!(rig.confirm(8_300, JOB), [Output::Start { hold: JOB }]);
    rig.input(8_400, Input::Disconnected);
    rig.connect(8_500);
    assert_eq!(rig.frame(8_500).binds, [], "it was taken");
}

#[test]
fn a_job_that_waits_takes_its_slot() {
    let mut rig = Rig::new();
    rig.assign_exclusive(100, JOB);
    assert_eq!(rig.frame(100).credits, 0);
    let (number, beat) = rig.beat(4_000);
    assert_eq!((beat.free_slots, rig.ledger.holds()), (3, vec![JOB]));
    rig.ok(4_010, number);
    rig.order(4_020, JOB, StopOrder::Lost);
    assert_eq!(rig.frame(4_020).credits, 1);
}

#[test]
fn every_stop_before_the_start_is_handed_back_unless_the_job_was_lost() {
    let back = || vec![ended(JOB, Outcome::HandedBack)];
    let waiting = || {
        let mut rig = Rig::new();
        rig.assign_exclusive(100, JOB);
        rig.frame(100);
        rig
    };
    for reason in [StopOrder::Cancelled, StopOrder::Silent] {
        let mut rig = waiting();
        assert_eq!(rig.order(200, JOB, reason), back());
        assert_eq!(rig.frame(200).reports, [model::Report { hold: JOB, outcome: Outcome::HandedBack }]);
        assert_eq!(rig.ledger.holds(), [JOB], "until that is settled");
    }
    let mut rig = waiting();
    assert_eq!(rig.order(200, JOB, StopOrder::Lost), [dropped(JOB)]);
    assert_eq!(rig.ledger.holds(), []);

    let mut rig = waiting();
    assert_eq!(rig.input(200, Input::Drain { grace: Duration::from_secs(25) }), back());

    let mut rig = waiting();
    rig.ledger.handle_deadline(at(19_980));
    let expected = [ended(JOB, Outcome::HandedBack), Output::NewKey { why: KeyEnd::Lapsed }];
    assert_eq!(rig.outputs(), expected, "the process was stopped for a whole lease");
    assert_eq!(rig.ledger.holds(), [JOB], "a successor hands it back");
}

#[test]
fn what_cannot_be_stopped_in_time_is_handed_back_when_it_is_assigned() {
    let back = [ended(JOB, Outcome::HandedBack)];
    let mut unable = terms(4);
    unable.profile.stop_within = None;
    assert_eq!(Rig::with(unable).assign_exclusive(100, JOB), back, "it cannot stop anything for certain");

    let slow = Stopping { kill_wait: Duration::from_millis(7_001), ..Stopping::DEFAULT };
    let mut rig = Rig::with(Terms { stopping: slow, ..terms(4) });
    assert_eq!(rig.assign_exclusive(100, JOB), back, "20 s are too short for three heartbeats and 8 s");
    assert_eq!(rig.frame(100).binds, [], "there is no hurry to bind it");

    assert_eq!(Rig::new().assign_exclusive(STOP_AT - 1, JOB), []);
    assert_eq!(Rig::new().assign_exclusive(STOP_AT, JOB), back, "too late");

    let mut rig = Rig::new();
    rig.input(50, Input::Drain { grace: Duration::from_secs(25) });
    assert_eq!(rig.assign_exclusive(100, JOB), back);
}

#[test]
fn a_lease_that_became_too_short_meanwhile_starts_nothing() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    rig.assign_exclusive(4_000, JOB);
    rig.frame(4_000);
    let ack = Ack { lease: Duration::from_secs(10), ..rig.ack() };
    rig.answer(4_010, number, Answer::Ok(ack));
    assert_eq!(rig.confirm(4_020, JOB), [ended(JOB, Outcome::HandedBack)]);
}

#[test]
fn an_older_claim_of_the_same_job_ends_first() {
    let mut rig = Rig::new();
    let newer = hold(1, 11);
    rig.assign(0, JOB);
    assert_eq!(rig.assign_exclusive(100, newer), [stop(JOB, StopReason::Lost)]);
    rig.frame(100);
    assert_eq!(rig.confirm(200, newer), [], "the older one still runs");
    assert_eq!(rig.complete(300, JOB), [dropped(JOB)]);
    assert_eq!(holds(&rig.frame(4_000).binds), [newer], "so it is asked again");
    assert_eq!(rig.confirm(4_010, newer), [Output::Start { hold: newer }]);
}

#[test]
fn exclusive_jobs_of_a_dead_key_end_first() {
    let mut rig = Rig::new();
    let next = hold(2, 10);
    rig.run_exclusive(0, JOB);
    let (number, _) = rig.beat(4_000);
    let why = InactiveReason::Ended(HolderEnd::Kicked);
    rig.answer(4_010, number, Answer::Inactive { why });
    rig.rekey(4_020, "w2");
    rig.connect(4_030);
    rig.register(4_030);
    assert_eq!(rig.assign_exclusive(4_040, next), []);
    rig.frame(4_040);
    assert_eq!(rig.confirm(4_050, next), [], "they would not live on the same lease");
    rig.complete(4_060, JOB);
    assert_eq!(holds(&rig.frame(8_030).binds), [next]);
    assert_eq!(rig.confirm(8_040, next), [Output::Start { hold: next }]);
}

#[test]
fn limits_count_from_the_start() {
    let mut rig = Rig::new();
    let grant = Grant {
        exclusive: true,
        timeout: Some(Duration::from_secs(10)),
        heartbeat_timeout: Some(Duration::from_secs(5)),
        ..rig.grant(JOB)
    };
    rig.input(100, Input::Assigned(grant));
    assert_eq!(rig.outputs_until(11_000), [], "nothing counts while it waits");
    rig.confirm(11_000, JOB);
    rig.input(12_000, Input::Beaten { hold: JOB });
    assert_eq!(rig.outputs_until(16_500), [(16_500, stop(JOB, StopReason::Wedged))]);
    let mut rig = Rig::new();
    let grant = Grant { exclusive: true, timeout: Some(Duration::from_secs(3)), ..rig.grant(JOB) };
    rig.input(100, Input::Assigned(grant));
    rig.frame(100);
    rig.confirm(2_000, JOB);
    assert_eq!(rig.outputs_until(5_000), [(5_000, stop(JOB, StopReason::TimedOut))]);
}
