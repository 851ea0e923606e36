//! Founding, beating, and until when that makes the registry ours.

use model::RegistryId;

use super::{Bug, Desk, OURS, cases, millis, theirs};
use crate::ownership::{Input, Output};

cases![
    founding_is_tried_again_after_a_pause,
    founding_counts_as_a_beat_and_the_next_follows_at_once,
    beat_counts_from_when_it_was_sent,
    beats_come_every_second_and_one_at_a_time,
    slow_beat_is_followed_at_once,
    failed_beat_is_tried_again_soon_and_counts_for_nothing,
    lost_registry_is_followed_by_another_after_a_pause,
    registries_lost_in_a_row_are_founded_more_and_more_slowly,
    others_are_believed_only_if_they_looked_after_we_had_it,
    answers_to_nothing_are_ignored,
    resigned_server_owns_nothing_and_asks_for_nothing,
];

fn founding_is_tried_again_after_a_pause(bug: Bug) {
    let mut desk = Desk::new(bug);
    assert_eq!(desk.machine.next_deadline(), None);
    for _ in 0..3 {
        desk.skip(millis(40));
        assert_eq!(desk.tell(Input::Founded { sent: desk.now, registry: None }), []);
        assert_eq!(desk.machine.next_deadline(), Some(desk.now + millis(250)));
        desk.skip(millis(249));
        assert_eq!(desk.wake(), []);
        desk.skip(millis(1));
        assert_eq!(desk.wake(), [Output::Found]);
        assert_eq!((desk.wake(), desk.machine.registry()), (vec![], None));
    }
}

fn founding_counts_as_a_beat_and_the_next_follows_at_once(bug: Bug) {
    let mut desk = Desk::new(bug);
    let sent = desk.now;
    desk.skip(millis(300));
    let outputs = desk.tell(Input::Founded { sent, registry: Some(OURS) });
    assert_eq!(outputs, [Output::Begin { registry: OURS }, Output::OwnedUntil(sent + millis(4_995))]);
    assert_eq!(desk.machine.registry(), Some(OURS));
    assert_eq!(desk.machine.next_deadline(), Some(desk.now), "it shows who else there is");
    assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
}

fn beat_counts_from_when_it_was_sent(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    let sent = desk.now + millis(20);
    desk.skip(millis(720));
    let outputs = desk.tell(Input::Beaten { sent, seen: Vec::new() });
    assert_eq!(outputs, [Output::OwnedUntil(sent + millis(4_995))]);
}

fn beats_come_every_second_and_one_at_a_time(bug: Bug) {
    let mut desk = Desk::owning(bug);
    let mut sent = desk.now;
    for _ in 0..5 {
        desk.beat();
        assert_eq!(desk.now, sent + millis(1_000), "however long the answer took");
        assert_eq!(desk.machine.next_deadline(), None);
        sent = desk.now;
        desk.skip(millis(400));
        assert_eq!(desk.wake(), []);
        desk.answer_to(sent, &[]);
    }
}

fn slow_beat_is_followed_at_once(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    desk.skip(millis(3_000));
    assert_eq!(desk.wake(), [], "one at a time");
    desk.answer(&[]);
    assert!(desk.machine.next_deadline().is_some_and(|at| at <= desk.now));
    assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
}

fn failed_beat_is_tried_again_soon_and_counts_for_nothing(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    for _ in 0..3 {
        desk.skip(millis(10));
        assert_eq!(desk.tell(Input::BeatFailed), []);
        assert_eq!(desk.machine.next_deadline(), Some(desk.now + millis(250)));
        desk.skip(millis(250));
        assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
    }
    desk.answer(&[]);
    assert_eq!(desk.machine.next_deadline(), Some(desk.now + millis(1_000)));
}

