//! What workers say when they are over: since when nothing exclusive has run, and whether that was in time.

use std::time::Duration;

use model::{HolderEnd, Instant, Nonce};

use super::desk::{Desk, done, ended, millis, secs, stopped, terms};
use super::peer::{Peer, hold, key};
use super::{Bug, cases};
use crate::message::{Answer, LaterReason, Leave};
use crate::registry::{Input, Output, Retired, Terms, WorkerState};

cases![
    word_that_waited_for_us_is_dated_by_the_clock_of_its_worker,
    slow_clock_does_not_hide_that_a_job_went_on,
    word_about_exclusive_jobs_ends_nothing,
    worker_whose_clock_is_off_hands_over_unproven,
    strangers_that_leave_come_through_the_door_of_new_workers,
    key_that_somebody_else_left_is_still_its_owners,
];

/// A worker whose clock shows true time, less what it loses at this rate, in parts per million; and true time is ours.
struct Clocked {
    desk: Desk,
    peer: Peer,
    began: Instant,
    ppm: u64,
}

impl Clocked {
    fn join(bug: Bug, ppm: u64) -> Clocked {
        let (desk, peer) = Desk::joined(bug, "a");
        let began = desk.now;
        let mut clocked = Clocked { desk, peer, began, ppm };
        clocked.desk.give_exclusive(&mut clocked.peer, &[hold(1)]);
        clocked
    }

    /// What its clock shows now.
    fn clock(&self) -> Instant {
        let true_span = self.desk.now.since(self.began).as_nanos() as u64;
        Instant::from_millis(77) + Duration::from_nanos(true_span / 1_000_000 * (1_000_000 - self.ppm))
    }

    /// It beats every four seconds; answers come at once.
    fn beats(&mut self, count: usize) {
        let mut answered_at = None;
        for _ in 0..count {
            self.desk.pass(secs(4));
            let (sent_at, change) = (Some(self.clock()), self.peer.change);
            let beat = crate::message::Heartbeat { sent_at, answered_at, ..self.peer.beat() };
            let (answer, _) = self.desk.ask(beat);
            assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
            self.peer.hear(change, &answer);
            answered_at = sent_at;
        }
    }

    /// It says now since when nothing exclusive has run, by its clock: when we say it stopped, after we ended it.
    fn says(&mut self, stopped_at: Instant) -> (Instant, Instant) {
        let words = Leave {
            exclusive_stopped: true,
            stopped_for: self.clock().since(stopped_at),
            stopped_at: Some(stopped_at),
            ..Leave::default()
        };
        let (_, outputs) = self.desk.leave(&self.peer, words);
        match outputs.first() {
            Some(Output::LateWord { ended_at, stopped_at, .. }) => (*ended_at, *stopped_at),
            _ => panic!("{outputs:?}"),
        }
    }
}

/// It stopped in time and said so at once. We stood still after we had ended it, and read that long after.
fn word_that_waited_for_us_is_dated_by_the_clock_of_its_worker(bug: Bug) {
    let mut worker = Clocked::join(bug, 0);
    worker.beats(5);
    worker.desk.pass(secs(19));
    let stopped_at = worker.clock();
    worker.desk.pass(secs(2));
    assert_eq!(worker.desk.state(&worker.peer), Some(WorkerState::Ended(HolderEnd::Expired)));
    // As of when it was sent.
    let words = Leave { stopped_for: millis(1), stopped_at: Some(stopped_at), ..stopped(true) };
    worker.desk.freeze(secs(5));
    let (_, outputs) = worker.desk.leave(&worker.peer, words);
    let Some(Output::LateWord { ended_at, stopped_at, .. }) = outputs.first() else { panic!("{outputs:?}") };
    assert!(stopped_at < ended_at, "{:?} beyond its end", stopped_at.since(*ended_at));
}

