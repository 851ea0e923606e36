//! Submissions over the lives of a server and the streams to it.

use bytes::Bytes;
use model::{ClientId, Generation, JobId, WallTime};
use rpc::wire;

use super::submissions::{
    FRAME_ACKS_MAX, FRAME_BYTES_MAX, FRAME_JOBS_MAX, FRAMES_MAX, Next, StreamId, Submissions,
};

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

fn sequence(id: &str) -> u64 {
    let (owner, sequence) = id.parse::<JobId>().unwrap().submission().unwrap();
    assert_eq!(owner, client());
    sequence
}

/// Which submissions a frame carries.
fn carried(frame: &wire::SubmitFrame) -> Vec<u64> {
    frame.jobs.iter().map(|job| sequence(&job.id)).collect()
}

/// Which ends it acknowledges, and the mark.
fn acknowledged(frame: &wire::SubmitFrame) -> (Vec<u64>, u64) {
    let ids = frame.acknowledged.iter().map(|id| sequence(id)).collect();
    (ids, sequence(&frame.lowest_unacknowledged))
}

/// The next frame, if there is one.
fn frame(submissions: &mut Submissions, stream: StreamId) -> Option<wire::SubmitFrame> {
    match submissions.next_frame(stream) {
        Next::Frame(frame) => Some(frame),
        Next::Nothing => None,
        Next::Over => panic!("this is the present stream"),
    }
}

/// Says everything there is to say over this stream, and has it taken: which submissions that was.
fn talk(submissions: &mut Submissions, stream: StreamId) -> Vec<u64> {
    let mut sent = Vec::new();
    while let Some(frame) = frame(submissions, stream) {
        sent.extend(carried(&frame));
        submissions.answered(1);
    }
    sent
}

/// A stream to this life of the server, over which everything was said and taken: which submissions that was.
fn connect(submissions: &mut Submissions, life: Generation) -> (StreamId, Vec<u64>) {
    let stream = submissions.open();
    let mut sent = frame(submissions, stream).map_or_else(Vec::new, |greeting| carried(&greeting));
    submissions.meet(life, 0);
    submissions.answered(1);
    sent.extend(talk(submissions, stream));
    (stream, sent)
}

#[test]
fn the_first_frame_of_a_stream_says_who_speaks() {
    let mut submissions = submitted(0);
    let stream = submissions.open();
    let greeting = frame(&mut submissions, stream).expect("though there is nothing to submit");
    assert_eq!((greeting.client, greeting.jobs.len()), (id(0).to_string(), 0));
    submissions.submit(job());
    let second = frame(&mut submissions, stream).unwrap();
    assert_eq!((second.client.as_str(), carried(&second)), ("", vec![0]));
    let again = submissions.open();
    assert_eq!(frame(&mut submissions, again).unwrap().client, id(0).to_string());
}

#[test]
fn a_submission_is_sent_once_and_kept_until_it_is_acknowledged() {
    let mut submissions = submitted(3);
    let (stream, sent) = connect(&mut submissions, FIRST);
    assert_eq!(sent, [0, 1, 2]);
    assert_eq!(frame(&mut submissions, stream), None, "taken");
    assert!(submissions.end(id(1)) && submissions.hurry());
    let acks = frame(&mut submissions, stream).unwrap();
    assert_eq!(acknowledged(&acks), (vec![1], 0), "the first one has not ended");
    submissions.answered(1);
    assert!(submissions.end(id(0)) && submissions.end(id(2)));
    assert!(!submissions.is_idle() && submissions.hurry());
    let acks = frame(&mut submissions, stream).unwrap();
    assert_eq!(acknowledged(&acks), (vec![0, 2], 3), "nothing is below the next one");
    assert!(!submissions.is_idle(), "the server may not know yet");
    submissions.answered(1);
    assert!(submissions.is_idle());
}

#[test]
fn acknowledgements_wait_for_a_job_to_go_with_unless_they_are_hurried() {
    let mut submissions = submitted(2);
    let (stream, _) = connect(&mut submissions, FIRST);
    submissions.end(id(0));
    assert_eq!(frame(&mut submissions, stream), None, "it waits");
    submissions.submit(job());
    let next = frame(&mut submissions, stream).unwrap();
    assert_eq!((carried(&next), acknowledged(&next)), (vec![2], (vec![0], 1)));
    assert!(!submissions.hurry(), "there is nothing left to acknowledge");
    assert_eq!(frame(&mut submissions, stream), None);
    submissions.end(id(1));
    assert!(submissions.hurry());
    assert_eq!(acknowledged(&frame(&mut submissions, stream).unwrap()), (vec![1], 2));
    submissions.end(id(2));
    assert_eq!(frame(&mut submissions, stream), None, "the hurry is over");
}

