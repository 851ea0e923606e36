//! What the heart has others do: each duty is one call to the store and one event back.

use std::sync::Arc;
use std::time::Duration;

use model::{Hold, QueueName, State};
use rpc::{convert, wire};
use schedule::dispatch::SessionId;
use store::{Claim, Claimed};
use tokio::sync::oneshot;
use tracing::warn;

use crate::api::{Api, CLAIM_BYTES_MAX};
use crate::event::{Event, Grant, Granted, RollEvent, leases};
use crate::sessions::Session;

/// Jobs that were claimed for a session and are not sent yet.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) to: Arc<Session>,
    queues: Vec<QueueName>,
    asked: u32,
    claimed: Vec<Claimed>,
    /// The number of the first start; the others follow.
    first: u64,
}

impl Taken {
    /// What the registry must note before these are sent, so that its record is there when they are bound.
    pub(crate) fn grant(&self) -> Grant {
        let exclusive = self.claimed.iter().filter(|job| job.exclusive).map(|job| job.hold).collect();
        Grant {
            key: self.to.worker.clone(),
            holds: self.claimed.iter().map(|job| job.hold).collect(),
            exclusive,
            start: self.first + self.claimed.len() as u64 - 1,
        }
    }

    /// Whether the registry has anything to note.
    pub(crate) fn is_to_be_noted(&self) -> bool {
        !self.claimed.is_empty() && self.to.is_leased()
    }
}

/// Claims jobs for a session, or answers what the heart must hear instead.
pub(crate) async fn take(
    api: Arc<Api>,
    session: SessionId,
    queues: Vec<QueueName>,
    limit: u32,
) -> Result<Taken, Event> {
    let Some(to) = api.sessions.get(session) else {
        let answer = Ok(Granted { jobs: 0, leases: leases(&[]), more: Vec::new() });
        return Err(Event::Claimed { session, asked: limit, answer });
    };
    // Until it is bound, a job has only its row's lease: long enough to be bound in, or all that its holder has.
    let claim = Claim {
        holder: to.worker.clone(),
        queues: queues.clone(),
        limit: limit as usize,
        lease: if to.is_leased() { api.config.verify_after } else { api.config.lease_default },
        bytes_max: CLAIM_BYTES_MAX,
        exclusive: to.is_fit(),
    };
    let granted = |answer: &Result<Vec<Claimed>, _>| leases(answer.as_deref().unwrap_or_default());
    match api.heed(api.store.claim(claim), granted).await {
        Ok(claimed) => {
            let first = to.number_starts(claimed.len() as u64);
            Ok(Taken { to, queues, asked: limit, claimed, first })
        }
        Err(error) => {
            warn!(%error, "cannot claim jobs");
            Err(Event::Claimed { session, asked: limit, answer: Err(error) })
        }
    }
}

/// Goes on with a claim that the store did not answer at once.
pub(crate) async fn claim(api: Arc<Api>, taking: impl Future<Output = Result<Taken, Event>>) {
    match taking.await {
        Ok(taken) => {
            let is_noted = note(&api, &taken).await;
            let event = deliver(Arc::clone(&api), taken, is_noted).await;
            api.tell(event).await;
        }
        Err(event) => api.tell(event).await,
    }
}

/// Has the registry note what is about to be sent. Of jobs that start as soon as they are received the answer is awaited: whether
/// each was noted.
async fn note(api: &Api, taken: &Taken) -> Vec<bool> {
    if !taken.is_to_be_noted() {
        return Vec::new();
    }
    let grant = taken.grant();
    if !grant.holds.iter().any(|hold| hold.job.is_volatile()) {
        api.tell_roll(grant.into()).await;
        return Vec::new();
    }
    let (reply, is_noted) = oneshot::channel();
    api.tell(Event::Roll(RollEvent::Grant { grant, reply })).await;
    // Without an answer the server is going away.
    is_noted.await.unwrap_or_else(|_| vec![false; taken.claimed.len()])
}

