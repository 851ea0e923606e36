//! Submissions over the lives of a server.

use bytes::Bytes;
use model::{ClientId, Generation, JobId, WallTime};
use rpc::wire;

use super::submissions::{ACKS_MAX, BATCH_BYTES_MAX, BATCH_JOBS_MAX, Batch, Refusal, Submissions};

const FIRST: Generation = Generation(11);
const SECOND: Generation = Generation(7);

fn client() -> ClientId {
    ClientId::new(WallTime::from_millis(1_760_000_000_000), 1)
}

fn id(sequence: u64) -> JobId {
    client().job(sequence)
}

fn job() -> wire::NewJob {
    wire::NewJob { queue: "q".to_owned(), payload: Bytes::from_static(b"x"), ..Default::default() }
}

/// This many submissions that are due.
fn submitted(count: u64) -> Submissions {
    let mut submissions = Submissions::new(client(), 100_000);
    for sequence in 0..count {
        assert_eq!(submissions.submit(job()), id(sequence));
    }
    submissions
}

/// Which submissions a batch carries.
fn sequences(batch: &Batch) -> Vec<u64> {
    let parsed = batch.jobs.iter().map(|job| job.id.parse::<JobId>().unwrap().submission().unwrap());
    parsed.map(|(owner, sequence)| (owner == client()).then_some(sequence).unwrap()).collect()
}

/// Sends what is due; which that was.
fn send(submissions: &mut Submissions, answered_by: Generation) -> Vec<u64> {
    let Some(batch) = submissions.take_due() else { return Vec::new() };
    let sent = sequences(&batch);
    submissions.accepted(batch.into_parts().2, answered_by);
    sent
}

#[test]
fn a_submission_is_sent_once_and_kept_until_it_is_acknowledged() {
    let mut submissions = submitted(3);
    let batch = submissions.take_due().unwrap();
    assert_eq!((sequences(&batch), batch.lowest), (vec![0, 1, 2], id(0)));
    assert!(submissions.take_due().is_none(), "on their way");
    assert!(!submissions.accepted(batch.into_parts().2, FIRST));
    assert!(submissions.take_due().is_none(), "accepted");
    assert!(submissions.end(id(1)));
    let acks = submissions.take_acks().unwrap();
    assert_eq!((&acks.ids[..], acks.lowest), (&[id(1)][..], id(0)), "the first one has not ended");
    assert_eq!(submissions.acknowledged(&acks), 1);
    assert!(submissions.end(id(0)) && submissions.end(id(2)));
    assert!(!submissions.is_idle());
    let acks = submissions.take_acks().unwrap();
    assert_eq!((&acks.ids[..], acks.lowest), (&[id(0), id(2)][..], id(3)), "nothing is below the next one");
    assert!(!submissions.is_idle(), "not acknowledged yet");
    submissions.acknowledged(&acks);
    assert!(submissions.is_idle());
}

#[test]
fn an_end_counts_once() {
    let mut submissions = submitted(2);
    send(&mut submissions, FIRST);
    assert!(submissions.end(id(0)));
    assert!(!submissions.end(id(0)), "a duplicate");
    let acks = submissions.take_acks().unwrap();
    assert_eq!(acks.ids, [id(0)]);
    submissions.acknowledged(&acks);
    assert!(!submissions.end(id(0)), "late");
    let again = submissions.take_acks().expect("the server remembers what we know, so it is told again");
    assert_eq!((again.ids.len(), again.lowest), (0, id(1)));
    submissions.acknowledged(&again);
    assert!(submissions.take_acks().is_none());
}

#[test]
fn ends_of_others_and_of_jobs_that_do_not_exist_yet_are_ignored() {
    let mut submissions = submitted(1);
    let other = ClientId::new(WallTime::from_millis(1_760_000_000_000), 2);
    for stranger in [other.job(0), id(1), JobId::from_bytes([3; 16])] {
        assert!(!submissions.end(stranger));
    }
    assert!(submissions.take_acks().is_none());
    assert_eq!(send(&mut submissions, FIRST), [0]);
}

#[test]
fn what_fails_is_due_again_unless_it_has_ended() {
    let mut submissions = submitted(3);
    let batch = submissions.take_due().unwrap();
    assert!(submissions.end(id(1)), "the server took the call although its answer was lost");
    submissions.failed(batch.into_parts().2);
    assert_eq!(send(&mut submissions, FIRST), [0, 2]);
}