#[test]
fn an_end_counts_once() {
    let mut submissions = submitted(2);
    let (stream, _) = connect(&mut submissions, FIRST);
    assert!(submissions.end(id(0)));
    assert!(!submissions.end(id(0)), "a duplicate");
    submissions.hurry();
    assert_eq!(acknowledged(&frame(&mut submissions, stream).unwrap()), (vec![0], 1));
    submissions.answered(1);
    assert!(!submissions.end(id(0)), "late");
    assert!(submissions.hurry(), "the server remembers what we know, so it is told again");
    assert_eq!(acknowledged(&frame(&mut submissions, stream).unwrap()), (vec![], 1));
    submissions.answered(1);
    assert!(!submissions.hurry());
}

#[test]
fn ends_and_refusals_of_others_and_of_jobs_that_do_not_exist_yet_are_ignored() {
    let mut submissions = submitted(1);
    let other = ClientId::new(WallTime::from_millis(1_760_000_000_000), 2);
    for stranger in [other.job(0), id(1), JobId::from_bytes([3; 16])] {
        assert!(!submissions.end(stranger) && !submissions.refused(stranger));
    }
    assert!(!submissions.has_acks());
    assert_eq!(connect(&mut submissions, FIRST).1, [0]);
}

#[test]
fn what_was_on_its_way_when_a_stream_broke_is_due_again_unless_it_has_ended() {
    let mut submissions = submitted(3);
    let stream = submissions.open();
    assert_eq!(carried(&frame(&mut submissions, stream).unwrap()), [0, 1, 2]);
    submissions.meet(FIRST, 0);
    assert!(submissions.end(id(1)), "the server took the frame although its answer was lost");
    let again = submissions.open();
    let frame = frame(&mut submissions, again).unwrap();
    assert_eq!((carried(&frame), acknowledged(&frame)), (vec![0, 2], (vec![1], 0)));
}

#[test]
fn acknowledgements_are_kept_until_they_are_answered() {
    let mut submissions = submitted(2);
    let (stream, _) = connect(&mut submissions, FIRST);
    submissions.end(id(0));
    submissions.hurry();
    assert!(frame(&mut submissions, stream).is_some() && !submissions.hurry(), "on its way");
    submissions.end(id(1));
    let again = submissions.open();
    let (mut acks, mark) = acknowledged(&frame(&mut submissions, again).unwrap());
    acks.sort_unstable();
    assert_eq!((acks, mark), (vec![0, 1], 2));
}

/// Otherwise what it takes with it would wait for an answer that nobody reads.
#[test]
fn a_stream_that_was_followed_by_another_takes_nothing_more() {
    let mut submissions = submitted(1);
    let first = submissions.open();
    let second = submissions.open();
    assert_eq!(submissions.next_frame(first), Next::Over);
    assert_eq!(carried(&frame(&mut submissions, second).unwrap()), [0]);
}

/// Where in its life a submission is when the server's life changes, and what is sent afterwards.
#[test]
fn another_life_of_the_server_makes_everything_due_again_that_has_not_ended() {
    let mut taken = submitted(1);
    connect(&mut taken, FIRST);
    assert!(connect(&mut taken, FIRST).1.is_empty(), "the same life has it");
    assert_eq!(connect(&mut taken, SECOND).1, [0]);

    let mut ended = submitted(2);
    connect(&mut ended, FIRST);
    ended.end(id(0));
    assert_eq!(connect(&mut ended, SECOND).1, [1]);

    let mut lost = submitted(1);
    connect(&mut lost, FIRST);
    lost.submit(job());
    let stream = lost.open();
    assert_eq!(carried(&frame(&mut lost, stream).unwrap()), [1]);
    assert!(lost.meet(SECOND, 0), "after it was sent");
    lost.answered(1);
    assert_eq!(talk(&mut lost, stream), [0], "the other one was sent to this life");
}

#[test]
fn whatever_the_order_of_lives_nothing_that_has_not_ended_is_left_behind() {
    // All ways in which seven things can happen to three submissions, of which the present life must hold all in the end.
    for script in 0..THINGS.pow(7) {
        check_script(script);
    }
}

/// How many different things may happen.
const THINGS: u32 = 6;

