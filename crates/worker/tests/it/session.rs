//! The session: jobs in, reports out, and what handlers and observers see of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Outcome;
use rpc::wire;
use tokio::sync::mpsc;
use worker::{CheckpointError, Client, JobContext, JobError, StopReason, Summary, Worker, WorkerEvent};

use crate::support::{ScriptedServer, Stream, assignment, job_id, patiently};
use crate::worker::{Running, builder, echo, stoppable};

async fn report(stream: &mut Stream) -> wire::Report {
    stream.until(|frame| frame.reports.first().cloned()).await
}

async fn take_leave(stream: &mut Stream) -> bool {
    let all_stopped = stream.until(|frame| frame.leave.map(|leave| leave.all_stopped)).await;
    stream.send(wire::ServerFrame { left: true, ..Default::default() }).await;
    all_stopped
}

#[tokio::test]
async fn a_job_goes_through_and_its_slot_comes_back_with_the_report() {
    #[derive(serde::Deserialize)]
    struct Double {
        number: u64,
    }
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(
        builder(&server.url).name("test").handle("work", |_, job: Double| async move { Ok(job.number * 2) }),
    );
    let (hello, mut stream) = server.register().await;
    assert_eq!((hello.queues, hello.slots, hello.name.as_str()), (vec!["q".to_owned()], 4, "test"));
    assert_eq!(stream.next().await.credits, 4);
    stream
        .assign(wire::Assignment { payload: Bytes::from_static(b"{\"number\": 21}"), ..assignment(1, 7) })
        .await;
    let frame = stream.next().await;
    assert_eq!(frame.credits, 1);
    let report = &frame.reports[0];
    assert_eq!(
        (report.job.as_str(), report.fence, report.outcome.as_str()),
        (job_id(1).as_str(), 7, "completed")
    );
    assert_eq!(report.result, "42");
    stream.answer(report, "done").await;

    worker.drain.cancel();
    assert!(take_leave(&mut stream).await);
    assert_eq!(worker.end().await, Summary { completed: 1, ..Summary::default() });
}

#[tokio::test]
async fn handlers_outlive_the_stream_and_reports_are_sent_again() {
    let mut server = ScriptedServer::start().await;
    let gate = Arc::new(tokio::sync::Notify::new());
    let opened = Arc::clone(&gate);
    let mut worker =
        Running::start(builder(&server.url).handle_raw("work", move |ctx: JobContext, payload| {
            let opened = Arc::clone(&opened);
            async move {
                if ctx.attempt() == 2 {
                    opened.notified().await;
                }
                Ok(payload)
            }
        }));
    let (hello, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    stream.assign(wire::Assignment { attempt: 2, ..assignment(2, 7) }).await;
    assert_eq!(report(&mut stream).await.job, job_id(1));
    // The answer never comes.
    drop(stream);
    worker.event(|event| matches!(event, WorkerEvent::Disconnected { .. }).then_some(())).await;
    gate.notify_one();
    worker
        .event(|event| matches!(event, WorkerEvent::Finished { fence, .. } if fence.get() == 7).then_some(()))
        .await;

    let (again, mut stream) = server.welcome().await;
    assert_eq!(again.worker, hello.worker, "the same worker");
    let frame = stream.next().await;
    assert_eq!(
        frame.reports.iter().map(|report| report.job.clone()).collect::<Vec<_>>(),
        [job_id(1), job_id(2)]
    );
    stream.answer(&frame.reports[0], "already_done").await;
    stream.answer(&frame.reports[1], "done").await;
    assert_eq!(stream.next().await.credits, 4, "all slots are free");
    worker.drain.cancel();
    take_leave(&mut stream).await;
    assert_eq!(worker.end().await.unreported, 0);
}

#[tokio::test]
async fn a_goodbye_makes_the_worker_come_back() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(echo(&server.url));
    let (_, mut stream) = server.welcome().await;
    stream.send(wire::ServerFrame { goodbye: true, ..Default::default() }).await;
    let why = worker
        .event(|event| match event {
            WorkerEvent::Disconnected { why } => Some(why),
            _ => None,
        })
        .await;
    assert_eq!(why, "the server is going away");
    server.welcome().await;
    worker.shutdown.abort();
    worker.end().await;
}

