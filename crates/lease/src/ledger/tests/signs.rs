//! Jobs whose handlers must say that they get on.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

fn assign(rig: &mut Rig, at_ms: u64, job: Hold) {
    let grant = Grant { heartbeat_timeout: Some(TIMEOUT), ..rig.grant(job) };
    assert_eq!(rig.input(at_ms, Input::Assigned(grant)), [Output::Start { hold: job }]);
}

fn signs(rig: &mut Rig, at_ms: u64) -> Vec<Hold> {
    rig.ledger.handle_deadline(at(at_ms));
    rig.try_frame(at_ms).map_or(Vec::new(), |frame| frame.beats)
}

#[test]
fn signs_go_out_soon_and_at_most_five_times_per_timeout() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assign(&mut rig, 0, job);
    let sent: Vec<u64> = (1..=60)
        .map(|tenth| tenth * 100)
        .filter(|ms| {
            rig.input(*ms, Input::Beaten { hold: job });
            signs(&mut rig, *ms) == [job]
        })
        .collect();
    assert_eq!(sent, [100, 2_100, 4_100]);
    assert_eq!(signs(&mut rig, 6_100), [job], "the last one was kept, and goes out when it may");
    assert_eq!(signs(&mut rig, 8_100), [], "there was none since");
}

#[test]
fn a_silent_handler_is_wedged_stopped_and_ended() {
    let mut rig = Rig::new();
    let (beating, noting, silent, polite) = (hold(1, 10), hold(2, 10), hold(3, 10), hold(4, 10));
    for job in [beating, noting, silent, polite] {
        assign(&mut rig, 0, job);
    }
    assert_eq!(rig.outputs_until(5_000), []);
    rig.input(5_000, Input::Beaten { hold: beating });
    rig.input(5_000, Input::Noted { hold: noting, note: "half".into() });
    let frame = rig.frame(5_000);
    assert_eq!((frame.beats, frame.notes.len()), (vec![beating, noting], 1), "a note is a sign, too");
    let wedged = |ms, hold| (ms, stop(hold, StopReason::Wedged));
    assert_eq!(rig.outputs_until(13_999), [wedged(9_000, silent), wedged(9_000, polite)]);
    assert_eq!(
        rig.outputs_until(14_000),
        [
            wedged(14_000, beating),
            wedged(14_000, noting),
            (14_000, Output::Abort { hold: silent }),
            (14_000, Output::Abort { hold: polite })
        ]
    );
    let never = Ended::Failed { error: "stuck".into(), retry: Retry::Never };
    let outcome = failed("no sign of progress for 9s: stuck");
    assert_eq!(
        rig.input(14_001, Input::Finished { hold: polite, ended: never, at: None }),
        [ended(polite, outcome)],
        "whatever it says: it may go better next time"
    );
    let text = "no sign of progress for 9s; the handler did not stop when told and was ended";
    let input = Input::Finished { hold: silent, ended: Ended::Aborted, at: None };
    assert_eq!(rig.input(14_002, input), [ended(silent, failed(text))]);
    assert_eq!(rig.complete(14_003, beating), [ended(beating, completed())]);
}

#[test]
fn a_sign_that_may_have_been_lost_with_its_stream_is_sent_again() {
    let mut rig = Rig::new();
    let (signed, mute) = (hold(1, 10), hold(2, 10));
    assign(&mut rig, 0, signed);
    assign(&mut rig, 0, mute);
    rig.input(100, Input::Beaten { hold: signed });
    assert_eq!(signs(&mut rig, 100), [signed]);
    rig.input(200, Input::Disconnected);
    rig.connect(300);
    assert_eq!(rig.frame(300).beats, [signed]);
    assert_eq!(signs(&mut rig, 2_300), [], "once is enough");
}

#[test]
fn signs_of_lost_and_ordinary_jobs_are_not_sent() {
    let mut rig = Rig::new();
    let (lost, ended_early, ordinary) = (hold(1, 10), hold(2, 10), hold(3, 10));
    assign(&mut rig, 0, lost);
    assign(&mut rig, 0, ended_early);
    rig.assign(0, ordinary);
    for job in [lost, ended_early, ordinary, hold(9, 9)] {
        rig.input(10, Input::Beaten { hold: job });
    }
    rig.order(20, lost, StopOrder::Lost);
    rig.complete(20, ended_early);
    assert_eq!(rig.frame(30).beats, []);
    rig.input(40, Input::Beaten { hold: lost });
    // It still takes a slot, so it is ended in the end, although nobody needs its signs.
    assert_eq!(rig.outputs_until(30_000), [(14_010, Output::Abort { hold: lost })]);
}
