//! Workers of volatile queues: what they are told and echo, the healthcheck, starts at once, results that are kept.

use std::time::Duration;

use bytes::Bytes;
use model::{ClientId, WallTime};
use rpc::wire;
use rustix::process::{Pid, Signal, kill_process};
use worker::{JobContext, JobError, WorkerEvent};

use crate::fifo::{Fifo, shell};
use crate::support::{GENERATION, ScriptedServer, Stream, assignment, patiently};
use crate::worker::{Running, builder, echo, guardian, stoppable};

/// A set of workers, as this life of the server may tell it.
fn set(generation: u64, version: u64) -> wire::WorkerSet {
    wire::WorkerSet { generation, version, count: 1, sum: 5, xor: 5 }
}

async fn tell(stream: &mut Stream, set: wire::WorkerSet) {
    stream.send(wire::ServerFrame { worker_set: Some(set), ..Default::default() }).await;
}

async fn check(stream: &mut Stream, number: u64) {
    stream.send(wire::ServerFrame { check: number, check_lease_ms: 20_000, ..Default::default() }).await;
}

async fn checked(stream: &mut Stream) -> u64 {
    stream.until(|frame| (frame.checked != 0).then_some(frame.checked)).await
}

/// The next stream, of a worker that may be given volatile jobs from now on.
async fn muster(server: &mut ScriptedServer) -> Stream {
    let (_, mut stream) = server.register().await;
    check(&mut stream, 1).await;
    checked(&mut stream).await;
    stream
}

async fn report(stream: &mut Stream) -> wire::Report {
    stream.until(|frame| frame.reports.first().cloned()).await
}

/// The id of a volatile job whose client comes back.
fn volatile_id(sequence: u64) -> String {
    ClientId::new(WallTime::from_millis(1_760_000_000_000), 1).job(sequence).to_string()
}

/// A job of a volatile queue.
fn volatile(sequence: u64, fence: i64) -> wire::Assignment {
    wire::Assignment { job: volatile_id(sequence), exclusive: true, at_once: true, ..assignment(0, fence) }
}

#[tokio::test]
async fn a_worker_says_where_it_sits_and_since_when() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url).seat("rack3-gpu0"));
    let (hello, _stream) = server.welcome().await;
    assert_eq!(hello.seat, "rack3-gpu0");
    assert_eq!(hello.host, rustix::system::uname().nodename().to_string_lossy());
    assert!(hello.started_us > 1_700_000_000_000_000, "{}", hello.started_us);
    worker.shutdown.abort();
    let error = echo(&server.url).seat("a b").build().unwrap_err().to_string();
    assert!(error.contains("seat"), "{error}");
}

#[tokio::test]
async fn a_set_that_is_told_is_echoed_at_once_and_in_every_heartbeat() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url));
    let (_, mut stream) = server.register().await;
    tell(&mut stream, set(GENERATION, 3)).await;
    assert_eq!(stream.until(|frame| frame.worker_set).await, set(GENERATION, 3));
    // Neither of another server nor older than what is known.
    tell(&mut stream, set(GENERATION + 1, 9)).await;
    tell(&mut stream, set(GENERATION, 2)).await;
    tell(&mut stream, set(GENERATION, 4)).await;
    assert_eq!(stream.until(|frame| frame.worker_set).await, set(GENERATION, 4));
    assert_eq!(stream.heartbeat().await.worker_set, Some(set(GENERATION, 4)));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_set_told_in_the_answer_to_a_heartbeat_is_in_the_next_one() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url).lease(Duration::from_secs(2)));
    let (_, mut stream) = server.register().await;
    let beat = stream.heartbeat().await;
    assert_eq!(beat.worker_set, None, "a new key starts with none");
    stream
        .answer_heartbeat(wire::HeartbeatAnswer {
            number: beat.number,
            answer: "ok".into(),
            token: crate::support::fresh_token(),
            lease_ms: 2_000,
            exclusive_hold: true,
            worker_set: Some(set(GENERATION, 1)),
            ..Default::default()
        })
        .await;
    assert_eq!(stream.heartbeat().await.worker_set, Some(set(GENERATION, 1)));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_healthcheck_is_answered_while_all_slots_are_busy_and_while_draining() {
    let mut server = ScriptedServer::start().await;
    // No heartbeat that it could travel with comes for minutes.
    let busy = builder(&server.url)
        .concurrency(1)
        .lease(Duration::from_secs(3600))
        .handle_raw("work", |_, _| std::future::pending::<Result<Bytes, JobError>>());
    let mut worker = Running::start(busy);
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    worker.event(|event| matches!(event, WorkerEvent::Started { .. }).then_some(())).await;
    check(&mut stream, 41).await;
    assert_eq!(checked(&mut stream).await, 41);
    worker.drain.cancel();
    worker.event(|event| matches!(event, WorkerEvent::Draining).then_some(())).await;
    check(&mut stream, 42).await;
    assert_eq!(checked(&mut stream).await, 42);
    worker.shutdown.abort();
    assert_eq!(worker.end().await.still_running, 1, "only the job counts as running");
}

