//! Worker and guardian: whoever of the two comes to a bad end, nothing goes on unguarded.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use worker::WorkerEvent;
use worker::guardian::Guardian;

use crate::fifo::{Fifo, all_gone};
use crate::support::{ScriptedServer, Stream, assignment, exclusive, patiently};
use crate::worker::{Running, builder, guardian};

#[tokio::test]
async fn a_worker_whose_guardian_is_gone_ends_and_says_that_what_ran_is_lost() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell("trap '' TERM; (trap '' TERM; echo ready >&3; sleep 100) & wait");
    let guardian = guardian();
    let guardian_pid = pid(guardian.pid());
    let mut worker = Running::start(builder(&server.url).exec("work", runner).guardian(guardian));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let (_, reader) = fifo.first_line().await;
    kill_process(guardian_pid, Signal::KILL).expect("it runs");
    worker.event(|event| matches!(event, WorkerEvent::GuardianLost).then_some(())).await;
    all_gone(reader).await;
    let is_crash = |frame: &rpc::wire::WorkerFrame| {
        assert!(frame.reports.is_empty(), "it may be what killed the guardian: {:?}", frame.reports);
        frame.leave.map(|leave| leave.all_stopped && leave.crashed)
    };
    assert!(stream.until(is_crash).await, "all is stopped, and not because we wanted it");
    stream.send(rpc::wire::ServerFrame { left: true, ..Default::default() }).await;
    let summary = worker.end().await;
    assert!(summary.guardian_lost);
    assert_eq!((summary.lost, summary.handed_back, summary.still_running), (1, 0, 0));
}

/// It came when the guardian was dead: it did not run, so it counts as nothing.
#[tokio::test]
async fn what_comes_when_the_guardian_is_gone_is_handed_back() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let guardian = guardian();
    let guardian_pid = pid(guardian.pid());
    let runner = fifo.shell("echo ready >&3; sleep 100");
    let mut worker = Running::start(builder(&server.url).exec("work", runner).guardian(guardian));
    let (_, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let (_, reader) = fifo.first_line().await;
    kill_process(guardian_pid, Signal::KILL).expect("it runs");
    worker.event(|event| matches!(event, WorkerEvent::GuardianLost).then_some(())).await;
    all_gone(reader).await;
    stream.assign(assignment(2, 8)).await;
    let report = stream.until(|frame| frame.reports.first().cloned()).await;
    assert_eq!((report.fence, report.outcome.as_str()), (8, "handed_back"));
    stream.answer(&report, "done").await;
    stream.send(rpc::wire::ServerFrame { left: true, ..Default::default() }).await;
    let summary = worker.end().await;
    assert_eq!((summary.lost, summary.handed_back, summary.still_running), (1, 0, 0));
}

#[tokio::test]
async fn a_frozen_guardian_is_ended_in_time_and_its_families_with_it() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell("trap '' TERM; (trap '' TERM; echo ready >&3; sleep 100) & wait");
    let guardian = guardian();
    let guardian_pid = pid(guardian.pid());
    let _last_resort = KillOnDrop(guardian.clone());
    let lease = Duration::from_secs(3);
    let doomed = Arc::new(AtomicBool::new(false));
    let is_doomed = Arc::clone(&doomed);
    let swift = builder(&server.url)
        .exec("work", runner)
        .lease(lease)
        .kill_wait(Duration::from_millis(200))
        .safety(Duration::from_secs(1))
        .guardian(guardian)
        .on_doom(move |_| is_doomed.store(true, Ordering::SeqCst));
    let mut worker = Running::start(swift);
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 2).await;
    let (_, reader) = fifo.first_line().await;
    kill_process(guardian_pid, Signal::STOP).expect("it runs");
    let beat = stream.heartbeat().await;
    let heard_at = Instant::now();
    stream.acknowledge(&beat).await;
    all_gone(reader).await;
    assert!(heard_at.elapsed() < lease, "{:?}: someone else may run it by now", heard_at.elapsed());
    worker.event(|event| matches!(event, WorkerEvent::GuardianLost).then_some(())).await;
    assert!(worker.end().await.guardian_lost);
    assert!(!doomed.load(Ordering::SeqCst), "the job was gone, there was no need to end this process");
}

/// Ends a guardian that a failing test would leave behind, frozen.
struct KillOnDrop(Guardian);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

async fn take_leave(stream: &mut Stream) {
    assert!(
        stream.until(|frame| frame.leave.map(|leave| leave.all_stopped)).await,
        "all is known to be stopped"
    );
    stream.send(rpc::wire::ServerFrame { left: true, ..Default::default() }).await;
}

/// A worker in a process of its own; see `worker-guardian`.
struct Other {
    process: Child,
    /// Drains when this is closed, and waiting for a child would close it.
    stdin: Option<ChildStdin>,
    /// Becomes readable when its guardian ends.
    guardian: std::os::fd::OwnedFd,
}

