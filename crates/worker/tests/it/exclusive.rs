//! Exclusive jobs: started late, stopped early, reported last.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rpc::wire;
use tokio::sync::mpsc;
use worker::guardian::{Conditions, Guardian, Isolation};
use worker::{JobContext, JobError, StopReason, WorkerBuilder, WorkerEvent};

use crate::fifo::{Fifo, all_gone};
use crate::support::{ScriptedServer, Stream, assignment, exclusive, job_id, patiently};
use crate::worker::{Running, builder, echo, guardian, stoppable};

/// The shortest that fits the kill wait and the safety of [`swift`], with some room.
const LEASE: Duration = Duration::from_secs(2);
const KILL_WAIT: Duration = Duration::from_millis(300);
const SAFETY: Duration = Duration::from_millis(400);

/// A worker that is fit for exclusive jobs with a short lease.
fn swift(builder: WorkerBuilder) -> WorkerBuilder {
    builder.lease(LEASE).kill_wait(KILL_WAIT).safety(SAFETY).guardian(guardian()).exclusive(true)
}

/// Waits for early binds.
async fn binds(stream: &mut Stream) -> Vec<wire::Change> {
    stream.until(|frame| (!frame.binds.is_empty()).then(|| frame.binds.clone())).await
}

/// Waits for the bind of the job that was assigned last, and lets it start.
async fn let_start(stream: &mut Stream) {
    let binds = binds(stream).await;
    stream.bind(&binds).await;
}

async fn report(stream: &mut Stream) -> wire::Report {
    stream.until(|frame| frame.reports.first().cloned()).await
}

fn is_start(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Started { .. })
}

async fn started(worker: &mut Running) {
    worker.event(|event| is_start(&event).then_some(())).await;
}

