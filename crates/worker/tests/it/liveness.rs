//! Leases and keys: what the worker does when answers fail, and which server it turns to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::SystemClock;
use model::{Clock, Instant, WallTime};
use rpc::wire;
use worker::{JobContext, JobError, KeyEnd, StopReason, WorkerBuilder, WorkerEvent};

use crate::support::{ScriptedServer, assignment, fresh_token, job_id, patiently};
use crate::worker::{Running, builder, echo, stoppable};

/// Short, so that tests which wait for its end are short; long enough for a machine that is busy.
const LEASE: Duration = Duration::from_secs(2);

fn bound(beat: &wire::Heartbeat) -> Vec<String> {
    beat.binds.iter().map(|bind| bind.job.clone()).collect()
}

fn started(event: WorkerEvent) -> Option<String> {
    match event {
        WorkerEvent::Started { job, .. } => Some(job.to_string()),
        _ => None,
    }
}

/// What is heard of the worker's key: its registration, or its successor.
fn key_news(event: WorkerEvent) -> Option<(String, Option<KeyEnd>)> {
    match event {
        WorkerEvent::Registered { key, lease } => {
            assert_eq!(lease, LEASE);
            Some((key.to_string(), None))
        }
        WorkerEvent::NewKey { key, why } => Some((key.to_string(), Some(why))),
        _ => None,
    }
}

#[tokio::test]
async fn the_first_heartbeat_says_who_we_are_and_comes_before_everything_else() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(echo(&server.url).lease(LEASE).name("test"));
    let (hello, mut stream) = server.welcome().await;
    let beat = stream.heartbeat().await;
    assert_eq!((&beat.worker, beat.nonce, beat.token.as_str()), (&hello.worker, hello.nonce, ""));
    assert_eq!((beat.lease_ms, beat.free_slots), (2000, 4));
    let profile = beat.profile.as_ref().expect("who we are");
    assert_eq!((profile.name.as_str(), profile.slots, &profile.queues), ("test", 4, &vec!["q".to_owned()]));
    // The next one comes an interval later, and still nothing else.
    let again = stream.heartbeat().await;
    assert_eq!((again.token.as_str(), again.profile.is_some()), ("", true));
    let token = stream.acknowledge(&again).await;
    assert_eq!(stream.next().await.credits, 4);
    assert_eq!(worker.event(key_news).await, (hello.worker, None));
    let next = stream.heartbeat().await;
    assert_eq!((next.token, next.profile), (token, None));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_short_lease_is_kept_up_by_heartbeats_and_over_without_answers() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let worker = Running::start(builder.lease(LEASE));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    for number in 0..8 {
        let beat = stream.heartbeat().await;
        assert_eq!(bound(&beat).len(), usize::from(number == 0), "told once, then known by the digest");
        assert_eq!(beat.digest_count, 1);
        stream.acknowledge(&beat).await;
    }
    assert!(told.try_recv().is_err(), "eight heartbeats are more than a lease");
    assert_eq!(patiently("the end of the lease", told.recv()).await, Some(StopReason::LeaseOver));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_dropped_answer_is_healed_by_the_mismatch() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let worker = Running::start(builder.lease(LEASE));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let dropped = stream.heartbeat().await;
    assert_eq!(bound(&dropped), [job_id(1)]);
    let repeated = stream.heartbeat().await;
    assert_eq!((&repeated.token, bound(&repeated)), (&dropped.token, vec![job_id(1)]));
    let token = fresh_token();
    let mismatch = wire::HeartbeatAnswer {
        number: repeated.number,
        answer: "token_mismatch".into(),
        token: token.clone(),
        held: true,
        ..Default::default()
    };
    stream.answer_heartbeat(mismatch).await;
    let healed = stream.heartbeat().await;
    assert_eq!((&healed.token, bound(&healed)), (&token, vec![job_id(1)]));
    stream.acknowledge(&healed).await;
    assert_eq!(bound(&stream.heartbeat().await), Vec::<String>::new());
    assert!(told.try_recv().is_err(), "nobody was stopped for it");
    worker.shutdown.abort();
}