impl Other {
    async fn start(server: &ScriptedServer, mode: &[&str]) -> Other {
        let mut process = Command::new(env!("CARGO_BIN_EXE_worker-guardian"))
            .arg(&server.url)
            .args(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it can be started");
        let mut lines = BufReader::new(process.stdout.take().expect("it is a pipe")).lines();
        let line = patiently("the guardian's number", lines.next_line()).await.expect("it can be read");
        let stdin = process.stdin.take();
        let guardian = pid(line.expect("there is one").parse().expect("it is a number"));
        Other { process, stdin, guardian: pidfd_open(guardian, PidfdFlags::empty()).expect("it runs") }
    }

    async fn end(&mut self) -> ExitStatus {
        patiently("the end of the worker", self.process.wait()).await.expect("it can be waited for")
    }

    async fn guardian_ended(self) {
        let guardian = self.guardian;
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut descriptors = [rustix::event::PollFd::new(&guardian, rustix::event::PollFlags::IN)];
            let _ = ended.send(rustix::event::poll(&mut descriptors, None));
        });
        let polled = patiently("the end of the guardian", end).await.expect("nobody panics");
        assert_eq!(polled, Ok(1));
    }
}

/// Assigns an exclusive job and lets it start. Each test has another one: whoever cleans up after a guardian that is gone ends
/// every process that carries the name of one of its jobs.
async fn occupy(stream: &mut Stream, number: u8) {
    stream.assign(exclusive(number, 7)).await;
    let binds = stream.until(|frame| (!frame.binds.is_empty()).then(|| frame.binds.clone())).await;
    stream.bind(&binds).await;
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_ends_with_its_process() {
    let mut server = ScriptedServer::start().await;
    let mut other = Other::start(&server, &["deaf"]).await;
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 3).await;
    // Heartbeats come in all the time: the process is as well as can be.
    for _ in 0..3 {
        let beat = stream.heartbeat().await;
        stream.acknowledge(&beat).await;
    }
    stream.stop(3, 7, "cancelled").await;
    assert_eq!(other.end().await.signal(), Some(Signal::ABORT.as_raw()));
    other.guardian_ended().await;
}

#[tokio::test]
async fn a_process_that_cannot_even_notice_is_ended_by_its_guardian() {
    let mut server = ScriptedServer::start().await;
    let mut other = Other::start(&server, &["starved"]).await;
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 4).await;
    assert_eq!(other.end().await.signal(), Some(Signal::KILL.as_raw()));
}

#[tokio::test]
async fn a_command_of_a_frozen_worker_is_ended_by_the_guardian() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let script = fifo.script("trap '' TERM; (trap '' TERM; echo ready >&3; sleep 100) & wait");
    let other = Other::start(&server, &["shell", &script]).await;
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 5).await;
    let (_, reader) = fifo.first_line().await;
    kill_process(pid(other.process.id().expect("it runs")), Signal::STOP).expect("it runs");
    let frozen_at = Instant::now();
    all_gone(reader).await;
    let took = frozen_at.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: someone else may run it after its lease of 2 s");
}

#[tokio::test]
async fn a_guardian_goes_by_the_hold_of_exclusive_jobs_and_not_by_the_lease() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let script = fifo.script("trap '' TERM; (trap '' TERM; echo ready >&3; sleep 100) & wait");
    let other = Other::start(&server, &["shell", &script]).await;
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 6).await;
    let mut first_line = std::pin::pin!(fifo.first_line());
    let (_, reader) = loop {
        // Every heartbeat is answered at once, so that each of the next ones is the one that counts.
        tokio::select! {
            line = &mut first_line => break line,
            _ = stream.next() => {}
        }
    };
    let beat = stream.heartbeat().await;
    let vouched_at = Instant::now();
    let mut token = stream.acknowledge(&beat).await;
    // Two more heartbeats, 400 ms apart, renew the lease only; after them nobody but the guardian can end the job.
    for _ in 0..2 {
        let beat = stream.heartbeat().await;
        assert_eq!(beat.token, token, "the answer before was heard in time");
        token = stream.withhold(&beat).await;
    }
    assert_eq!(stream.heartbeat().await.token, token);
    kill_process(pid(other.process.id().expect("it runs")), Signal::STOP).expect("it runs");
    all_gone(reader).await;
    let took = vouched_at.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: someone else may run it two seconds after that");
}

/// Only exclusive jobs that run are a reason to end a process when nobody vouches for them any more.
#[tokio::test]
async fn a_process_whose_exclusive_job_has_ended_is_left_alone() {
    let mut server = ScriptedServer::start().await;
    let _other = Other::start(&server, &["quick"]).await;
    let (_, mut stream) = server.register().await;
    occupy(&mut stream, 8).await;
    let report = stream.until(|frame| frame.reports.first().cloned()).await;
    stream.answer(&report, "done").await;
    let beat = stream.heartbeat().await;
    let vouched_at = Instant::now();
    stream.acknowledge(&beat).await;
    while vouched_at.elapsed() < Duration::from_secs(3) {
        let beat = stream.heartbeat().await;
        stream.withhold(&beat).await;
    }
}

#[tokio::test]
async fn a_worker_that_has_left_needs_nobody_to_speak_for_it() {
    let mut server = ScriptedServer::start().await;
    let mut other = Other::start(&server, &["idle"]).await;
    let (_, mut stream) = server.register().await;
    drop(other.stdin.take());
    take_leave(&mut stream).await;
    assert!(other.end().await.success());
    other.guardian_ended().await;
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("it fits")).expect("it is not zero")
}