#[tokio::test]
async fn a_cancelled_handler_is_told_and_reports() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let worker = Running::start(builder);
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let stop = wire::Stop { job: job_id(1), fence: 7, reason: "cancelled".into() };
    stream.send(wire::ServerFrame { stops: vec![stop], ..Default::default() }).await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::Cancelled));
    let report = report(&mut stream).await;
    assert_eq!((report.outcome.as_str(), report.error.as_str()), ("failed", "interrupted"));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_lost_handler_is_told_and_reports_nothing() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let mut worker = Running::start(builder);
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let stop = wire::Stop { job: job_id(1), fence: 7, reason: "lost".into() };
    stream.send(wire::ServerFrame { stops: vec![stop], ..Default::default() }).await;
    assert_eq!(patiently("the stop", told.recv()).await, Some(StopReason::Lost));
    worker.event(|event| matches!(event, WorkerEvent::Dropped { .. }).then_some(())).await;
    worker.drain.cancel();
    let frames_with_reports = stream
        .until({
            let mut count = 0;
            move |frame| {
                count += frame.reports.len();
                frame.leave.map(|_| count)
            }
        })
        .await;
    assert_eq!(frames_with_reports, 0);
    stream.send(wire::ServerFrame { left: true, ..Default::default() }).await;
    let summary = worker.end().await;
    assert_eq!(summary, Summary { lost: 1, ..Summary::default() });
}

#[tokio::test]
async fn a_refused_report_is_told_to_the_observer() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(echo(&server.url));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let report = report(&mut stream).await;
    stream.answer(&report, "stale").await;
    let fences = worker
        .event(|event| match event {
            WorkerEvent::Refused { fence, current_fence, .. } => Some((fence.get(), current_fence.get())),
            _ => None,
        })
        .await;
    assert_eq!(fences, (7, 8));
    worker.shutdown.abort();
    assert_eq!(worker.end().await.refused, 1);
}

