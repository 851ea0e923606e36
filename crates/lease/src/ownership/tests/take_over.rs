//! Whom to take over, and when.

use super::{Bug, Desk, OURS, THEIRS, cases, millis, take_over, theirs};
use crate::ownership::{Input, Output, Sighting};

cases![
    counter_that_stands_still_is_taken_over_when_the_time_is_over,
    counter_that_moves_has_the_whole_time_again,
    time_counts_from_when_the_answer_was_received,
    time_is_longer_than_the_owners,
    resigned_registry_is_taken_over_at_once,
    our_own_registry_is_never_taken_over,
    one_take_over_at_a_time_for_each,
    refused_take_over_needs_a_fresh_look,
    frozen_server_knows_nothing_of_the_others,
    answer_that_lay_unread_convinces_nobody,
    store_that_comes_back_gives_everybody_the_whole_time,
    disowned_server_starts_from_nothing,
];

/// Sees this for so many rounds, a second each, and nothing comes of it.
fn watch(desk: &mut Desk, others: &[Sighting], rounds: u32) {
    for round in 0..rounds {
        assert_eq!(desk.round(others), [], "in round {round}");
    }
}

fn counter_that_stands_still_is_taken_over_when_the_time_is_over(bug: Bug) {
    let mut desk = Desk::owning(bug);
    // Seen first, then five seconds and five milliseconds.
    watch(&mut desk, &[theirs(41)], 6);
    assert_eq!(desk.round(&[theirs(41)]), [take_over(41)]);
}

fn counter_that_moves_has_the_whole_time_again(bug: Bug) {
    let mut desk = Desk::owning(bug);
    for beats in 0..4 {
        watch(&mut desk, &[theirs(beats)], 6);
    }
    watch(&mut desk, &[theirs(9)], 6);
    assert_eq!(desk.round(&[theirs(9)]), [take_over(9)]);
}

fn time_counts_from_when_the_answer_was_received(bug: Bug) {
    let mut desk = Desk::owning(bug);
    desk.beat();
    let sent = desk.now;
    desk.skip(millis(900));
    assert_eq!(desk.answer_to(sent, &[theirs(1)]), []);
    // The beats from then on are sent at one, two … seconds after the first.
    watch(&mut desk, &[theirs(1)], 5);
    assert_eq!(desk.now, sent + millis(5_000));
    desk.beat();
    desk.skip(millis(904));
    assert_eq!(desk.now, sent + millis(6_904));
    // It was sent after 5 100 ms, by then the time was over.
    assert_eq!(desk.answer_to(sent + millis(6_000), &[theirs(1)]), [take_over(1)]);
}

fn time_is_longer_than_the_owners(bug: Bug) {
    for (waited, expected) in [(5_004, vec![]), (5_005, vec![take_over(1)])] {
        let mut desk = Desk::owning(bug);
        assert_eq!(desk.round(&[theirs(1)]), []);
        let seen_at = desk.now;
        watch(&mut desk, &[theirs(1)], 4);
        desk.beat();
        desk.now = seen_at + millis(waited);
        assert_eq!(desk.answer(&[theirs(1)]), expected, "after {waited} ms");
    }
}

fn resigned_registry_is_taken_over_at_once(bug: Bug) {
    let resigned = Sighting { resigned: true, ..theirs(5) };
    let mut desk = Desk::owning(bug);
    assert_eq!(desk.round(&[resigned]), [take_over(5)], "also when it is seen for the first time");
    let mut desk = Desk::owning(bug);
    watch(&mut desk, &[theirs(5)], 2);
    assert_eq!(desk.round(&[resigned]), [take_over(5)]);
}

fn our_own_registry_is_never_taken_over(bug: Bug) {
    let mut desk = Desk::owning(bug);
    // Its counter stands still in here.
    watch(&mut desk, &[], 20);
    desk.beat();
    let resigned = Sighting { registry: OURS, beats: 1, resigned: true };
    let outputs = desk.tell(Input::Beaten { sent: desk.now, seen: vec![resigned] });
    assert!(matches!(outputs[..], [Output::OwnedUntil(_)]), "{outputs:?}");
}