#[tokio::test]
async fn an_exclusive_job_starts_only_when_its_bind_stands() {
    let mut server = ScriptedServer::start().await;
    let checking = builder(&server.url)
        .handle_raw("work", |ctx: JobContext, _| async move { Ok(ctx.is_exclusive().to_string().into()) });
    let mut worker = Running::start(swift(checking));
    let (hello, mut stream) = server.register().await;
    assert_eq!(hello.stop_within_ms, Some(700));
    stream.assign(exclusive(1, 7)).await;
    let early = binds(&mut stream).await;
    assert_eq!((early.len(), &early[0].job, early[0].fence), (1, &job_id(1), 7));
    // A heartbeat that is taken with the bind in it says nothing: the server may not have looked at the job's row yet.
    let beat = stream.heartbeat().await;
    assert_eq!(beat.digest_count, 1);
    stream.acknowledge(&beat).await;
    stream.heartbeat().await;
    assert!(!worker.events_so_far().iter().any(is_start), "not bound yet");
    stream.bind(&early).await;
    started(&mut worker).await;
    assert_eq!(report(&mut stream).await.result, "true");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_bind_whose_answer_was_lost_is_sent_again() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(swift(echo(&server.url)));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let first = binds(&mut stream).await;
    assert_eq!(binds(&mut stream).await, first, "again on the same stream");
    drop(stream);
    let (_, mut stream) = server.welcome().await;
    let again = binds(&mut stream).await;
    assert_eq!(again, first, "and on the next one");
    assert!(!worker.events_so_far().iter().any(is_start), "not bound yet");
    stream.bind(&again).await;
    started(&mut worker).await;
    assert_eq!(report(&mut stream).await.outcome, "completed");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_job_that_is_stopped_before_its_start_never_starts() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(swift(echo(&server.url)));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let early = binds(&mut stream).await;
    stream.stop(1, 7, "cancelled").await;
    let given_back = report(&mut stream).await;
    assert_eq!((given_back.job.clone(), given_back.outcome.as_str()), (job_id(1), "handed_back"));
    stream.bind(&early).await;
    stream.answer(&given_back, "done").await;
    stream.assign(exclusive(2, 7)).await;
    let_start(&mut stream).await;
    let job = worker
        .event(|event| match event {
            WorkerEvent::Started { job, .. } => Some(job.to_string()),
            _ => None,
        })
        .await;
    assert_eq!(job, job_id(2), "the first one never started");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_kicked_worker_says_farewell_when_its_last_job_has_ended() {
    let mut server = ScriptedServer::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (release, released) = tokio::sync::watch::channel(false);
    let slow = builder(&server.url).handle_raw("work", move |ctx: JobContext, payload| {
        let (tell, mut released) = (tell.clone(), released.clone());
        async move {
            ctx.cancelled().await;
            let _ = tell.send(ctx.stop_reason());
            let _ = released.wait_for(|released| *released).await;
            Ok(payload)
        }
    });
    // Its jobs may take their time.
    let mut worker = Running::start(slow.guardian(guardian()).exclusive(true));
    let (hello, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    let beat = stream.heartbeat().await;
    let inactive = wire::HeartbeatAnswer {
        number: beat.number,
        answer: "worker_inactive".into(),
        why: "it was kicked".into(),
        ..Default::default()
    };
    stream.answer_heartbeat(inactive).await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(Some(StopReason::Lost)));
    let (again, mut stream) = server.register().await;
    assert_ne!(again.worker, hello.worker);
    stream.until(|frame| (frame.credits > 0).then_some(())).await;
    assert!(!server.has_leave(), "the job still runs");
    release.send(true).expect("the handler waits");
    let leave = server.leave().await;
    assert_eq!((leave.worker, leave.nonce), (hello.worker, hello.nonce));
    assert!(leave.all_stopped && !leave.crashed);
    worker.shutdown.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_cannot_be_ended_dooms_the_process() {
    let mut server = ScriptedServer::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let deaf = builder(&server.url).handle_raw("work", move |_, payload| {
        let released = Arc::clone(&released);
        async move {
            // Blocks its thread until the test is over, so aborting the task does not end it.
            let _ = released.lock().expect("nobody panics").recv();
            Ok(payload)
        }
    });
    let mut worker = Running::start(swift(deaf).on_doom(move |job| drop(tell.send(job.to_string()))));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    assert!(told.is_empty());
    let stopped_at = Instant::now();
    stream.stop(1, 7, "cancelled").await;
    let doomed = patiently("the end of everything", async {
        loop {
            // The lease goes on meanwhile: it is the cancel that must be obeyed.
            tokio::select! {
                job = told.recv() => break job,
                _ = stream.next() => {}
            }
        }
    })
    .await;
    assert_eq!(doomed, Some(job_id(1)));
    let took = stopped_at.elapsed();
    assert!(took >= KILL_WAIT + SAFETY / 2, "{took:?}: it must be given its time");
    drop(release);
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_handler_whose_work_may_go_on_elsewhere_is_not_taken_for_stopped() {
    let mut server = ScriptedServer::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    // To end its task would end the waiting, and not what it waits for: a thread, another task.
    let waiting =
        builder(&server.url).handle_raw("work", |_, _| std::future::pending::<Result<Bytes, JobError>>());
    let mut worker = Running::start(swift(waiting).on_doom(move |job| drop(tell.send(job.to_string()))));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    stream.stop(1, 7, "cancelled").await;
    let doomed = patiently("the end of everything", async {
        loop {
            tokio::select! {
                job = told.recv() => break job,
                frame = stream.next() => assert!(frame.reports.is_empty(), "{frame:?}"),
            }
        }
    })
    .await;
    assert_eq!(doomed, Some(job_id(1)));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_handler_is_told_to_stop_in_time_when_the_server_falls_silent() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let mut worker = Running::start(swift(builder));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    let beat = stream.heartbeat().await;
    let heard_at = Instant::now();
    stream.acknowledge(&beat).await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::LeaseOver));
    let took = heard_at.elapsed();
    assert!(took < LEASE - SAFETY, "{took:?}: the lease of {LEASE:?} must leave time to kill it");
    assert!(took > LEASE - KILL_WAIT - SAFETY - LEASE / 10, "{took:?}: not before it is necessary");
    worker.shutdown.abort();
}

/// Renews the lease, but not for exclusive jobs, until something is found in a frame.
async fn withhold_until<T>(stream: &mut Stream, mut find: impl FnMut(&wire::WorkerFrame) -> Option<T>) -> T {
    patiently("a frame with what is asked for", async {
        loop {
            let frame = stream.read().await;
            if let Some(beat) = &frame.heartbeat {
                stream.withhold(beat).await;
            }
            if let Some(found) = find(&frame) {
                return found;
            }
        }
    })
    .await
}

#[tokio::test]
async fn when_nobody_vouches_for_exclusive_jobs_they_stop_in_time_and_others_go_on() {
    let mut server = ScriptedServer::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let both = builder(&server.url).handle_raw("work", move |ctx: JobContext, _| {
        let tell = tell.clone();
        async move {
            ctx.cancelled().await;
            let _ = tell.send((ctx.is_exclusive(), Instant::now()));
            Err(JobError::retry("interrupted"))
        }
    });
    let mut worker = Running::start(swift(both));
    let (hello, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    stream.assign(assignment(2, 7)).await;
    for _ in 0..2 {
        started(&mut worker).await;
    }
    let beat = stream.heartbeat().await;
    let vouched_at = Instant::now();
    stream.acknowledge(&beat).await;
    let given_back = withhold_until(&mut stream, |frame| frame.reports.first().cloned()).await;
    assert_eq!((&given_back.job, given_back.fence), (&job_id(1), 7));
    assert_eq!(given_back.outcome, "handed_back");
    stream.answer(&given_back, "done").await;
    let (is_exclusive, stopped_at) = told.recv().await.expect("it told");
    let took = stopped_at.duration_since(vouched_at);
    assert!(is_exclusive && took < LEASE - SAFETY, "{took:?}: it must be gone after {LEASE:?}");
    assert!(took > LEASE - KILL_WAIT - SAFETY - LEASE / 10, "{took:?}: not before it is necessary");

    // Now the lease that they shared is over.
    while vouched_at.elapsed() < LEASE * 3 / 2 {
        withhold_until(&mut stream, |frame| frame.heartbeat.clone()).await;
    }
    stream.assign(exclusive(3, 7)).await;
    let given_back = withhold_until(&mut stream, |frame| frame.reports.first().cloned()).await;
    assert_eq!((&given_back.job, given_back.outcome.as_str()), (&job_id(3), "handed_back"));
    assert!(told.try_recv().is_err(), "the ordinary job runs on");

    let beat = stream.heartbeat().await;
    assert_eq!(
        (&beat.worker, beat.nonce),
        (&hello.worker, hello.nonce),
        "under the key it has had all the time"
    );
    stream.acknowledge(&beat).await;
    assert!(!worker.events_so_far().iter().any(is_start));
    stream.assign(exclusive(4, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_job_that_the_server_finds_silent_is_stopped_and_reported() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let mut worker = Running::start(swift(builder));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    stream.stop(1, 7, "silent").await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::Wedged));
    assert_eq!(report(&mut stream).await.outcome, "failed");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_deaf_command_is_gone_before_the_lease_is_over() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell("trap '' TERM; echo ready >&3; while :; do sleep 0.01; done");
    let mut worker = Running::start(swift(builder(&server.url).exec("work", runner)));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    let (_, reader) = fifo.first_line().await;
    // It runs for longer than the first lease that was granted.
    let start = Instant::now();
    while start.elapsed() < LEASE * 3 / 2 {
        let beat = stream.heartbeat().await;
        stream.acknowledge(&beat).await;
    }
    assert_eq!(worker.events_so_far(), [], "it has neither ended nor been stopped");
    let beat = stream.heartbeat().await;
    let heard_at = Instant::now();
    stream.acknowledge(&beat).await;
    all_gone(reader).await;
    let took = heard_at.elapsed();
    assert!(took < LEASE, "{took:?}: someone else may run it after {LEASE:?}");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_lease_that_turns_out_too_short_is_told_and_its_jobs_go_back() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(echo(&server.url).guardian(guardian()).exclusive(true));
    let (hello, mut stream) = server.welcome().await;
    assert_eq!(hello.stop_within_ms, Some(6_000));
    let beat = stream.heartbeat().await;
    stream.grant(&beat, 5_000).await;
    let unfit = worker
        .event(|event| match event {
            WorkerEvent::ExclusiveUnfit { lease, needed } => Some((lease.as_secs(), needed.as_secs())),
            _ => None,
        })
        .await;
    assert_eq!(unfit, (5, 15));
    stream.assign(exclusive(1, 7)).await;
    assert_eq!(report(&mut stream).await.outcome, "handed_back");
    assert!(!worker.events_so_far().iter().any(is_start));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_worker_offers_itself_only_if_it_is_fit() {
    let url = "http://127.0.0.1:1";
    let guarded = |builder: WorkerBuilder| builder.guardian(guardian());
    for (builder, is_fit) in [
        (echo(url), false),
        (guarded(echo(url)), true),
        (guarded(echo(url)).lease(Duration::from_secs(14)), false),
        (guarded(echo(url)).lease(Duration::from_secs(15)), true),
    ] {
        assert_eq!(builder.build().expect("it is a worker").is_exclusive(), is_fit);
    }
}

#[tokio::test]
async fn a_worker_that_must_be_fit_and_is_not_is_refused_with_words() {
    let url = "http://127.0.0.1:1";
    let fine = || echo(url).guardian(guardian()).exclusive(true);
    assert!(fine().build().is_ok());
    let shell = || crate::fifo::shell("true");
    for (builder, complaint) in [
        (builder(url).exec("work", shell()), "commands are run by a guardian, and this worker has none"),
        (echo(url).exclusive(true), "exclusive queues need a guardian, and this worker has none; call"),
        (
            fine().lease(Duration::from_secs(10)),
            "kill wait of 5s and safety of 1s take 12s; choose a lease of",
        ),
        (fine().safety(Duration::ZERO), "safety of 0ns leaves no time"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[tokio::test]
async fn a_guardian_that_cannot_end_this_process_guards_no_exclusive_handlers_inside_it() {
    let url = "http://127.0.0.1:1";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_worker-guardian"));
    let start = || Guardian::start_program(program, &Conditions::isolated(Isolation::Namespace));
    if start().is_err() {
        // Where namespaces are not allowed, every guardian can end its worker.
        return assert!(guardian().can_kill_worker());
    }
    let with = |builder: WorkerBuilder| builder.guardian(start().expect("it is allowed"));
    assert!(!with(echo(url)).build().expect("it serves ordinary queues").is_exclusive());
    let refused = with(echo(url)).exclusive(true).build().unwrap_err().to_string();
    assert!(refused.starts_with("a guardian in a PID namespace cannot end this process"), "{refused}");
    let commands = with(builder(url).exec("work", crate::fifo::shell("true"))).exclusive(true);
    assert!(commands.build().expect("commands are fine").is_exclusive());
}

#[tokio::test]
async fn a_guardian_serves_one_worker() {
    let (url, guardian) = ("http://127.0.0.1:1", guardian());
    let _first = echo(url).guardian(guardian.clone()).build().expect("it is free");
    let refused = echo(url).guardian(guardian).build().unwrap_err().to_string();
    assert_eq!(refused, "this guardian serves another worker; start one for each");
}

#[tokio::test]
async fn a_drain_ends_exclusive_jobs_and_hands_them_back() {
    let mut server = ScriptedServer::start().await;
    let (builder, _told) = stoppable(&server.url);
    let mut worker = Running::start(swift(builder.grace(Duration::from_millis(500))));
    let (_, mut stream) = server.register().await;
    stream.assign(exclusive(1, 7)).await;
    let_start(&mut stream).await;
    started(&mut worker).await;
    worker.drain.cancel();
    let given_back = report(&mut stream).await;
    assert_eq!(given_back.outcome, "handed_back");
    stream.answer(&given_back, "done").await;
    assert!(stream.until(|frame| frame.leave.map(|leave| leave.all_stopped)).await);
    worker.shutdown.abort();
}