/// By its own clock it stopped in time.
fn slow_clock_does_not_hide_that_a_job_went_on(bug: Bug) {
    for (ppm, went_on) in [(0, false), (100_000, true)] {
        let mut worker = Clocked::join(bug, ppm);
        worker.beats(5);
        let began = worker.clock();
        while worker.clock().since(began) < millis(19_500) {
            worker.desk.pass(millis(50));
        }
        let stopped_at = worker.clock();
        // It is cut off, and says so much later.
        worker.desk.pass(secs(60));
        let (ended_at, stopped_at) = worker.says(stopped_at);
        assert_eq!(stopped_at > ended_at, went_on, "{ppm} ppm: {:?}", stopped_at.since(ended_at));
    }
}

fn word_about_exclusive_jobs_ends_nothing(bug: Bug) {
    let mut worker = Clocked::join(bug, 0);
    let words = Leave { exclusive_stopped: true, ..Leave::default() };
    let (ticket, outputs) = worker.desk.leave(&worker.peer, words);
    assert_eq!(outputs, [done(ticket)]);
    let (mut desk, idle) = Desk::joined(bug, "idle");
    let (ticket, outputs) = desk.leave(&idle, words);
    assert_eq!((outputs, desk.state(&idle)), (vec![done(ticket)], Some(WorkerState::Active)));
    let stranger = Peer::new("stranger");
    let (ticket, outputs) = desk.leave(&stranger, words);
    assert_eq!((outputs, desk.state(&stranger)), (vec![done(ticket)], None));
}

fn worker_whose_clock_is_off_hands_over_unproven(bug: Bug) {
    for ppm in [0, 100_000] {
        let mut worker = Clocked::join(bug, ppm);
        worker.beats(5);
        assert_eq!(worker.desk.registry.clock_rate(&worker.peer.key).map(|rate| rate.is_off), Some(ppm > 0));
        let outputs = worker.desk.pass(secs(21));
        let is_unproven = outputs.iter().find_map(|output| match output {
            Output::Retire { unproven, .. } => Some(*unproven),
            _ => None,
        });
        assert_eq!(is_unproven, Some(ppm > 0), "{outputs:?}");
    }
}

fn strangers_that_leave_come_through_the_door_of_new_workers(bug: Bug) {
    let mut desk = Desk::with(Terms { registrations_per_second: 2, ..terms() }, bug);
    desk.tell(Input::Restored(Vec::new()));
    let leave = |desk: &mut Desk, name| desk.leave(&Peer::new(name), stopped(true)).1;
    for name in ["one", "two"] {
        assert!(matches!(leave(&mut desk, name)[..], [Output::Retire { .. }]));
    }
    let outputs = leave(&mut desk, "three");
    let [Output::LeaveLater { retry_after, .. }] = outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(retry_after, millis(500));
    assert!(!desk.registry.knows(&key("three")), "nothing is kept of it");
    assert!(desk.registry.admit_new(desk.now).is_err(), "the door is the same for whoever only pings");
    desk.now = desk.now + retry_after;
    assert!(matches!(leave(&mut desk, "three")[..], [Output::Retire { .. }]));
}

/// Somebody says that a key is over which nobody has used yet.
fn key_that_somebody_else_left_is_still_its_owners(bug: Bug) {
    let (mut desk, mut owner) = (Desk::open(bug), Peer::new("a"));
    let foreign = Peer { nonce: Nonce::new(666), ..owner.clone() };
    let (ticket, outputs) = desk.leave(&foreign, stopped(true));
    assert!(matches!(outputs[..], [Output::Retire { stranger: Some(_), .. }]), "{outputs:?}");
    let answer = desk.answer(owner.beat());
    assert!(matches!(answer, Answer::Later { why: LaterReason::StoreTrouble, .. }), "{answer:?}");
    assert_eq!(desk.answer(foreign.beat()), ended(HolderEnd::Left), "it said so itself");
    // The store has never heard of it: it is as if nothing had been said.
    let refused = Input::Retired { key: owner.key.clone(), answer: Retired::Refused };
    assert_eq!(desk.tell(refused), [done(ticket)]);
    desk.join(&mut owner);
}