fn one_take_over_at_a_time_for_each(bug: Bug) {
    let mut desk = Desk::owning(bug);
    let other = Sighting { registry: model::RegistryId(4), beats: 2, resigned: false };
    let both = [theirs(1), other];
    watch(&mut desk, &both, 6);
    let by_other = Output::TakeOver { from: other.registry, beats: 2, by: OURS };
    assert_eq!(desk.round(&both), [take_over(1), by_other]);
    watch(&mut desk, &both, 3);
    assert_eq!(desk.tell(Input::TakeOverDone { from: THEIRS }), []);
    assert_eq!(desk.round(&both), [take_over(1)], "it is still there, the other is under way");
    // Even if its counter moves and stands still again meanwhile.
    watch(&mut desk, &[theirs(2)], 12);
}

fn refused_take_over_needs_a_fresh_look(bug: Bug) {
    let mut desk = Desk::owning(bug);
    watch(&mut desk, &[theirs(1)], 6);
    assert_eq!(desk.round(&[theirs(1)]), [take_over(1)]);
    desk.beat();
    let sent = desk.now;
    desk.skip(millis(10));
    desk.tell(Input::TakeOverDone { from: THEIRS });
    desk.skip(millis(10));
    assert_eq!(desk.answer_to(sent, &[theirs(1)]), [], "it was asked before the take-over was answered");
    assert_eq!(desk.round(&[theirs(1)]), [take_over(1)]);
    desk.tell(Input::TakeOverDone { from: THEIRS });
    watch(&mut desk, &[], 10);
}

fn frozen_server_knows_nothing_of_the_others(bug: Bug) {
    let mut desk = Desk::owning(bug);
    watch(&mut desk, &[theirs(1)], 3);
    desk.skip(millis(60_000));
    assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
    // The first look after that shows the counter as it was: they may have been frozen with us.
    assert_eq!(desk.answer(&[theirs(1)]), []);
    watch(&mut desk, &[theirs(1)], 5);
    assert_eq!(desk.round(&[theirs(1)]), [take_over(1)]);
}

fn answer_that_lay_unread_convinces_nobody(bug: Bug) {
    let mut desk = Desk::owning(bug);
    watch(&mut desk, &[theirs(1)], 5);
    desk.beat();
    let sent = desk.now;
    // We stand still for a moment only, but long enough for their time to be over.
    desk.skip(millis(1_200));
    assert_eq!(desk.answer_to(sent, &[theirs(1)]), []);
    assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
    assert_eq!(desk.answer(&[theirs(2)]), [], "they live");
}

fn store_that_comes_back_gives_everybody_the_whole_time(bug: Bug) {
    let mut desk = Desk::owning(bug);
    watch(&mut desk, &[theirs(1)], 4);
    for _ in 0..40 {
        let due = desk.machine.next_deadline().expect("it is tried again");
        desk.now = desk.now.max(due);
        assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
        assert_eq!(desk.tell(Input::BeatFailed), [], "nobody is taken over");
    }
    watch(&mut desk, &[theirs(1)], 6);
    assert_eq!(desk.round(&[theirs(1)]), [take_over(1)]);
}

fn disowned_server_starts_from_nothing(bug: Bug) {
    let mut desk = Desk::owning(bug);
    let other = Sighting { registry: model::RegistryId(4), beats: 2, resigned: false };
    watch(&mut desk, &[theirs(1)], 6);
    assert_eq!(desk.round(&[theirs(1), other]), [take_over(1)]);
    desk.beat();
    desk.tell(Input::Gone);
    desk.skip(millis(250));
    assert_eq!(desk.wake(), [Output::Found]);
    let outputs = desk.tell(Input::Founded { sent: desk.now, registry: Some(OURS) });
    assert_eq!(outputs[0], Output::Begin { registry: OURS });
    // The take-over for the registry before is still under way.
    watch(&mut desk, &[theirs(1)], 8);
    desk.tell(Input::TakeOverDone { from: THEIRS });
    assert_eq!(desk.round(&[theirs(1)]), [take_over(1)]);
}