/// What is on its way to us over a stream.
enum Word {
    /// This life of the server was met.
    Met(u64),
    /// It took a frame, but for these.
    Answer(Vec<JobId>),
}

fn hear(submissions: &mut Submissions, word: Word) {
    match word {
        Word::Met(life) => drop(submissions.meet(Generation(life), 0)),
        Word::Answer(postponed) => {
            submissions.postponed(&postponed);
            submissions.answered(1);
        }
    }
}

fn check_script(script: u32) {
    let mut submissions = submitted(2);
    // The life of the server that is alive and what it has taken; the open stream, and what is on its way to us over it.
    let (mut alive, mut taken) = (1_u64, Vec::new());
    let mut open: Option<(StreamId, Vec<Word>)> = None;
    let mut rest = script;
    for step in 0..7 {
        match (rest % THINGS, &mut open) {
            // The server restarts.
            (0, _) => (alive, taken, open) = (alive + 1, Vec::new(), None),
            // The stream breaks, and another is opened.
            (1, _) => open = Some((submissions.open(), vec![Word::Met(alive)])),
            // A frame reaches the server.
            (2, Some((stream, answers))) => {
                if let Some(frame) = frame(&mut submissions, *stream) {
                    taken.extend(carried(&frame));
                    answers.push(Word::Answer(Vec::new()));
                }
            }
            // A frame reaches the server, which has no room.
            (5, Some((stream, answers))) => {
                if let Some(frame) = frame(&mut submissions, *stream) {
                    answers.push(Word::Answer(carried(&frame).into_iter().map(id).collect()));
                }
            }
            // An answer is read.
            (3, Some((_, answers))) if !answers.is_empty() => hear(&mut submissions, answers.remove(0)),
            (4, _) if step == 3 => drop(submissions.submit(job())),
            _ => {}
        }
        rest /= THINGS;
    }
    let all: Vec<u64> = (0..submissions.submit(job()).submission().unwrap().1 + 1).collect();
    // From now on nothing fails.
    let (stream, answers) = open.unwrap_or_else(|| (submissions.open(), vec![Word::Met(alive)]));
    answers.into_iter().for_each(|word| hear(&mut submissions, word));
    submissions.try_again();
    while let Some(frame) = frame(&mut submissions, stream) {
        taken.extend(carried(&frame));
        submissions.answered(1);
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken, all, "script {script}");
}

#[test]
fn the_mark_never_passes_what_has_not_ended_and_never_goes_back() {
    let mut submissions = submitted(4);
    let (stream, _) = connect(&mut submissions, FIRST);
    for (ended, lowest) in [(2, 0), (0, 1), (3, 1), (1, 4)] {
        submissions.end(id(ended));
        submissions.hurry();
        assert_eq!(acknowledged(&frame(&mut submissions, stream).unwrap()), (vec![ended], lowest));
    }
}

#[test]
fn no_more_are_in_flight_than_allowed_and_room_comes_with_the_end() {
    let mut submissions = Submissions::new(client(), 2);
    submissions.submit(job());
    assert!(submissions.has_room());
    submissions.submit(job());
    assert!(!submissions.has_room());
    connect(&mut submissions, FIRST);
    assert!(!submissions.has_room(), "taken");
    submissions.end(id(0));
    assert!(submissions.has_room());
}

#[test]
fn what_comes_while_many_frames_are_on_their_way_goes_out_together() {
    let mut submissions = submitted(0);
    let (stream, _) = connect(&mut submissions, FIRST);
    for _ in 0..FRAMES_MAX {
        submissions.submit(job());
        assert!(frame(&mut submissions, stream).is_some());
    }
    assert!(!submissions.answered(1), "nothing waits for it");
    submissions.submit(job());
    assert!(frame(&mut submissions, stream).is_some());
    for _ in 0..3 {
        submissions.submit(job());
        assert_eq!(frame(&mut submissions, stream), None);
    }
    assert!(submissions.answered(1), "these wait for it");
    assert_eq!(frame(&mut submissions, stream).unwrap().jobs.len(), 3);
    assert!(!submissions.answered(usize::MAX), "more than were sent");
    assert_eq!(frame(&mut submissions, stream), None);
}