/// Where in the life of a submission the server's life changes, by which conversation, and what is sent afterwards.
#[test]
fn another_life_of_the_server_makes_everything_due_again_that_has_not_ended() {
    // Told by the stream of ends, while the submission is …
    let mut due = submitted(1);
    due.meet(FIRST);
    assert!(due.meet(SECOND));
    assert_eq!(send(&mut due, SECOND), [0], "… due");

    let mut accepted = submitted(1);
    send(&mut accepted, FIRST);
    assert!(accepted.meet(SECOND));
    assert_eq!(send(&mut accepted, SECOND), [0], "… accepted");
    assert!(accepted.take_due().is_none(), "once");

    let mut ended = submitted(2);
    send(&mut ended, FIRST);
    ended.end(id(0));
    assert!(ended.meet(SECOND));
    assert_eq!(send(&mut ended, SECOND), [1], "… ended");

    let mut failed = submitted(1);
    failed.meet(FIRST);
    let on_its_way = failed.take_due().unwrap();
    assert!(failed.meet(SECOND));
    failed.failed(on_its_way.into_parts().2);
    assert_eq!(send(&mut failed, SECOND), [0], "… on its way, and the call fails");
}

#[test]
fn an_answer_of_a_life_that_was_left_accepts_nothing() {
    let mut submissions = submitted(2);
    send(&mut submissions, FIRST);
    submissions.submit(job());
    let on_its_way = submissions.take_due().unwrap();
    assert_eq!(sequences(&on_its_way), [2]);
    assert!(submissions.meet(SECOND));
    assert!(!submissions.accepted(on_its_way.into_parts().2, FIRST), "no news: it was left");
    assert_eq!(submissions.generation(), Some(SECOND));
    assert_eq!(send(&mut submissions, SECOND), [0, 1, 2]);
}

#[test]
fn an_answer_of_the_life_that_was_met_meanwhile_accepts() {
    let mut submissions = submitted(2);
    send(&mut submissions, FIRST);
    submissions.submit(job());
    let on_its_way = submissions.take_due().unwrap();
    assert!(submissions.meet(SECOND));
    assert!(!submissions.accepted(on_its_way.into_parts().2, SECOND));
    assert_eq!(send(&mut submissions, SECOND), [0, 1], "the third one was taken by the second life");
}

#[test]
fn an_answer_of_another_life_makes_everything_due_before_the_stream_of_ends_knows() {
    let mut submissions = submitted(2);
    send(&mut submissions, FIRST);
    submissions.submit(job());
    let on_its_way = submissions.take_due().unwrap();
    assert!(submissions.accepted(on_its_way.into_parts().2, SECOND), "news");
    assert_eq!(send(&mut submissions, SECOND), [0, 1, 2]);
    assert!(!submissions.meet(SECOND), "the stream of ends has nothing to add");
    assert!(submissions.take_due().is_none());
}

#[test]
fn nobody_knows_which_of_two_unknown_lives_is_the_later_so_both_get_everything() {
    // Sent before anything was known; the stream of ends meets the second life before the first one's answer is read.
    let mut submissions = submitted(1);
    let on_its_way = submissions.take_due().unwrap();
    assert!(!submissions.meet(SECOND), "the first that is known");
    assert!(submissions.accepted(on_its_way.into_parts().2, FIRST));
    let again = submissions.take_due().expect("the first life may be the one that is over");
    assert!(submissions.accepted(again.into_parts().2, SECOND), "it was");
    assert_eq!(send(&mut submissions, SECOND), [0]);
    assert!(submissions.take_due().is_none(), "at rest");
}

#[test]
fn whatever_the_order_of_lives_nothing_that_has_not_ended_is_left_behind() {
    // All ways in which seven things can happen to three submissions, of which the present life must hold all in the end.
    for script in 0..5_u32.pow(7) {
        check_script(script);
    }
}

fn check_script(script: u32) {
    let mut submissions = submitted(3);
    // The life of the server that is alive, what it has taken, and a call on its way with the life that took it.
    let (mut alive, mut taken, mut on_its_way) = (1_u64, Vec::new(), None::<(Batch, u64)>);
    // The life that the stream of ends is open to.
    let mut followed = None;
    let mut rest = script;
    for _ in 0..7 {
        match rest % 5 {
            // The server restarts; the stream breaks.
            0 => (alive, taken, followed) = (alive + 1, Vec::new(), None),
            // The stream is opened again.
            1 => {
                followed = Some(alive);
                submissions.meet(Generation(alive));
            }
            // A call reaches the server.
            2 if on_its_way.is_none() => {
                on_its_way = submissions.take_due().map(|batch| {
                    taken.extend(sequences(&batch));
                    (batch, alive)
                });
            }
            // Its answer is read.
            3 => {
                if let Some((batch, by)) = on_its_way.take()
                    && submissions.accepted(batch.into_parts().2, Generation(by))
                {
                    followed = None;
                }
            }
            // Its answer is lost.
            4 => {
                if let Some((batch, _)) = on_its_way.take() {
                    submissions.failed(batch.into_parts().2);
                }
            }
            _ => {}
        }
        rest /= 5;
    }
    // From now on nothing fails: the answer comes, the stream is opened if it is not, what is due is sent.
    if let Some((batch, by)) = on_its_way.take()
        && submissions.accepted(batch.into_parts().2, Generation(by))
    {
        followed = None;
    }
    if followed.is_none() {
        submissions.meet(Generation(alive));
    }
    for _ in 0..3 {
        while let Some(batch) = submissions.take_due() {
            taken.extend(sequences(&batch));
            submissions.accepted(batch.into_parts().2, Generation(alive));
        }
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken, [0, 1, 2], "script {script}");
}

