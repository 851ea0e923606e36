//! Sessions: who speaks for a key, and what waits for the next frame.

use super::*;

#[test]
fn a_reconnecting_worker_replaces_its_old_session() {
    let sessions = Sessions::new(Gauge::default());
    let queue = QueueName::new("q").unwrap();
    let worker = WorkerKey::new("w").unwrap();
    let profile = Profile { queues: vec![queue.clone()], ..Profile::default() };
    let open = || {
        let frames = mpsc::channel(1).0;
        sessions.open(worker.clone(), Nonce::new(1), profile.clone(), frames, Speaker::Worker).unwrap()
    };
    let (first, second) = (open(), open());
    assert!(first.close.is_cancelled() && !second.close.is_cancelled());
    assert_eq!(sessions.of_worker(&worker).map(|s| s.id), Some(second.id));
    // The old stream's end comes late and must not hide the new session.
    sessions.close(first.id);
    assert_eq!(sessions.of_worker(&worker).map(|s| s.id), Some(second.id));
    assert_eq!(sessions.workers_for(&queue, false), 1);
    sessions.close(second.id);
    assert_eq!((sessions.workers_for(&queue, false), sessions.count()), (0, 0));
}

/// Whose key it is shows when a heartbeat is taken. Until then a second stream under it takes nothing from the first.
#[test]
fn only_one_process_speaks_for_a_key() {
    use Speaker::{Impostor, Unknown, Worker};
    let sessions = Sessions::new(Gauge::default());
    let worker = WorkerKey::new("w").unwrap();
    let open = |nonce, speaker| {
        let profile = Profile::default();
        sessions.open(worker.clone(), Nonce::new(nonce), profile, mpsc::channel(1).0, speaker)
    };
    let speaking = || sessions.of_worker(&worker).map(|session| session.id);
    let (usurper, honest) = (open(666, Unknown).unwrap(), open(7, Unknown).unwrap());
    assert!(!usurper.speaks() && !honest.speaks() && speaking().is_none());
    sessions.let_speak(&honest);
    assert!(honest.speaks() && !usurper.speaks() && !honest.close.is_cancelled());
    assert_eq!(speaking(), Some(honest.id));
    // One that came with an unknown key and one that never heartbeats: both find it taken.
    assert!(open(666, Impostor).is_err() && open(0, Unknown).is_err());
    assert_eq!((speaking(), sessions.count()), (Some(honest.id), 2));
    let again = open(7, Worker).unwrap();
    assert!(again.speaks() && honest.close.is_cancelled());
    assert_eq!(speaking(), Some(again.id));
    // A stream that is closed already takes nobody's place.
    sessions.close(usurper.id);
    sessions.let_speak(&usurper);
    assert_eq!(speaking(), Some(again.id));
}

#[test]
fn a_stream_without_heartbeats_gives_way_to_the_worker_that_has_the_key() {
    let sessions = Sessions::new(Gauge::default());
    let worker = WorkerKey::new("w").unwrap();
    let open = |nonce| {
        let frames = mpsc::channel(1).0;
        sessions.open(worker.clone(), Nonce::new(nonce), Profile::default(), frames, Speaker::Unknown)
    };
    let nameless = open(0).unwrap();
    assert!(nameless.speaks());
    let honest = open(7).unwrap();
    assert!(!nameless.close.is_cancelled(), "nobody knows yet whose the key is");
    sessions.let_speak(&honest);
    assert!(nameless.close.is_cancelled() && honest.speaks());
}

#[test]
fn a_worker_without_a_nonce_gets_no_exclusive_jobs() {
    let sessions = Sessions::new(Gauge::default());
    let profile = Profile { stop_within: Some(Duration::from_secs(1)), ..Profile::default() };
    for (nonce, is_fit) in [(7, true), (0, false)] {
        let (key, frames) = (WorkerKey::new(&format!("w{nonce}")).unwrap(), mpsc::channel(1).0);
        let opened = sessions.open(key, Nonce::new(nonce), profile.clone(), frames, Speaker::Worker);
        let session = opened.unwrap();
        sessions.note_leased(&session, Duration::from_secs(20), false);
        assert_eq!(session.is_fit(), is_fit, "nonce {nonce}");
    }
}