/// Sends jobs to the worker they were claimed for. The claim counts as under way until they are sent, so a worker that does not
/// read gets no more. What certainly was not sent is offered again at once: of jobs that start as soon as they are received also
/// those that the registry did not note. Answers what the heart must hear.
pub(crate) async fn deliver(api: Arc<Api>, taken: Taken, is_noted: Vec<bool>) -> Event {
    let Taken { to, queues, asked, claimed, first } = taken;
    let was_cut = claimed.iter().map(Claimed::bytes).sum::<usize>() >= CLAIM_BYTES_MAX;
    let more = if was_cut { queues } else { Vec::new() };
    let granted = Granted { jobs: claimed.len() as u32, leases: leases(&claimed), more };
    if !claimed.is_empty() {
        api.note_claimed(&claimed).await;
        let is_unnoted =
            |(job, is_noted): (&Claimed, bool)| (job.hold.job.is_volatile() && !is_noted).then_some(job.hold);
        let unnoted: Vec<Hold> = claimed.iter().zip(is_noted).filter_map(is_unnoted).collect();
        let holds: Vec<Hold> = claimed.iter().map(|job| job.hold).collect();
        let sent = (first..).zip(claimed).filter(|(_, job)| !unnoted.contains(&job.hold));
        let assignments = sent.map(|(start, job)| wire::Assignment {
            generation: api.generation,
            worker: to.worker.to_string(),
            start,
            ..convert::assignment(job)
        });
        let frame = wire::ServerFrame { assignments: assignments.collect(), ..Default::default() };
        let is_sent = api.faults.drops_assignments() || to.send(frame).await.is_ok();
        let unsent = if is_sent { unnoted } else { holds };
        if !unsent.is_empty() {
            api.hand_back(&to.worker, unsent).await;
        }
    }
    Event::Claimed { session: to.id, asked, answer: Ok(granted) }
}

/// Makes due jobs available.
pub(crate) async fn promote(api: Arc<Api>, limit: usize) {
    let pass = async {
        let promoted = api.store.promote(limit).await?;
        // Before dispatch hears of them, or watchers would find them running already.
        let watched = api.watched_ids(promoted.jobs.iter().copied(), &[State::Available]);
        api.announce(watched).await;
        Ok((promoted.jobs.len(), promoted.ready))
    };
    let answer = pass.await;
    api.tell(Event::Promoted { limit, answer }).await;
}

/// Removes what is past retention.
pub(crate) async fn purge(api: Arc<Api>, limit: usize) {
    let answer = api.store.purge(api.config.retention, limit).await;
    api.tell(Event::Purged { limit, answer }).await;
}

/// Gives holders back the time during which we did not listen.
pub(crate) async fn extend_leases(api: Arc<Api>, by: Duration) {
    let answer = match api.charge.registry() {
        Ok(registry) => api.store.extend_leases(registry, by).await,
        Err(error) => Err(error),
    };
    if answer.is_ok() {
        let stalled_ms = by.as_millis() as u64;
        warn!(stalled_ms, "this server or its store stood still; leases are extended and rescue pauses");
        api.metrics.stalls.inc();
        api.metrics.stalled_seconds.inc_by(by.as_secs_f64());
    }
    api.tell(Event::Extended { answer }).await;
}

/// Asks when the next duties are due.
pub(crate) async fn read_deadlines(api: Arc<Api>) {
    let answer = match api.charge.registry() {
        Ok(registry) => api.store.deadlines(registry).await,
        Err(error) => Err(error),
    };
    api.tell(Event::Deadlines { answer }).await;
}

#[cfg(test)]
mod tests {
    use model::{JobId, WorkerKey};
    use store::{EnqueueBatch, JobStore as _, MemoryStore};
    use tokio::sync::mpsc;

    use super::*;

    struct Scene {
        api: Arc<Api>,
        store: Arc<MemoryStore>,
        inbox: mpsc::Receiver<Event>,
        queue: QueueName,
        id: JobId,
    }

    fn open(
        api: &Api,
        queue: &QueueName,
        frames: crate::sessions::Outgoing,
    ) -> Arc<crate::sessions::Session> {
        let profile = lease::message::Profile { queues: vec![queue.clone()], ..Default::default() };
        let (key, nonce) = (WorkerKey::new("w").unwrap(), model::Nonce::new(1));
        api.sessions.open(key, nonce, profile, frames, lease::registry::Speaker::Worker).unwrap()
    }

    /// The next event that is not about the roll of workers.
    async fn heard(inbox: &mut mpsc::Receiver<Event>) -> Event {
        loop {
            match inbox.recv().await.expect("the heart is told") {
                Event::Roll(_) => {}
                event => return event,
            }
        }
    }

    /// A server with one available job, whose lease would run for an hour.
    async fn scene() -> Scene {
        let clock = Arc::new(clock::SystemClock);
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let (events, inbox) = mpsc::channel(64);
        let api = Arc::new(Api::new(crate::Node::new(store.clone(), clock), None, events));
        let (queue, id) = (QueueName::new("q").unwrap(), JobId::from_bytes([1; 16]));
        let job = model::NewJob::new(id, queue.clone(), model::Kind::new("k").unwrap(), Default::default());
        let job = model::NewJob { heartbeat_timeout: Some(Duration::from_secs(3600)), ..job };
        store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.unwrap();
        Scene { api, store, inbox, queue, id }
    }

