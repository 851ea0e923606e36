//! Several lives of the server: what each of them is told, and the set of workers that one passes on to the next through us.

use super::*;
use crate::message::InactiveReason;
use model::HolderEnd;
use muster::{SetHash, SetId, Version};

const NEXT: Generation = Generation(4);

fn set(generation: Generation, version: u64) -> SetId {
    SetId { generation, version: Version(version), hash: SetHash::default() }
}

/// Told outside an answer; the frame that follows.
fn told(rig: &mut Rig, at_ms: u64, id: SetId) -> Option<Transmit> {
    assert_eq!(rig.input(at_ms, Input::Told(id)), []);
    rig.try_frame(at_ms)
}

fn echo(id: SetId) -> Option<Transmit> {
    Some(Transmit { worker_set: Some(id), ..Transmit::default() })
}

/// Named in the table of mutations.
pub(super) fn a_new_key_is_in_no_set(rig: &mut Rig) {
    let (number, _) = rig.beat(4_000);
    let ack = Ack { worker_set: Some(set(GENERATION, 7)), ..rig.ack() };
    rig.answer(4_010, number, Answer::Ok(ack));
    let (number, beat) = rig.beat(8_000);
    assert_eq!(beat.worker_set, Some(set(GENERATION, 7)));
    let why = InactiveReason::Ended(HolderEnd::Kicked);
    rig.answer(8_010, number, Answer::Inactive { why });
    rig.rekey(8_020, "w2");
    rig.connect(8_030);
    assert_eq!(rig.beat(8_030).1.worker_set, None, "the set that it was told of had another worker in it");
}

/// Named in the table of mutations.
pub(super) fn a_set_is_said_to_the_next_life_of_the_server(rig: &mut Rig) {
    let old = set(GENERATION, 7);
    assert_eq!(told(rig, 100, old), echo(old));
    rig.input(200, Input::Disconnected);
    rig.connect_to(300, NEXT);
    let (number, beat) = rig.beat(300);
    assert_eq!(beat.worker_set, Some(old));
    rig.ok(310, number);
    rig.frame(310);
    let (number, beat) = rig.beat(4_300);
    assert_eq!(beat.worker_set, Some(old), "as long as it has none of its own to tell");
    let ack = Ack { worker_set: Some(set(NEXT, 1)), ..rig.ack() };
    rig.answer(4_310, number, Answer::Ok(ack));
    assert_eq!(rig.beat(8_300).1.worker_set, Some(set(NEXT, 1)));
}

/// Named in the table of mutations.
pub(super) fn a_new_life_of_the_server_hears_everything(rig: &mut Rig) {
    let (running, done) = (hold(1, 10), hold(2, 10));
    rig.assign_at_once(0, running);
    rig.assign(0, done);
    let (number, beat) = rig.beat(4_000);
    assert_eq!((holds(&beat.binds), &beat.full, &beat.profile), (vec![running, done], &None, &None));
    rig.ok(4_010, number);
    rig.complete(4_020, done);
    rig.frame(4_020);
    rig.input(4_030, Input::Disconnected);
    let token = rig.last_token();
    rig.connect_to(4_040, NEXT);
    let untold = hold(3, 10);
    for at_ms in [4_040, 8_040] {
        let (number, beat) = rig.beat(at_ms);
        assert_eq!((beat.token, beat.profile), (Some(token), Some(terms(4).profile)));
        assert_eq!(beat.full, Some(vec![running, done]), "what is not answered is said, too");
        assert_eq!((beat.binds, beat.unbinds), (vec![], vec![]));
        // The first answer gets lost.
        if at_ms == 8_040 {
            rig.mismatch(8_050, number, true);
        }
    }
    let (number, beat) = rig.beat(8_050);
    assert_eq!((beat.token, beat.full), (Some(rig.last_token()), Some(vec![running, done])));
    rig.ok(8_060, number);
    rig.frame(8_060);
    rig.assign(8_070, untold);
    let (_, beat) = rig.beat(12_050);
    assert_eq!((holds(&beat.binds), beat.full, beat.profile), (vec![untold], None, None), "now it knows us");
}

#[test]
fn new_key_is_in_no_set() {
    a_new_key_is_in_no_set(&mut Rig::new());
}

#[test]
fn set_is_said_to_the_next_life_of_the_server() {
    a_set_is_said_to_the_next_life_of_the_server(&mut Rig::new());
}

#[test]
fn new_life_of_the_server_hears_everything() {
    a_new_life_of_the_server_hears_everything(&mut Rig::new());
}

#[test]
fn the_same_life_over_another_stream_hears_only_changes() {
    let mut rig = Rig::new();
    rig.assign(0, hold(1, 10));
    rig.input(100, Input::Disconnected);
    rig.connect(200);
    let (_, beat) = rig.beat(200);
    assert_eq!((holds(&beat.binds), beat.full, beat.profile), (vec![hold(1, 10)], None, None));
}

#[test]
fn a_set_that_is_news_is_echoed_at_once_and_once() {
    let mut rig = Rig::new();
    let (first, second) = (set(GENERATION, 1), set(GENERATION, 2));
    assert_eq!(told(&mut rig, 100, second), echo(second));
    assert_eq!(rig.try_frame(101), None);
    assert_eq!(told(&mut rig, 110, second), None, "no news");
    assert_eq!(told(&mut rig, 120, first), None, "never backward");
    assert_eq!(told(&mut rig, 130, set(NEXT, 9)), None, "of another scheduler than ours");
    let (number, beat) = rig.beat(4_000);
    assert_eq!(beat.worker_set, Some(second));
    let third = set(GENERATION, 3);
    let ack = Ack { worker_set: Some(third), ..rig.ack() };
    rig.answer(4_010, number, Answer::Ok(ack));
    assert_eq!(
        rig.try_frame(4_010),
        echo(third),
        "told with an answer, it does not wait for the next either"
    );
}

#[test]
fn a_set_that_was_told_before_the_stream_broke_is_said_over_the_next() {
    let mut rig = Rig::new();
    rig.input(100, Input::Told(set(GENERATION, 1)));
    rig.input(101, Input::Disconnected);
    rig.input(102, Input::Told(set(GENERATION, 2)));
    rig.connect(200);
    let frame = rig.frame(200);
    assert_eq!(frame.worker_set, None, "the heartbeat says it");
    let (_, beat) = frame.heartbeat.expect("a new stream begins with one");
    assert_eq!(beat.worker_set, Some(set(GENERATION, 1)), "what came over no stream came from nobody");
}