#[test]
fn a_server_without_room_is_tried_again_with_one_job_and_then_with_more() {
    let mut submissions = submitted(100);
    let (stream, sent) = connect(&mut submissions, FIRST);
    assert_eq!(sent.len(), 100);
    submissions.end(id(1));
    assert!(submissions.postponed(&[id(1), id(90), id(91)]), "for the first time");
    assert!(submissions.is_paused() && !submissions.answered(1));
    submissions.submit(job());
    assert_eq!(frame(&mut submissions, stream), None, "no jobs before it is time");
    assert!(submissions.hurry());
    let acks = frame(&mut submissions, stream).expect("that is what makes room");
    assert_eq!((carried(&acks), acknowledged(&acks)), (vec![], (vec![1], 0)));
    submissions.answered(1);

    assert!(submissions.try_again() && !submissions.is_paused());
    assert_eq!(carried(&frame(&mut submissions, stream).unwrap()), [90]);
    assert!(!submissions.postponed(&[id(90)]), "still not");
    submissions.answered(1);
    assert!(submissions.try_again());
    for expected in [vec![90], vec![91, 100]] {
        assert_eq!(carried(&frame(&mut submissions, stream).unwrap()), expected, "the oldest first");
        submissions.postponed(&[]);
        submissions.answered(1);
    }
    for _ in 0..20 {
        submissions.submit(job());
    }
    let counts: Vec<usize> = std::iter::from_fn(|| {
        let count = frame(&mut submissions, stream)?.jobs.len();
        submissions.postponed(&[]);
        submissions.answered(1);
        Some(count)
    })
    .collect();
    assert_eq!(counts, [4, 8, 8]);
    for _ in 0..10 {
        submissions.postponed(&[]);
    }
    assert!(submissions.postponed(&[id(90)]), "it had room for everything meanwhile");
}

#[test]
fn another_stream_is_tried_at_once() {
    let mut submissions = submitted(3);
    connect(&mut submissions, FIRST);
    submissions.postponed(&[id(0), id(1), id(2)]);
    let stream = submissions.open();
    assert_eq!(carried(&frame(&mut submissions, stream).unwrap()), [0], "with few");
}

#[test]
fn a_server_that_has_forgotten_what_it_had_is_as_good_as_another() {
    let mut submissions = submitted(2);
    connect(&mut submissions, FIRST);
    submissions.end(id(0));
    let stream = submissions.open();
    assert!(frame(&mut submissions, stream).is_some());
    assert!(!submissions.meet(FIRST, 0));
    assert_eq!(frame(&mut submissions, stream), None, "it has it still");
    let stream = submissions.open();
    assert!(frame(&mut submissions, stream).is_some());
    assert!(submissions.meet(FIRST, 1));
    assert_eq!(carried(&frame(&mut submissions, stream).unwrap()), [1], "what has not ended");
}

#[test]
fn frames_are_bounded_by_count_and_by_bytes() {
    let mut submissions = submitted(FRAME_JOBS_MAX as u64 + 1);
    let stream = submissions.open();
    assert_eq!(frame(&mut submissions, stream).unwrap().jobs.len(), FRAME_JOBS_MAX);
    assert_eq!(frame(&mut submissions, stream).unwrap().jobs.len(), 1);

    let mut large = Submissions::new(client(), 10);
    for bytes in [FRAME_BYTES_MAX / 2, FRAME_BYTES_MAX / 2, 1, FRAME_BYTES_MAX + 1] {
        large.submit(wire::NewJob { payload: vec![0; bytes].into(), ..job() });
    }
    let stream = large.open();
    let mut next = || carried(&frame(&mut large, stream).unwrap());
    assert_eq!(next(), [0, 1], "together just what fits");
    assert_eq!(next(), [2]);
    assert_eq!(next(), [3], "one that is too large goes alone");

    let count = FRAME_ACKS_MAX as u64 + 1;
    let mut submissions = submitted(count);
    let (stream, _) = connect(&mut submissions, FIRST);
    for sequence in 0..count {
        assert_eq!(submissions.has_many_acks(), sequence >= FRAME_ACKS_MAX as u64);
        submissions.end(id(sequence));
    }
    submissions.hurry();
    assert_eq!(frame(&mut submissions, stream).unwrap().acknowledged.len(), FRAME_ACKS_MAX);
    assert_eq!(acknowledged(&frame(&mut submissions, stream).unwrap()), (vec![count - 1], count));
}

#[test]
fn what_is_refused_is_given_up_once() {
    let mut submissions = submitted(2);
    connect(&mut submissions, FIRST);
    assert!(submissions.refused(id(0)));
    assert!(!submissions.refused(id(0)) && !submissions.end(id(0)), "it was given up");
    submissions.end(id(1));
    assert!(!submissions.refused(id(1)), "it has ended meanwhile");
    assert!(connect(&mut submissions, SECOND).1.is_empty(), "neither is sent again");
}