    /// A worker that takes no frames: its claim is not answered, so dispatch gives it no other one; when it is given up,
    /// the job is offered again.
    #[tokio::test]
    async fn a_worker_that_does_not_read_keeps_its_claim_under_way() {
        let Scene { api, store, mut inbox, queue, id } = scene().await;
        let (frames, _unread) = mpsc::channel(1);
        frames.try_send(Ok(wire::ServerFrame::default())).unwrap();
        let session = open(&api, &queue, frames);
        let claiming =
            tokio::spawn(claim(Arc::clone(&api), take(Arc::clone(&api), session.id, vec![queue], 1)));
        while store.get(id).await.unwrap().unwrap().state != State::Running {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(inbox.try_recv().is_err(), "the claim must not be answered before its jobs are sent");
        session.close.cancel();
        claiming.await.unwrap();
        assert_eq!(store.get(id).await.unwrap().unwrap().state, State::Available);
        assert!(matches!(heard(&mut inbox).await, Event::Ready { .. }));
        assert!(matches!(heard(&mut inbox).await, Event::Claimed { .. }));
    }

    /// The stream is gone between the decision to claim and the answer of the store: the lease would bring the job back
    /// in an hour, the hand-back does it now.
    #[tokio::test]
    async fn jobs_that_could_not_be_sent_are_offered_again_at_once() {
        let Scene { api, store, mut inbox, queue, id } = scene().await;
        let (frames, outbox) = mpsc::channel(1);
        let session = open(&api, &queue, frames);
        drop(outbox);
        claim(Arc::clone(&api), take(Arc::clone(&api), session.id, vec![queue.clone()], 1)).await;

        let job = store.get(id).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt, job.lost), (State::Available, 0, 0));
        assert!(job.fence.get() > 0, "it was claimed");
        assert!(
            matches!(heard(&mut inbox).await, Event::Ready { queues } if queues == [queue]),
            "someone else may have it"
        );
        assert!(matches!(heard(&mut inbox).await, Event::Claimed { .. }));
    }

    /// A job that starts as soon as it is received is not sent to a worker that the registry has given up meanwhile: nobody would
    /// know that it runs there.
    #[tokio::test]
    async fn what_starts_at_once_is_sent_only_if_the_registry_knows_of_it() {
        for is_recorded in [true, false] {
            let clock = Arc::new(clock::SystemClock);
            let store = Arc::new(MemoryStore::volatile(clock.clone()));
            let (events, mut inbox) = mpsc::channel(64);
            let api = Arc::new(Api::new(crate::Node::new(store.clone(), clock.clone()), None, events));
            let (queue, id) = (
                QueueName::new("q").unwrap(),
                model::ClientId::new(model::WallTime::from_millis(1), 1).job(1),
            );
            let kind = model::Kind::new("k").unwrap();
            let job = model::NewJob::new(id, queue.clone(), kind, Default::default());
            store.enqueue(EnqueueBatch { request_id: None, jobs: vec![job] }).await.unwrap();
            let (frames, mut outbox) = mpsc::channel(4);
            let profile = lease::message::Profile {
                queues: vec![queue.clone()],
                stop_within: Some(Duration::from_secs(1)),
                ..Default::default()
            };
            let (key, nonce) = (WorkerKey::new("w").unwrap(), model::Nonce::new(1));
            let session =
                api.sessions.open(key, nonce, profile, frames, lease::registry::Speaker::Worker).unwrap();
            api.sessions.note_leased(&session, Duration::from_secs(20), false);
            let claiming =
                tokio::spawn(claim(Arc::clone(&api), take(Arc::clone(&api), session.id, vec![queue], 1)));
            let Some(Event::Roll(RollEvent::Grant { grant, reply })) = inbox.recv().await else {
                panic!("the registry is asked first");
            };
            assert!(outbox.try_recv().is_err(), "and nothing is sent before it has answered");
            reply.send(vec![is_recorded; grant.holds.len()]).unwrap();
            claiming.await.unwrap();
            let frame = outbox.recv().await.unwrap().unwrap();
            let state = store.get(id).await.unwrap().unwrap().state;
            let expected = if is_recorded { (1, State::Running) } else { (0, State::Available) };
            assert_eq!((frame.assignments.len(), state), expected);
        }
    }
}