/// A session, and what is sent over it.
fn session() -> (Arc<Session>, impl FnMut() -> Option<ServerFrame>) {
    let (frames, mut outbox) = mpsc::channel(9);
    let worker = WorkerKey::new("w").unwrap();
    let sessions = Sessions::new(Gauge::default());
    let session = sessions.open(worker, Nonce::new(1), Profile::default(), frames, Speaker::Worker).unwrap();
    (session, move || outbox.try_recv().ok().map(|frame| frame.unwrap()))
}

fn answers(jobs: std::ops::Range<usize>) -> Vec<ReportAnswer> {
    jobs.map(|job| ReportAnswer { job: job.to_string(), ..Default::default() }).collect()
}

#[tokio::test]
async fn answers_wait_for_the_next_frame_and_go_out_without_one() {
    let (session, mut sent) = session();

    assert!(session.flush().await.is_ok());
    assert_eq!(sent(), None, "nothing waits");
    assert!(session.keep_answers(&mut answers(0..2)));
    assert_eq!(sent(), None, "they wait");
    assert!(session.send(ServerFrame { check: 7, ..Default::default() }).await.is_ok());
    assert_eq!(sent(), Some(ServerFrame { check: 7, reports: answers(0..2), ..Default::default() }));
    assert!(session.flush().await.is_ok());
    assert_eq!(sent(), None, "each goes out once");

    assert!(session.keep_answers(&mut answers(2..KEPT_MAX)));
    assert!(!session.keep_answers(&mut answers(0..3)), "there is no room for so many");
    assert!(session.flush().await.is_ok());
    assert_eq!(sent().unwrap().reports, answers(2..KEPT_MAX));

    assert!(session.keep_answers(&mut answers(0..1)));
    session.dismiss();
    let goodbye = ServerFrame { goodbye: true, reports: answers(0..1), ..Default::default() };
    assert_eq!(sent(), Some(goodbye));
    assert!(session.close.is_cancelled());
}

#[tokio::test]
async fn what_may_be_forgotten_goes_with_whatever_is_sent_next() {
    let (session, mut sent) = session();
    let holds = |count: usize| vec![Hold { job: "j".to_owned(), fence: 1 }; count];

    session.keep_forgets(holds(2).into_iter());
    assert!(session.flush().await.is_ok());
    assert_eq!(sent(), None, "nothing is sent on its account");
    session.offer(ServerFrame { check: 7, ..Default::default() });
    assert_eq!(sent(), Some(ServerFrame { check: 7, forget: holds(2), ..Default::default() }));
    session.keep_forgets(holds(1).into_iter());
    assert!(session.send(ServerFrame::default()).await.is_ok());
    assert_eq!(sent(), Some(ServerFrame { forget: holds(1), ..Default::default() }));
    session.keep_forgets(holds(KEPT_MAX + 1).into_iter());
    assert_eq!(sent().unwrap().forget.len(), KEPT_MAX + 1, "unless there are many");
}

/// A later life of the server waits only for the longest lease that it grants itself.
#[test]
fn a_worker_that_was_promised_more_gets_no_volatile_jobs() {
    let sessions = Sessions::new(Gauge::default());
    let worker = WorkerKey::new("w").unwrap();
    let frames = mpsc::channel(1).0;
    let session = sessions.open(worker, Nonce::new(1), Profile::default(), frames, Speaker::Worker).unwrap();
    assert!(!session.is_mustered(), "the muster has not said so");
    session.set_mustered(true);
    assert!(session.is_mustered());
    session.set_promised_more(true);
    assert!(!session.is_mustered());
}

#[test]
fn a_worker_whose_clock_is_off_gets_no_exclusive_jobs_until_it_is_right_again() {
    let sessions = Sessions::new(Gauge::default());
    let profile = Profile { stop_within: Some(Duration::from_secs(1)), ..Profile::default() };
    let (key, frames) = (WorkerKey::new("w").unwrap(), mpsc::channel(1).0);
    let session = sessions.open(key, Nonce::new(1), profile, frames, Speaker::Worker).unwrap();
    for is_off in [false, true, false] {
        let (_, is_news) = sessions.note_leased(&session, Duration::from_secs(20), is_off);
        assert_eq!((session.is_fit(), is_news), (!is_off, true));
        assert!(!sessions.note_leased(&session, Duration::from_secs(20), is_off).1);
    }
}