#[test]
fn the_mark_never_passes_what_has_not_ended_and_never_goes_back() {
    let mut submissions = submitted(4);
    send(&mut submissions, FIRST);
    let mut last = id(0);
    for (ended, lowest) in [(2, 0), (0, 1), (3, 1), (1, 4)] {
        submissions.end(id(ended));
        let acks = submissions.take_acks().unwrap();
        assert_eq!((&acks.ids[..], acks.lowest), (&[id(ended)][..], id(lowest)));
        assert!(acks.lowest >= last);
        last = acks.lowest;
        submissions.acknowledged(&acks);
    }
}

#[test]
fn acknowledgements_are_kept_until_they_are_answered() {
    let mut submissions = submitted(2);
    send(&mut submissions, FIRST);
    submissions.end(id(0));
    let lost = submissions.take_acks().unwrap();
    assert!(submissions.take_acks().is_none(), "on its way");
    submissions.end(id(1));
    submissions.acks_failed(lost);
    let mut again = submissions.take_acks().unwrap();
    again.ids.sort();
    assert_eq!(again.ids, [id(0), id(1)]);
}

#[test]
fn no_more_are_in_flight_than_allowed_and_room_comes_with_the_acknowledgement() {
    let mut submissions = Submissions::new(client(), 2);
    submissions.submit(job());
    assert!(submissions.has_room());
    submissions.submit(job());
    assert!(!submissions.has_room());
    send(&mut submissions, FIRST);
    submissions.end(id(0));
    assert!(!submissions.has_room(), "ended");
    let acks = submissions.take_acks().unwrap();
    assert!(!submissions.has_room(), "on its way");
    assert_eq!(submissions.acknowledged(&acks), 1);
    assert!(submissions.has_room());
}

#[test]
fn calls_are_bounded_by_count_and_by_bytes() {
    let mut submissions = submitted(BATCH_JOBS_MAX as u64 + 1);
    assert_eq!(send(&mut submissions, FIRST).len(), BATCH_JOBS_MAX);
    assert_eq!(send(&mut submissions, FIRST).len(), 1);

    let mut large = Submissions::new(client(), 10);
    for bytes in [BATCH_BYTES_MAX / 2, BATCH_BYTES_MAX / 2, 1, BATCH_BYTES_MAX + 1] {
        large.submit(wire::NewJob { payload: vec![0; bytes].into(), ..job() });
    }
    assert_eq!(send(&mut large, FIRST), [0, 1], "together just what fits");
    assert_eq!(send(&mut large, FIRST), [2]);
    assert_eq!(send(&mut large, FIRST), [3], "one that is too large goes alone");

    let mut submissions = submitted(ACKS_MAX as u64 + 1);
    for sequence in 0..=ACKS_MAX as u64 {
        submissions.end(id(sequence));
    }
    assert_eq!(submissions.take_acks().unwrap().ids.len(), ACKS_MAX);
    assert_eq!(submissions.take_acks().unwrap().ids, [id(ACKS_MAX as u64)]);
}

#[test]
fn the_one_that_is_to_blame_for_a_refused_call_is_found_and_the_others_go_through() {
    let (count, bad) = (100, 37);
    let mut submissions = submitted(count);
    let (mut accepted, mut calls) = (Vec::new(), 0);
    while let Some(batch) = submissions.take_due() {
        calls += 1;
        let sent = sequences(&batch);
        let (_, _, handle) = batch.into_parts();
        if !sent.contains(&bad) {
            accepted.extend(sent);
            submissions.accepted(handle, FIRST);
            continue;
        }
        let refusal = submissions.refused(handle);
        assert_eq!(refusal, if sent.len() == 1 { Refusal::GivenUp(id(bad)) } else { Refusal::Smaller });
    }
    assert_eq!(accepted, (0..count).filter(|sequence| *sequence != bad).collect::<Vec<_>>());
    assert!(calls <= 25, "{calls} calls");
    assert!(!submissions.end(id(bad)), "it was given up");
}

#[test]
fn a_refusal_of_a_job_that_has_ended_meanwhile_is_nothing() {
    let mut submissions = submitted(1);
    let batch = submissions.take_due().unwrap();
    submissions.end(id(0));
    assert_eq!(submissions.refused(batch.into_parts().2), Refusal::Ended);
}