#[tokio::test]
async fn a_healthcheck_goes_through_the_guardian_where_jobs_are_processes() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let guardian = guardian();
    let process = Pid::from_raw(guardian.pid().cast_signed()).expect("it has a number");
    let runner = fifo.shell("echo ready >&3; sleep 100");
    let worker = Running::start(builder(&server.url).concurrency(1).exec("work", runner).guardian(guardian));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let (_, _reader) = fifo.first_line().await;
    check(&mut stream, 1).await;
    assert_eq!(checked(&mut stream).await, 1, "while its only slot is busy");

    kill_process(process, Signal::STOP).expect("it runs");
    let _goes_on = GoesOn(process);
    check(&mut stream, 2).await;
    // The worker itself is well, and says so.
    tell(&mut stream, set(GENERATION, 1)).await;
    let unanswered = stream.until(|frame| frame.worker_set.map(|_| frame.checked)).await;
    let beat = stream.heartbeat().await;
    stream.acknowledge(&beat).await;
    assert_eq!(unanswered, 0, "its guardian stands still");
    kill_process(process, Signal::CONT).expect("it is there");
    assert_eq!(checked(&mut stream).await, 2);
    worker.shutdown.abort();
}

/// Lets a process go on that a failing test would leave behind, frozen.
struct GoesOn(Pid);

impl Drop for GoesOn {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[tokio::test]
async fn a_healthcheck_of_a_stream_that_is_gone_is_not_answered_on_the_next_one() {
    let mut server = ScriptedServer::start().await;
    let guardian = guardian();
    let process = Pid::from_raw(guardian.pid().cast_signed()).expect("it has a number");
    let mut worker = Running::start(builder(&server.url).exec("work", shell("cat")).guardian(guardian));
    let (_, mut stream) = server.register().await;
    kill_process(process, Signal::STOP).expect("it runs");
    let _goes_on = GoesOn(process);
    check(&mut stream, 1).await;
    // The check was read when what was said after it is answered.
    tell(&mut stream, set(GENERATION, 1)).await;
    stream.until(|frame| frame.worker_set).await;
    drop(stream);
    worker.event(|event| matches!(event, WorkerEvent::Disconnected { .. }).then_some(())).await;
    let (_, mut stream) = server.welcome().await;
    check(&mut stream, 9).await;
    kill_process(process, Signal::CONT).expect("it is there");
    assert_eq!(checked(&mut stream).await, 9);
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_volatile_job_starts_at_once_and_is_exclusive_all_the_same() {
    let mut server = ScriptedServer::start().await;
    let checking = builder(&server.url)
        .handle_raw("work", |ctx: JobContext, _| async move { Ok(ctx.is_exclusive().to_string().into()) });
    let worker = Running::start(checking.guardian(guardian()).exclusive(true));
    let mut stream = muster(&mut server).await;
    stream.assign(volatile(1, 7)).await;
    // No bind is acknowledged.
    let report = report(&mut stream).await;
    assert_eq!((report.job, report.result), (volatile_id(1), "true".into()));
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_volatile_job_goes_back_unless_a_healthcheck_has_run_here() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url).guardian(guardian()).exclusive(true));
    let (_, mut stream) = server.register().await;
    stream.assign(volatile(1, 7)).await;
    assert_eq!(report(&mut stream).await.outcome, "handed_back");
    check(&mut stream, 1).await;
    checked(&mut stream).await;
    stream.assign(volatile(1, 8)).await;
    assert_eq!(report(&mut stream).await.outcome, "completed");
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_volatile_job_is_stopped_like_any_other() {
    let mut server = ScriptedServer::start().await;
    let (builder, mut told) = stoppable(&server.url);
    let worker = Running::start(builder.guardian(guardian()).exclusive(true));
    let mut stream = muster(&mut server).await;
    stream.assign(volatile(1, 7)).await;
    let stop = wire::Stop { job: volatile_id(1), fence: 7, reason: "cancelled".into() };
    stream.send(wire::ServerFrame { stops: vec![stop], ..Default::default() }).await;
    patiently("the stop", told.recv()).await.expect("it runs");
    assert_eq!(report(&mut stream).await.outcome, "failed");
    worker.shutdown.abort();
}

#[tokio::test]
async fn results_are_told_to_the_next_life_of_the_server_unless_their_clients_know_them() {
    let mut server = ScriptedServer::start().await;
    let worker = Running::start(echo(&server.url).guardian(guardian()).exclusive(true));
    let mut stream = muster(&mut server).await;
    for sequence in [1, 2] {
        stream
            .assign(wire::Assignment { payload: format!("{sequence}").into(), ..volatile(sequence, 7) })
            .await;
        let report = report(&mut stream).await;
        stream.answer(&report, "done").await;
    }
    let known = wire::Hold { job: volatile_id(1), fence: 7 };
    stream.send(wire::ServerFrame { forget: vec![known], ..Default::default() }).await;
    // It was read when what was said after it is answered.
    check(&mut stream, 2).await;
    checked(&mut stream).await;
    drop(stream);

    let (_, mut stream) = server.welcome_as(GENERATION + 1).await;
    let told = stream.until(|frame| (!frame.reports.is_empty()).then(|| frame.reports.clone())).await;
    let told: Vec<_> = told.iter().map(|report| (report.job.clone(), report.result.clone())).collect();
    assert_eq!(told, [(volatile_id(2), Bytes::from_static(b"2"))]);
    worker.shutdown.abort();
}