#[tokio::test]
async fn an_inactive_worker_stops_everything_and_registers_under_a_new_key() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let mut worker = Running::start(builder.lease(LEASE));
    let (hello, mut stream) = server.register().await;
    assert_eq!(worker.event(key_news).await, (hello.worker.clone(), None));
    for number in [1, 2] {
        stream.assign(assignment(number, 7)).await;
        worker.event(started).await;
    }
    let beat = stream.heartbeat().await;
    let inactive = wire::HeartbeatAnswer {
        number: beat.number,
        answer: "worker_inactive".into(),
        why: "it was kicked".into(),
        ..Default::default()
    };
    stream.answer_heartbeat(inactive).await;
    for _ in 0..2 {
        assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::Lost));
    }
    let (again, mut stream) = server.welcome().await;
    assert_ne!(again.worker, hello.worker);
    assert_eq!(again.nonce, hello.nonce, "the same process");
    let beat = stream.heartbeat().await;
    assert_eq!((&beat.worker, beat.token.as_str()), (&again.worker, ""));
    // A server that hears of a key for the first time hears all that it holds.
    let nothing = Some(wire::FullSet::default());
    assert_eq!((&beat.former, &beat.full, beat.digest_count), (&None, &nothing, 0));
    assert_eq!(worker.event(key_news).await, (again.worker.clone(), Some(KeyEnd::Inactive)));
    stream.acknowledge(&beat).await;
    assert_eq!(worker.event(key_news).await, (again.worker, None));
    stream.assign(assignment(3, 7)).await;
    assert_eq!(worker.event(started).await, job_id(3));
    worker.shutdown.abort();
}

#[tokio::test]
async fn after_a_lapse_the_next_key_takes_over_and_what_was_completed_is_reported() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(builder(&server.url).lease(LEASE).handle_raw(
        "work",
        |ctx: JobContext, _| async move {
            ctx.cancelled().await;
            // Only a registered key can save anything.
            ctx.save_checkpoint("half".into()).await.map_err(|error| JobError::retry(error.to_string()))?;
            Ok(ctx.worker().to_string().into())
        },
    ));
    let (hello, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let beat = stream.heartbeat().await;
    stream.acknowledge(&beat).await;
    worker.event(|event| matches!(event, WorkerEvent::LeaseOver { .. }).then_some(())).await;
    let (next_key, why) = worker.event(key_news).await;
    assert_eq!(why, Some(KeyEnd::Lapsed));

    let (again, mut stream) = server.welcome().await;
    assert_eq!((&again.worker, again.nonce), (&next_key, hello.nonce));
    let beat = stream.heartbeat().await;
    let former = wire::Former { worker: hello.worker, nonce: hello.nonce };
    assert_eq!((&beat.worker, beat.former.as_ref()), (&next_key, Some(&former)));
    let full = beat.full.as_ref().expect("everything it holds");
    assert_eq!(full.holds, [wire::Hold { job: job_id(1), fence: 7 }]);
    assert!(!server.has_progress(), "the server would refuse it: the job is not this key's yet");
    stream.acknowledge(&beat).await;
    let call = server.progress().await;
    assert_eq!(call.request.worker, next_key);
    call.answer.send(true).expect("the handler waits");
    let report = stream.until(|frame| frame.reports.first().cloned()).await;
    assert_eq!((report.job, report.outcome.as_str()), (job_id(1), "completed"));
    assert_eq!(report.result, next_key);
    worker.shutdown.abort();
}

/// A clock that can be set forward, as it looks to a process that was stopped.
#[derive(Default)]
struct Skipping {
    skipped_ms: AtomicU64,
}

