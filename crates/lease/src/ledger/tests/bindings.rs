//! What the registry is told of the jobs that are held.

use super::*;
use crate::digest::Digest;
use crate::ledger::bound::BoundSet;
use model::Limits;

fn digest(holds: &[Hold]) -> Digest {
    holds.iter().copied().collect()
}

#[test]
fn jobs_are_bound_by_the_next_heartbeat_and_unbound_when_they_are_settled() {
    let mut rig = Rig::new();
    let (running, reported) = (hold(1, 10), hold(2, 10));
    rig.assign(0, running);
    rig.assign(0, reported);
    rig.complete(100, reported);
    let (number, beat) = rig.beat(4_000);
    assert_eq!(beat.binds, [bind(running, 1), bind(reported, 2)], "the report is not answered yet");
    assert_eq!((beat.unbinds, beat.change), (vec![], 2));
    assert_eq!((beat.digest, beat.free_slots), (digest(&[running, reported]), 3));
    rig.ok(4_010, number);

    rig.settle(4_020, reported);
    let (number, beat) = rig.beat(8_000);
    assert_eq!((beat.binds, beat.unbinds, beat.change), (vec![], vec![bind(reported, 3)], 3));
    assert_eq!((beat.digest, beat.starts_seen), (digest(&[running]), 2));
    rig.ok(8_010, number);
    let (_, beat) = rig.beat(12_000);
    assert_eq!((beat.binds, beat.unbinds, beat.change), (vec![], vec![], 3));
}

#[test]
fn a_job_that_is_settled_before_the_next_heartbeat_is_never_mentioned() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.complete(10, job);
    rig.frame(10);
    rig.settle(20, job);
    let (_, beat) = rig.beat(4_000);
    assert_eq!((beat.binds, beat.unbinds, beat.change), (vec![], vec![], 0));
}

#[test]
fn a_lost_job_is_unbound_at_once_although_its_handler_winds_down() {
    let mut rig = Rig::new();
    let (lost, fresh) = (hold(1, 10), hold(2, 10));
    rig.assign(0, lost);
    let (number, _) = rig.beat(4_000);
    rig.assign(4_001, fresh);
    let stops = [lost, fresh].map(|hold| Stop { hold, reason: StopOrder::Lost });
    let ack = Ack { stops: stops.to_vec(), ..rig.ack() };
    assert_eq!(
        rig.answer(4_010, number, Answer::Ok(ack)),
        [stop(lost, StopReason::Lost), stop(fresh, StopReason::Lost)]
    );
    let (_, beat) = rig.beat(8_000);
    assert_eq!((beat.binds, beat.unbinds), (vec![], vec![bind(lost, 2)]), "the other was never mentioned");
    assert_eq!((beat.digest, beat.free_slots), (Digest::default(), 2), "both still run");
    assert_eq!(rig.ledger.holds(), []);
}

#[test]
fn changes_are_repeated_until_a_heartbeat_that_carried_them_is_taken() {
    let mut rig = Rig::new();
    let (one, two) = (hold(1, 10), hold(2, 10));
    rig.assign(0, one);
    let (first, _) = rig.beat(4_000);
    rig.assign(4_001, two);
    rig.ok(8_100, first + 7);
    let (second, beat) = rig.beat(8_100);
    assert_eq!(beat.binds, [bind(one, 1), bind(two, 2)]);
    rig.complete(8_110, one);
    rig.settle(8_120, one);
    rig.ok(8_130, second);
    let (_, beat) = rig.beat(12_100);
    assert_eq!((beat.binds, beat.unbinds), (vec![], vec![bind(one, 3)]), "made after the heartbeat was");
}

/// Named in the table of mutations.
pub(super) fn a_mismatch_keeps_the_changes(rig: &mut Rig) {
    let job = hold(1, 10);
    rig.assign(0, job);
    let (number, _) = rig.beat(4_000);
    rig.mismatch(4_010, number, false);
    let (_, beat) = rig.beat(4_010);
    assert_eq!(beat.binds, [bind(job, 1)], "a mismatch proves nothing about them");
}

#[test]
fn mismatch_keeps_the_changes() {
    a_mismatch_keeps_the_changes(&mut Rig::new());
}

#[test]
fn an_early_bind_goes_out_at_once_and_is_carried_by_heartbeats_until_it_is_acknowledged() {
    let mut rig = Rig::new();
    let (one, two, patient) = (hold(1, 10), hold(2, 10), hold(3, 10));
    rig.assign(0, patient);
    for job in [one, two] {
        let grant = Grant { exclusive: true, ..rig.grant(job) };
        rig.input(100, Input::Assigned(grant));
    }
    let frame = rig.frame(100);
    assert_eq!((frame.binds, frame.heartbeat), (vec![bind(one, 1), bind(two, 2)], None));
    assert_eq!(rig.try_frame(101), None, "sent once");
    assert_eq!(rig.input(110, Input::Bound(vec![one])), [Output::Start { hold: one }]);
    let (_, beat) = rig.beat(4_000);
    assert_eq!(beat.binds, [bind(two, 2), bind(patient, 3)]);
    assert_eq!(beat.digest, digest(&[one, two, patient]));
    rig.order(4_100, two, StopOrder::Cancelled);
    rig.settle(4_200, two);
    let (_, beat) = rig.beat(8_000);
    assert_eq!((holds(&beat.binds), holds(&beat.unbinds)), (vec![two, patient], vec![two]));
}