#[tokio::test]
async fn an_attempt_that_ignores_its_time_limit_is_ended() {
    let mut server = ScriptedServer::start().await;
    let deaf = builder(&server.url)
        .kill_wait(Duration::from_millis(20))
        .handle_raw("work", |_, _| std::future::pending::<Result<Bytes, JobError>>());
    let worker = Running::start(deaf);
    let (_, mut stream) = server.register().await;
    stream.assign(wire::Assignment { timeout_ms: Some(30), ..assignment(1, 7) }).await;
    let report = report(&mut stream).await;
    assert_eq!(report.outcome, "failed");
    assert!(report.error.starts_with("timed out after 30ms"), "{}", report.error);
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_drain_hands_back_what_does_not_finish() {
    let mut server = ScriptedServer::start().await;
    let mixed = builder(&server.url)
        .grace(Duration::from_millis(300))
        .kill_wait(Duration::from_millis(100))
        .handle_raw("work", |_, _| std::future::pending::<Result<Bytes, JobError>>())
        .handle_raw("polite", |ctx: JobContext, payload| async move {
            ctx.cancelled().await;
            Ok(payload)
        });
    let mut worker = Running::start(mixed);
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    stream.assign(wire::Assignment { kind: "polite".into(), ..assignment(2, 7) }).await;
    for _ in 0..2 {
        worker.event(|event| matches!(event, WorkerEvent::Started { .. }).then_some(())).await;
    }
    worker.drain.cancel();
    for (job, outcome) in [(2, "completed"), (1, "handed_back")] {
        let report = report(&mut stream).await;
        assert_eq!((report.job.as_str(), report.outcome.as_str()), (job_id(job).as_str(), outcome));
        stream.answer(&report, "done").await;
    }
    assert!(take_leave(&mut stream).await, "all is stopped");
    let summary = worker.end().await;
    assert_eq!(summary, Summary { completed: 1, handed_back: 1, ..Summary::default() });
}

#[tokio::test]
async fn an_abort_ends_at_once() {
    let mut server = ScriptedServer::start().await;
    let mut worker = Running::start(
        builder(&server.url).handle_raw("work", |_, _| std::future::pending::<Result<Bytes, JobError>>()),
    );
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    worker.event(|event| matches!(event, WorkerEvent::Started { .. }).then_some(())).await;
    worker.drain.cancel();
    worker.shutdown.abort();
    let summary = worker.end().await;
    assert_eq!(summary, Summary { still_running: 1, ..Summary::default() });
}

#[tokio::test]
async fn a_worker_that_is_dropped_takes_its_handlers_with_it() {
    let mut server = ScriptedServer::start().await;
    // Dropped with the handler's future.
    let (alive, mut gone) = mpsc::channel::<()>(1);
    let forever = builder(&server.url).handle_raw("work", move |_, _| {
        let alive = alive.clone();
        async move {
            alive.closed().await;
            Ok(Bytes::new())
        }
    });
    let mut worker = Running::start(forever);
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    worker.event(|event| matches!(event, WorkerEvent::Started { .. }).then_some(())).await;
    worker.drop_it();
    assert_eq!(patiently("the end of the handler", gone.recv()).await, None);
}

#[tokio::test]
async fn checkpoints_are_confirmed_or_tell_of_the_loss() {
    let mut server = ScriptedServer::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let saving = builder(&server.url).handle_raw("work", move |ctx: JobContext, _| {
        let tell = tell.clone();
        async move {
            let first = ctx.save_checkpoint("page 1".into()).await;
            let second = ctx.save_checkpoint("page 2".into()).await;
            let _ = tell.send((ctx.checkpoint(), first, second, ctx.is_cancelled()));
            Ok(Bytes::new())
        }
    });
    let mut worker = Running::start(saving);
    let (hello, mut stream) = server.register().await;
    stream.assign(wire::Assignment { checkpoint: Some("page 0".into()), ..assignment(1, 7) }).await;
    for (page, accepted) in [("page 1", true), ("page 2", false)] {
        let call = server.progress().await;
        assert_eq!(call.request.worker, hello.worker);
        let note = &call.request.notes[0];
        assert_eq!((note.fence, note.checkpoint.as_deref()), (7, Some(page.as_bytes())));
        call.answer.send(accepted).unwrap();
    }
    let seen = patiently("the handler", told.recv()).await.unwrap();
    assert_eq!(seen, (Some("page 0".into()), Ok(()), Err(CheckpointError::Lost), true));
    worker.event(|event| matches!(event, WorkerEvent::Lost { .. }).then_some(())).await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn progress_goes_out_with_the_next_frame() {
    let mut server = ScriptedServer::start().await;
    let worker =
        Running::start(builder(&server.url).handle_raw("work", |ctx: JobContext, payload| async move {
            assert!(ctx.progress("x".repeat(5000)).is_err(), "too large");
            ctx.progress(1)?;
            ctx.progress(2)?;
            Ok(payload)
        }));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let note = stream.until(|frame| frame.progress.first().cloned()).await;
    assert_eq!((note.job, note.note.as_deref()), (job_id(1), Some(&b"2"[..])));
    worker.shutdown.abort();
}

#[tokio::test]
async fn failures_have_their_words() {
    let mut server = ScriptedServer::start().await;
    let failing = builder(&server.url)
        .handle("work", |_, _: serde_json::Value| async {
            Err::<(), _>(JobError::retry_after("later", Duration::from_secs(3)))
        })
        .handle_raw("poison", |_, _| async { Err(JobError::dead("never")) });
    let mut worker = Running::start(failing);
    let (_, mut stream) = server.register().await;
    for (kind, outcome, error, retry_after_ms) in [
        ("work", "failed", "later", Some(3000)),
        ("poison", "dead", "never", None),
        ("strange", "failed", "no handler for kind strange on this worker", None),
    ] {
        stream.assign(wire::Assignment { kind: kind.into(), ..assignment(1, 7) }).await;
        let report = report(&mut stream).await;
        assert_eq!((report.outcome.as_str(), report.error.as_str()), (outcome, error));
        assert_eq!(report.retry_after_ms, retry_after_ms);
        stream.answer(&report, "done").await;
        worker
            .event(|event| match event {
                WorkerEvent::Finished { outcome: Outcome::Failed { error, .. }, .. } => Some(error),
                _ => None,
            })
            .await;
    }
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_worker_moves_on_to_a_server_that_is_there() {
    let mut server = ScriptedServer::start().await;
    // Nobody listens on the port of a listener that was closed.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut worker = Running::start(echo(&format!("http://{closed},{}", server.url)));
    worker.event(|event| matches!(event, WorkerEvent::Unreachable { .. }).then_some(())).await;
    server.welcome().await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn an_unreachable_server_is_a_clear_sentence() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::connect(&format!("http://{closed}")).unwrap();
    let error = patiently("an error", client.stats()).await.unwrap_err().to_string();
    let sentence = format!(
        "cannot reach the tenure server at http://{closed}; is it running? start it with `tenure serve`"
    );
    assert!(error.starts_with(&sentence), "{error}");
}

#[tokio::test]
async fn nonsense_is_refused_before_anything_runs() {
    let fine = || echo("http://127.0.0.1:1");
    assert!(fine().build().is_ok());
    for (builder, complaint) in [
        (Worker::builder("http://127.0.0.1:1"), "name at least one queue"),
        (Worker::builder("http://127.0.0.1:1").queue("q"), "register at least one handler"),
        (fine().queue("a b"), "queue name must not contain ' '"),
        (fine().concurrency(0), "concurrency of 0 is out of range"),
        (fine().grace(Duration::from_secs(1)), "kill wait of 5s does not fit in the grace of 1s"),
        (fine().handle_raw("a/b", |_, payload| async { Ok(payload) }), "kind must not contain '/'"),
        (fine().lease(Duration::from_millis(10)), "lease of 10ms is out of range"),
        (fine().lease(Duration::from_secs(7200)), "lease of 7200s is too long for a worker"),
        (fine().heartbeat_timeout("work", Duration::ZERO), "heartbeat timeout of 0ns is out of range"),
        (
            fine().heartbeat_timeout("wrok", Duration::from_secs(9)),
            "kind wrok has a heartbeat timeout but no",
        ),
        (echo(""), "name at least one server"),
        (echo("ftp://x"), "use http://"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}