impl Clock for Skipping {
    fn monotonic(&self) -> Instant {
        SystemClock.monotonic() + Duration::from_millis(self.skipped_ms.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallTime {
        SystemClock.wall()
    }
}

#[tokio::test]
async fn a_worker_that_was_stopped_starts_nothing_that_waited_for_it() {
    let mut server = ScriptedServer::start().await;
    let clock = Arc::new(Skipping::default());
    let (builder, mut told) = stoppable(&server.url);
    let mut worker = Running::start(builder.clock(Arc::clone(&clock) as Arc<dyn Clock>));
    let (hello, mut stream) = server.welcome().await;
    stream.until(|frame| (frame.credits > 0).then_some(())).await;
    stream.assign(assignment(1, 7)).await;
    assert_eq!(worker.event(started).await, job_id(1));

    clock.skipped_ms.store(60_000, Ordering::SeqCst);
    stream.assign(assignment(2, 7)).await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::LeaseOver));
    let (again, mut stream) = server.welcome().await;
    assert_ne!(again.worker, hello.worker);
    stream.until(|frame| (frame.credits > 0).then_some(())).await;
    stream.assign(assignment(3, 7)).await;
    assert_eq!(worker.event(started).await, job_id(3), "the second one never started");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_frozen_server_is_left_before_the_lease_is_over() {
    let (mut frozen, mut other) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let servers = format!("{},{}", frozen.url, other.url);
    // It leaves its lease to the server, which grants less than it would have expected.
    let mut worker = Running::start(echo(&servers));
    let (hello, mut stream) = frozen.welcome().await;
    let beat = stream.heartbeat().await;
    assert_eq!(beat.lease_ms, 0);
    stream.grant(&beat, 5_000).await;
    assert_eq!(stream.next().await.credits, 4);
    frozen.freeze();
    // Its connection stays open, nothing breaks; only nothing comes any more.
    let (again, mut stream) = other.welcome().await;
    assert_eq!(again.worker, hello.worker, "the lease was not over yet");
    assert_eq!(stream.next().await.credits, 4);
    let why = worker
        .event(|event| match event {
            WorkerEvent::Disconnected { why } => Some(why),
            _ => None,
        })
        .await;
    assert_eq!(why, "the server does not answer any more");
    worker.shutdown.abort();
}

#[tokio::test]
async fn an_operator_can_drain_a_worker() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url));
    let (_, mut stream) = server.welcome().await;
    let beat = stream.heartbeat().await;
    let drain = wire::HeartbeatAnswer {
        number: beat.number,
        answer: "ok".into(),
        token: fresh_token(),
        lease_ms: 20_000,
        drain: true,
        ..Default::default()
    };
    stream.answer_heartbeat(drain).await;
    let all_stopped = stream.until(|frame| frame.leave.map(|leave| leave.all_stopped)).await;
    assert!(all_stopped);
    stream.send(wire::ServerFrame { left: true, ..Default::default() }).await;
    assert_eq!(worker.end().await.unreported, 0);
}

/// Handlers of kind "work" must give signs, as "restless" ones do; others must not.
fn watched(servers: &str) -> WorkerBuilder {
    builder(servers)
        .kill_wait(Duration::from_millis(100))
        .handle_raw("work", |_, _| std::future::pending())
        .heartbeat_timeout("work", Duration::from_millis(600))
        .handle_raw("restless", |ctx: JobContext, payload| async move {
            assert_eq!(ctx.heartbeat_timeout(), Some(Duration::from_secs(60)), "the job's own");
            ctx.heartbeat();
            ctx.cancelled().await;
            Ok(payload)
        })
}

#[tokio::test]
async fn handlers_that_must_give_signs_are_heard_or_ended() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(watched(&server.url));
    let (_, mut stream) = server.welcome().await;
    stream.until(|frame| (frame.credits > 0).then_some(())).await;
    let restless =
        wire::Assignment { kind: "restless".into(), heartbeat_timeout_ms: Some(60_000), ..assignment(1, 7) };
    stream.assign(restless).await;
    stream.assign(wire::Assignment { heartbeat_timeout_ms: Some(60_000), ..assignment(2, 7) }).await;
    let beats = stream.until(|frame| (!frame.beats.is_empty()).then(|| frame.beats.clone())).await;
    assert_eq!(beats, [wire::Hold { job: job_id(1), fence: 7 }]);
    let wedged = worker
        .event(|event| match event {
            WorkerEvent::Wedged { job, .. } => Some(job.to_string()),
            _ => None,
        })
        .await;
    assert_eq!(wedged, job_id(2), "the shorter of job's and kind's timeout counts");
    let report = stream.until(|frame| frame.reports.first().cloned()).await;
    assert_eq!((report.job, report.outcome.as_str()), (job_id(2), "failed"));
    assert!(report.error.starts_with("no sign of progress for 540ms"), "{}", report.error);
    worker.shutdown.abort();
}
