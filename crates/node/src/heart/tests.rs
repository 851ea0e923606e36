//! The heart in turns: what it claims, and what becomes of what it claimed.

use bytes::Bytes;
use lease::registry::Speaker;
use model::{ClientId, Job, JobId, Kind, NewJob, Nonce, State, WallTime, WorkerKey};
use schedule::dispatch::Input;
use store::{EnqueueBatch, JobStore as _, MemoryStore};
use tokio::sync::mpsc;

use super::*;
use crate::session::Outbox;
use crate::sessions::Session;

/// A heart that hears what it is told in turns. Its store answers at once, so all of a claim happens in one.
struct Scene {
    heart: Heart,
    store: Arc<MemoryStore>,
    inbox: mpsc::Receiver<Event>,
    /// A worker that has joined and has no free slots yet, and what is sent to it.
    session: Arc<Session>,
    outbox: Outbox,
}

impl Scene {
    /// With one job for each of these payloads.
    async fn new(volatile: bool, payloads: &[Bytes]) -> Scene {
        let clock = Arc::new(clock::SystemClock);
        let store =
            if volatile { MemoryStore::volatile(clock.clone()) } else { MemoryStore::new(clock.clone()) };
        let store = Arc::new(store);
        let (queue, kind) = (QueueName::new("q").unwrap(), Kind::new("k").unwrap());
        let job =
            |(i, payload): (usize, &Bytes)| NewJob::new(id(i), queue.clone(), kind.clone(), payload.clone());
        let jobs = payloads.iter().enumerate().map(job).collect();
        store.enqueue(EnqueueBatch { request_id: None, jobs }).await.unwrap();
        let (events, inbox) = mpsc::channel(64);
        let api = Arc::new(Api::new(crate::Node::new(store.clone(), clock), None, events));
        let (frames, outbox) = mpsc::channel(4);
        let profile = lease::message::Profile {
            queues: vec![queue.clone()],
            stop_within: Some(Duration::from_secs(1)),
            ..Default::default()
        };
        let (key, nonce) = (WorkerKey::new("w").unwrap(), Nonce::new(1));
        let session = api.sessions.open(key, nonce, profile, frames, Speaker::Worker).unwrap();
        let mut heart = Heart::new(api);
        heart.dispatch(Input::Joined { session: session.id, queues: vec![queue] });
        Scene { heart, store, inbox, session, outbox }
    }

    /// The worker has free slots.
    fn free(&mut self, slots: u32) {
        self.heart.turn([Event::Credits { session: self.session.id, add: slots }]);
    }

    async fn job(&self, i: usize) -> Job {
        self.store.get(id(i)).await.unwrap().unwrap()
    }

    /// How many jobs each frame carries that was sent to the worker.
    fn sent(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.outbox.try_recv().ok())
            .map(|frame| frame.unwrap().assignments.len())
            .collect()
    }
}

fn id(i: usize) -> JobId {
    ClientId::new(WallTime::from_millis(1), 1).job(i as u64 + 1)
}

/// The registry has never heard of the worker: nobody would know that the job runs there.
#[tokio::test]
async fn what_starts_at_once_is_not_sent_to_a_worker_that_the_registry_does_not_know() {
    let mut scene = Scene::new(true, &[Bytes::new()]).await;
    scene.heart.api.sessions.note_leased(&scene.session, Duration::from_secs(20), false);
    scene.free(2);
    let job = scene.job(0).await;
    assert!(job.fence.get() > 0, "it was claimed");
    assert_eq!(job.state, State::Available, "and is there for others");
    scene.heart.turn(std::iter::from_fn(|| scene.inbox.try_recv().ok()));
    assert!(scene.job(0).await.fence > job.fence, "the claim was answered, so another one follows");
    assert_eq!(scene.sent().into_iter().sum::<usize>(), 0);
}

/// Fewer come than there are slots for, which otherwise means that there are no more.
#[tokio::test]
async fn large_jobs_come_in_several_claims() {
    let mut scene = Scene::new(false, &[const { Bytes::from_static(&[0; 3 << 20]) }; 3]).await;
    scene.free(10);
    assert_eq!(scene.sent(), [2, 1]);
    assert_eq!(scene.job(2).await.state, State::Running);
}