#[test]
fn a_claim_that_would_run_out_before_the_next_heartbeat_is_bound_early() {
    let mut rig = Rig::with(Terms { lease: Duration::from_secs(600), ..terms(4) });
    let lease = Duration::from_secs(600);
    let (number, _) = {
        rig.input(1, Input::Disconnected);
        rig.connect(2);
        rig.beat(2)
    };
    let ack = Ack { lease, ..rig.ack() };
    rig.answer(3, number, Answer::Ok(ack));
    let (slow, quick) = (hold(1, 10), hold(2, 10));
    rig.assign(1_000, slow);
    rig.assign(1_000, quick);
    rig.complete(1_500, quick);
    rig.frame(1_500);
    rig.settle(1_600, quick);
    // A fifth of the claim's 30 s after its arrival; the next heartbeat would be at 120 s.
    assert_eq!(rig.ledger.next_deadline(), Some(at(7_000)));
    rig.ledger.handle_deadline(at(7_000));
    assert_eq!(rig.frame(7_000), Transmit { binds: vec![bind(slow, 1)], ..Transmit::default() });
    assert_eq!(rig.ledger.next_deadline(), Some(at(120_002)));
}

#[test]
fn more_changes_than_a_heartbeat_may_carry_are_sent_as_the_full_set() {
    const MANY: usize = model::Limits::BOUND_MAX;
    let mut rig = Rig::with(terms(u32::MAX));
    for number in 0..MANY {
        rig.assign(0, numbered(number));
        rig.complete(0, numbered(number));
    }
    let (_, beat) = rig.beat(4_000);
    assert_eq!((beat.binds.len(), beat.full), (MANY, None));
    // Not acknowledged; half of them are settled meanwhile, and as many are new.
    for number in 0..MANY / 2 {
        rig.settle(4_100, numbered(number));
        rig.assign(4_200, numbered(MANY + number));
    }
    let (number, beat) = rig.beat(8_000);
    let full = beat.full.expect("everything, instead of all that has changed");
    assert_eq!((full.len(), beat.binds.len(), beat.unbinds.len()), (MANY, 0, 0));
    assert_eq!(beat.digest, digest(&full));
    rig.assign(8_001, numbered(2 * MANY));
    rig.ok(8_010, number);
    let (_, beat) = rig.beat(12_000);
    assert_eq!((beat.full, beat.binds), (None, vec![]), "a registry takes no more than that");
    rig.settle(12_010, numbered(MANY / 2));
    let (_, beat) = rig.beat(16_000);
    assert_eq!(
        (holds(&beat.binds), holds(&beat.unbinds)),
        (vec![numbered(2 * MANY)], vec![numbered(MANY / 2)])
    );
}

fn bind(hold: Hold, change: u64) -> crate::message::Change {
    crate::message::Change { hold, change }
}

#[test]
fn jobs_are_mentioned_in_their_order_and_then_need_no_alarm() {
    let mut set = BoundSet::new(NONCE);
    let jobs: Vec<Hold> = (1..=50).map(|job| hold(job, 10)).collect();
    for job in jobs.iter().rev() {
        set.insert(*job, at(100));
    }
    assert_eq!(set.next_deadline(), Some(at(100)));
    set.tell_all();
    assert_eq!(set.changes().map(|(binds, _)| holds(&binds)), Some(jobs));
    assert_eq!(set.next_deadline(), None);
}

#[test]
fn what_a_registry_does_not_take_waits() {
    let mut set = BoundSet::new(NONCE);
    for job in 0..=Limits::BOUND_MAX {
        set.insert(numbered(job), at(100));
    }
    set.tell_all();
    assert_eq!((set.told().len(), set.len()), (Limits::BOUND_MAX, Limits::BOUND_MAX + 1));
    assert_eq!(set.next_deadline(), Some(at(100)));
}

#[test]
fn a_set_that_is_cleared_keeps_only_its_counter() {
    let mut set = BoundSet::new(NONCE);
    set.insert(hold(1, 10), at(100));
    set.tell_all();
    set.insert(hold(2, 10), at(200));
    set.clear();
    assert_eq!((set.holds(), set.digest(), set.next_deadline()), (vec![], Digest::default(), None));
    assert_eq!((set.changes(), set.counter()), (Some((vec![], vec![])), 1));
}
