//! Good-bye under a key that the registry declared over.

use super::*;
use crate::message::InactiveReason;
use model::HolderEnd;

const KICKED: Answer = Answer::Inactive { why: InactiveReason::Ended(HolderEnd::Kicked) };
const DEAD: Output = Output::NewKey { why: KeyEnd::Inactive };

/// Nothing runs under this key any more, and nothing exclusive since then.
fn farewell(name: &str, stopped_at_ms: u64) -> Output {
    Output::Farewell { key: key(name), nonce: NONCE, stopped_at: at(stopped_at_ms), all_stopped: true }
}

/// Nothing exclusive has run under this lapsed key since then.
pub(super) fn word(name: &str, stopped_at_ms: u64) -> Output {
    Output::Farewell { key: key(name), nonce: NONCE, stopped_at: at(stopped_at_ms), all_stopped: false }
}

/// A job's last process was gone then; the worker hears of it now.
fn finish(rig: &mut Rig, now_ms: u64, hold: Hold, at_ms: u64) -> Vec<Output> {
    rig.input(now_ms, Input::Finished { hold, ended: Ended::Aborted, at: Some(at(at_ms)) })
}

/// Named in the table of mutations.
pub(super) fn a_farewell_waits_for_the_last_job_of_its_key(rig: &mut Rig) {
    let (exclusive, ordinary, waiting) = (hold(1, 10), hold(2, 10), hold(3, 10));
    rig.run_exclusive(0, exclusive);
    rig.assign(0, ordinary);
    rig.assign_exclusive(0, waiting);
    let (number, _) = rig.beat(4_000);
    let lost = |hold| stop(hold, StopReason::Lost);
    assert_eq!(
        rig.answer(4_010, number, KICKED),
        [lost(exclusive), lost(ordinary), dropped(waiting), DEAD],
        "what has not started has nothing to end"
    );
    rig.rekey(4_020, "w2");
    assert_eq!(rig.complete(4_030, exclusive), [dropped(exclusive)]);
    assert_eq!(rig.complete(4_040, ordinary), [dropped(ordinary), farewell("w1", 4_030)]);
}

#[test]
fn farewell_waits_for_the_last_job_of_its_key() {
    a_farewell_waits_for_the_last_job_of_its_key(&mut Rig::new());
}

#[test]
fn a_key_with_nothing_running_is_left_at_once() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    assert_eq!(rig.answer(4_010, number, KICKED), [farewell("w1", 4_010), DEAD]);
}

#[test]
fn each_key_is_left_when_its_own_jobs_have_ended() {
    let mut rig = Rig::new();
    let (first, second) = (hold(1, 10), hold(2, 10));
    rig.assign(0, first);
    let (number, _) = rig.beat(4_000);
    rig.answer(4_010, number, KICKED);
    rig.rekey(4_020, "w2");
    rig.connect(4_030);
    rig.register(4_030);
    rig.assign(4_040, second);
    let (number, _) = rig.beat(8_030);
    rig.answer(8_040, number, KICKED);
    assert_eq!(
        rig.complete(8_050, second),
        [dropped(second), farewell("w2", 8_040)],
        "the other never ran under it"
    );
    assert_eq!(rig.complete(8_060, first), [dropped(first), farewell("w1", 4_010)]);
}

#[test]
fn the_end_of_an_exclusive_job_is_set_by_the_key_it_ran_under() {
    let mut rig = Rig::new();
    rig.answers = false;
    let job = hold(1, 10);
    rig.run_exclusive(0, job);
    let (number, _) = rig.beat(13_900);
    rig.answer(13_950, number, KICKED);
    rig.rekey(13_950, "w2");
    let done = rig.outputs_until(60_000);
    assert_eq!(done, [(18_950, Output::Abort { hold: job }), (19_450, Output::Doom { hold: job })]);
}

#[test]
fn a_key_that_was_never_registered_is_not_left() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    let (number, _) = rig.beat(0);
    let taken = Answer::Inactive { why: InactiveReason::KeyTaken };
    assert_eq!(rig.answer(10, number, taken), [DEAD], "it is someone else's");
}

#[test]
fn a_worker_that_has_taken_leave_says_no_farewell() {
    let mut rig = Rig::new();
    let (number, _) = rig.beat(4_000);
    rig.input(4_010, Input::Drain { grace: Duration::from_secs(25) });
    assert!(rig.frame(4_010).leave.is_some());
    assert_eq!(rig.answer(4_020, number, KICKED), [Output::Gone { unreported: 0 }]);
}

#[test]
fn a_lapsed_key_is_named_by_its_successor_and_not_left() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    rig.assign(0, job);
    rig.input(100, Input::Disconnected);
    rig.live_until(19_980);
    assert_eq!(rig.complete(20_000, job), [ended(job, completed())]);
}

#[test]
fn only_a_few_keys_are_waited_for() {
    let mut rig = Rig::with(terms(8));
    let stuck = |number: u64| hold(number as u8, 10);
    for number in 1..=5 {
        let ms = number * 4_000;
        rig.assign(ms, stuck(number));
        let (beat, _) = rig.beat(ms);
        rig.answer(ms, beat, KICKED);
        rig.rekey(ms, &format!("w{}", number + 1));
        rig.connect(ms);
        rig.register(ms);
    }
    assert_eq!(rig.complete(20_000, stuck(1)), [dropped(stuck(1))], "the oldest is left to its lease");
    assert_eq!(rig.complete(20_000, stuck(2)), [dropped(stuck(2)), farewell("w2", 8_000)]);
}

/// A frozen worker's guardian ended the job in time. That the worker hears of it late says nothing.
#[test]
fn a_word_that_comes_late_is_dated_by_whoever_ended_the_job() {
    let mut rig = Rig::new();
    rig.answers = false;
    let job = hold(1, 10);
    rig.run_exclusive(0, job);
    let (number, _) = rig.beat(4_000);
    rig.answer(4_010, number, KICKED);
    rig.rekey(4_020, "w2");
    assert_eq!(finish(&mut rig, 30_000, job, 9_000).last(), Some(&farewell("w1", 9_000)));
}

#[test]
fn a_lapsed_key_says_when_its_exclusive_jobs_had_ended() {
    // In time, by the guardian's hand; and beyond, since guardian and worker were frozen together.
    for ended_at in [18_900, 29_990] {
        let mut rig = Rig::new();
        rig.answers = false;
        let job = hold(1, 10);
        rig.run_exclusive(0, job);
        let woken = rig.input(30_000, Input::Disconnected);
        assert!(woken.contains(&Output::NewKey { why: KeyEnd::Lapsed }), "{woken:?}");
        let heard = finish(&mut rig, 30_010, job, ended_at);
        assert_eq!(heard, [dropped(job), word("w1", ended_at)]);
    }
}

/// By its own clock all was in time. The server judges that by its own.
#[test]
fn a_lapsed_key_says_so_too_when_its_jobs_had_ended_before() {
    let mut rig = Rig::new();
    rig.answers = false;
    let job = hold(1, 10);
    rig.run_exclusive(0, job);
    rig.live_until(19_000);
    finish(&mut rig, 19_010, job, 19_005);
    let lapsed = rig.outputs_until(20_000);
    assert!(lapsed.contains(&(19_980, word("w1", 19_005))), "{lapsed:?}");
    // What ran under that key is no word of the next one.
    rig.rekey(20_000, "w2");
    rig.connect(20_010);
    rig.register(20_010);
    let lapsed = rig.outputs_until(60_000);
    assert!(lapsed.iter().all(|(_, output)| !matches!(output, Output::Farewell { .. })), "{lapsed:?}");
}