fn lost_registry_is_followed_by_another_after_a_pause(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    assert_eq!(desk.tell(Input::Gone), [Output::Disowned { registry: OURS }]);
    assert_eq!((desk.machine.registry(), desk.machine.next_deadline()), (None, Some(desk.now + millis(250))));
    // What was asked for the one before.
    assert_eq!(desk.tell(Input::Beaten { sent: desk.now, seen: vec![theirs(1)] }), []);
    assert_eq!(desk.tell(Input::BeatFailed), []);
    assert_eq!(desk.tell(Input::Gone), []);
    assert_eq!(desk.tell(Input::SaidGone { seen_at: desk.now }), []);
    desk.skip(millis(250));
    assert_eq!(desk.wake(), [Output::Found]);
    let next = RegistryId(OURS.0 + 1);
    let outputs = desk.tell(Input::Founded { sent: desk.now, registry: Some(next) });
    assert_eq!(outputs[0], Output::Begin { registry: next });
}

fn registries_lost_in_a_row_are_founded_more_and_more_slowly(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    for pause in [250, 500, 1_000, 1_000, 1_000] {
        assert_eq!(desk.tell(Input::Gone), [Output::Disowned { registry: OURS }]);
        desk.skip(millis(pause - 1));
        assert_eq!(desk.wake(), [], "before {pause} ms are over");
        desk.skip(millis(1));
        assert_eq!(desk.wake(), [Output::Found]);
        desk.tell(Input::Founded { sent: desk.now, registry: Some(OURS) });
        assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
    }
    // One that beats ends the row.
    desk.answer(&[]);
    desk.beat();
    desk.tell(Input::Gone);
    assert_eq!(desk.machine.next_deadline(), Some(desk.now + millis(250)));
}

fn others_are_believed_only_if_they_looked_after_we_had_it(bug: Bug) {
    let mut desk = Desk::new(bug);
    let sent = desk.now;
    desk.skip(millis(300));
    let founded_at = desk.now;
    desk.tell(Input::Founded { sent, registry: Some(OURS) });
    desk.skip(millis(2_000));
    for seen_at in [sent, founded_at] {
        assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
        assert_eq!(desk.tell(Input::SaidGone { seen_at }), []);
        assert_eq!(desk.machine.next_deadline(), Some(desk.now + millis(250)), "like a beat that failed");
        desk.skip(millis(250));
    }
    assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
    let seen_at = founded_at + millis(1);
    assert_eq!(desk.tell(Input::SaidGone { seen_at }), [Output::Disowned { registry: OURS }]);
}

fn answers_to_nothing_are_ignored(bug: Bug) {
    let mut desk = Desk::owning(bug);
    let strays = [
        Input::Founded { sent: desk.now, registry: Some(RegistryId(99)) },
        Input::Beaten { sent: desk.now, seen: vec![theirs(1)] },
        Input::BeatFailed,
        Input::Gone,
        Input::SaidGone { seen_at: desk.now },
        Input::TakeOverDone { from: OURS },
    ];
    let deadline = desk.machine.next_deadline();
    for stray in strays {
        assert_eq!(desk.tell(stray), []);
        assert_eq!((desk.machine.registry(), desk.machine.next_deadline()), (Some(OURS), deadline));
    }
}

fn resigned_server_owns_nothing_and_asks_for_nothing(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    desk.skip(millis(5));
    assert_eq!(desk.tell(Input::Resigning), [Output::OwnedUntil(desk.now)]);
    // Its last beat was committed, but others may have taken over since.
    assert_eq!(desk.tell(Input::Beaten { sent: desk.now, seen: vec![theirs(1)] }), []);
    assert_eq!((desk.machine.registry(), desk.machine.next_deadline()), (None, None));
    desk.skip(millis(60_000));
    assert_eq!(desk.wake(), []);
    let mut early = Desk::new(bug);
    assert_eq!(early.tell(Input::Resigning), []);
    assert_eq!(early.tell(Input::Founded { sent: early.now, registry: Some(OURS) }), []);
}
