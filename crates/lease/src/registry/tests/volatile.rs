//! Rows of volatile jobs: they run from the moment they were sent, so only what certainly did not start is taken back.

use super::desk::{Desk, HELD_EXCLUSIVE, lost, row, secs};
use super::peer::{Peer, volatile};
use super::{Bug, cases};
use crate::registry::{HoldStanding, Input, Output, Row, StartResult, Verdict, WorkerState};

cases![
    start_that_may_be_on_its_way_is_not_taken_back,
    start_that_the_worker_let_pass_is_taken_back,
    start_over_an_older_stream_has_come_to_nothing,
    start_is_recorded_only_for_a_worker_that_lives,
    start_without_a_record_waits_for_the_end_of_its_worker,
    bound_volatile_job_is_pushed,
    silent_volatile_job_is_told_to_stop_and_stays,
    volatile_job_that_must_stop_is_not_taken_back,
];

/// These were sent to the worker, the last one with this number.
fn sent(desk: &mut Desk, peer: &Peer, jobs: &[u64], start: u64) {
    let holds: Vec<_> = jobs.iter().map(|job| volatile(*job)).collect();
    let exclusive = holds.clone();
    assert_eq!(desk.tell(Input::Granted { key: peer.key.clone(), holds, exclusive, start }), []);
}

fn judge(desk: &mut Desk, peer: &Peer, job: u64) -> (StartResult, Verdict) {
    let start = desk.registry.start_result(&peer.key, volatile(job));
    let row = Row { exclusive: true, ..row(peer, volatile(job)) };
    (start, desk.verify_row(&row))
}

const UNSURE: (StartResult, Verdict) = (StartResult::Unsure, Verdict::AskAgain);
const NOT_STARTED: (StartResult, Verdict) = (StartResult::NotStarted, Verdict::TakeBack);

fn start_that_may_be_on_its_way_is_not_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    sent(&mut desk, &peer, &[1, 2], 2);
    for _ in 0..50 {
        assert_eq!(judge(&mut desk, &peer, 1), UNSURE, "however long that takes");
        desk.pass(secs(10));
        desk.renew(&mut peer);
    }
    peer.bind(volatile(1));
    peer.starts_seen = 1;
    desk.accept(&mut peer);
    assert_eq!(judge(&mut desk, &peer, 1), (StartResult::Started, Verdict::Push));
    assert_eq!(judge(&mut desk, &peer, 2), UNSURE, "that one has not come");
    assert_eq!(desk.drain(), [], "nobody is told anything");
}

fn start_that_the_worker_let_pass_is_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    sent(&mut desk, &peer, &[1, 2, 3], 3);
    peer.starts_seen = 2;
    peer.bind(volatile(2));
    desk.accept(&mut peer);
    assert_eq!(judge(&mut desk, &peer, 1), NOT_STARTED, "it does not take a number that it has passed");
    assert_eq!(judge(&mut desk, &peer, 3), UNSURE);
}

fn start_over_an_older_stream_has_come_to_nothing(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    sent(&mut desk, &peer, &[1, 2], 12);
    assert_eq!(judge(&mut desk, &peer, 2), UNSURE);
    // It took one of the two, then its stream broke. The next one begins after the last number of this one.
    peer.bind(volatile(1));
    let mut beat = peer.beat();
    beat.came_after_start(12);
    assert_eq!(beat.starts_seen, 12);
    let (answer, _) = desk.ask(beat);
    peer.hear(peer.change, &answer);
    assert_eq!(judge(&mut desk, &peer, 1), (StartResult::Started, Verdict::Push));
    assert_eq!(judge(&mut desk, &peer, 2), NOT_STARTED, "it refuses what comes over an older stream");
    // Starts over the new stream are unsure until they are seen there.
    sent(&mut desk, &peer, &[3, 4], 14);
    let mut beat = peer.beat();
    beat.came_after_start(12);
    let (answer, _) = desk.ask(beat);
    peer.hear(peer.change, &answer);
    assert_eq!([judge(&mut desk, &peer, 3), judge(&mut desk, &peer, 4)], [UNSURE; 2]);
    peer.starts_seen = 13;
    let mut beat = peer.beat();
    beat.came_after_start(12);
    desk.ask(beat);
    assert_eq!([judge(&mut desk, &peer, 3), judge(&mut desk, &peer, 4)], [NOT_STARTED, UNSURE]);
}

fn start_is_recorded_only_for_a_worker_that_lives(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let is_recorded = |desk: &Desk, peer: &Peer, job| desk.registry.is_recorded(&peer.key, volatile(job));
    sent(&mut desk, &peer, &[1, 2], 2);
    assert_eq!([1, 2, 3].map(|job| is_recorded(&desk, &peer, job)), [true, true, false]);
    peer.bind(volatile(1));
    desk.accept(&mut peer);
    desk.tell(Input::Settled { key: peer.key.clone(), holds: vec![volatile(2)] });
    assert_eq!([1, 2].map(|job| is_recorded(&desk, &peer, job)), [false; 2], "bound, and settled");
    desk.kick(&peer);
    assert_eq!(desk.state(&peer), Some(WorkerState::Stopping));
    sent(&mut desk, &peer, &[3], 3);
    assert!(!is_recorded(&desk, &peer, 3), "it must not be sent any more");
    let (mut desk, peer) = Desk::joined(bug, "b");
    desk.kick(&peer);
    sent(&mut desk, &peer, &[1], 1);
    assert!(!is_recorded(&desk, &peer, 1), "nor to one that has ended");
}

fn start_without_a_record_waits_for_the_end_of_its_worker(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.starts_seen = 100;
    desk.renew(&mut peer);
    assert_eq!(judge(&mut desk, &peer, 1), UNSURE, "it may be about to be sent");
    desk.pass(secs(30));
    assert_eq!(judge(&mut desk, &peer, 1).1, Verdict::AskAgain, "its end is not durable");
    desk.retired(&peer, true);
    assert_eq!(judge(&mut desk, &peer, 1).1, Verdict::TakeBack);
}

fn bound_volatile_job_is_pushed(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(volatile(1));
    desk.accept(&mut peer);
    assert_eq!(judge(&mut desk, &peer, 1).1, Verdict::AskAgain, "its row is being read");
    desk.checked(&peer, &[HELD_EXCLUSIVE]);
    assert_eq!(judge(&mut desk, &peer, 1), (StartResult::Started, Verdict::Push));
}

fn silent_volatile_job_is_told_to_stop_and_stays(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    sent(&mut desk, &peer, &[1], 1);
    peer.bind(volatile(1));
    desk.accept(&mut peer);
    let silent = Row { beats_itself: true, ..row(&peer, volatile(1)) };
    assert_eq!(desk.verify_row(&silent), Verdict::AskAgain, "whatever its row says of being exclusive");
    assert!(matches!(desk.drain()[..], [Output::Stop { .. }]));
}

fn volatile_job_that_must_stop_is_not_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(volatile(1));
    desk.accept(&mut peer);
    let told = desk.checked(&peer, &[HoldStanding::Lost]);
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![lost(volatile(1))] }]);
    assert_eq!(judge(&mut desk, &peer, 1), (StartResult::Started, Verdict::AskAgain), "it may still run");
}
