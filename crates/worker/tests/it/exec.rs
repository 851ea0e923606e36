//! Commands: real processes, started and ended by a real guardian.

use std::time::Duration;

use bytes::Bytes;
use rpc::wire;
use worker::{ExecRunner, WorkerEvent};

use crate::fifo::{Fifo, all_gone, shell};
use crate::support::{ScriptedServer, Stream, assignment, exclusive};
use crate::worker::{Running, builder, guardian};

/// A worker that runs this for every job of kind "work", and its first stream.
async fn start(server: &mut ScriptedServer, runner: ExecRunner) -> (Running, Stream) {
    let worker = Running::start(builder(&server.url).exec("work", runner).guardian(guardian()));
    let (_, stream) = server.register().await;
    (worker, stream)
}

async fn report(stream: &mut Stream) -> wire::Report {
    stream.until(|frame| frame.reports.first().cloned()).await
}

/// What becomes of a job with this payload: its result, or its outcome and error.
async fn check(runner: ExecRunner, payload: impl Into<Bytes>) -> Result<String, (String, String)> {
    let mut server = ScriptedServer::start().await;
    let (worker, mut stream) = start(&mut server, runner).await;
    stream.assign(wire::Assignment { payload: payload.into(), ..assignment(7, 9) }).await;
    let report = report(&mut stream).await;
    worker.shutdown.abort();
    worker.end().await;
    match report.outcome.as_str() {
        "completed" => Ok(String::from_utf8(report.result.into()).expect("the tests write text")),
        _ => Err((report.outcome, report.error)),
    }
}

fn error(outcome: &str, text: &str) -> Result<String, (String, String)> {
    Err((outcome.to_owned(), text.to_owned()))
}

#[tokio::test]
async fn input_and_output_are_payload_and_result() {
    assert_eq!(check(shell("cat"), "some bytes").await, Ok("some bytes".into()));
    assert_eq!(check(shell("exec cat"), "x".repeat(60_000)).await.map(|result| result.len()), Ok(60_000));
}

#[tokio::test]
async fn a_process_need_not_read_its_input() {
    assert_eq!(check(shell("exec 0<&-; echo done"), "x".repeat(1 << 20)).await, Ok("done\n".into()));
}

#[tokio::test]
async fn the_environment_tells_about_the_job() {
    let script = r#"echo "$TENURE_JOB_ID $TENURE_ATTEMPT/$TENURE_MAX_ATTEMPTS $TENURE_FENCE $TENURE_QUEUE $TENURE_KIND" \
        "$TENURE_LEASE_MS ${TENURE_TIMEOUT_MS-none} ${TENURE_TRACEPARENT-none} $COLOUR ${TENURE_WORKER:+key}" \
        "${TENURE_SERVER:+server} ${TENURE_EXCLUSIVE-none}""#;
    let expected = "07070707-0707-0707-0707-070707070707 1/5 9 q work 20000 none none blue key server none\n";
    assert_eq!(check(shell(script).env("COLOUR", "blue"), "").await, Ok(expected.into()));
}

#[tokio::test]
async fn exit_codes_are_outcomes() {
    for (script, outcome, text) in [
        ("echo first >&2; echo no such user >&2; exit 3", "failed", "exit code 3: first\nno such user"),
        ("echo bad row >&2; exit 65", "dead", "exit code 65: bad row"),
        ("kill -9 $$", "failed", "killed by signal 9"),
    ] {
        assert_eq!(check(shell(script), "").await, error(outcome, text), "{script}");
    }
    let too_much = "stdout has more than 10 bytes; write large results elsewhere";
    assert_eq!(check(shell("cat").stdout_max(10), "0123456789a").await, error("dead", too_much));
}

#[tokio::test]
async fn what_is_left_behind_after_a_normal_exit_is_killed_before_the_report() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    // The grandchild ignores SIGTERM and keeps both the FIFO and standard output open. It lets the leader go.
    let runner = fifo.shell(
        "trap 'echo finished; exit 0' USR1; (trap '' TERM; echo ready >&3; kill -USR1 $$; sleep 100) & wait; wait",
    );
    let (worker, mut stream) = start(&mut server, runner).await;
    stream.assign(assignment(1, 7)).await;
    let (line, reader) = fifo.first_line().await;
    assert_eq!(line, "ready\n");
    let report = report(&mut stream).await;
    assert_eq!((report.outcome.as_str(), report.result), ("completed", "finished\n".into()));
    all_gone(reader).await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_stopped_job_gets_sigterm_and_its_exit_code_is_not_trusted() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell("trap 'echo bye >&2; exit 0' TERM; echo ready >&3; sleep 100 & wait");
    let (worker, mut stream) = start(&mut server, runner.kill_wait(Duration::from_secs(60))).await;
    stream.assign(assignment(1, 7)).await;
    let (_, reader) = fifo.first_line().await;
    stream.stop(1, 7, "cancelled").await;
    let report = report(&mut stream).await;
    let text = "stopped because the job was cancelled (exit code 0): bye";
    assert_eq!((report.outcome.as_str(), report.error.as_str()), ("failed", text));
    all_gone(reader).await;
    worker.shutdown.abort();
}

/// A script that ignores SIGTERM, with all its grandchildren.
const DEAF: &str =
    "trap '' TERM; sh -c 'sh -c \"echo ready >&3; sleep 100\" & wait' & while :; do sleep 0.01; done";

#[tokio::test]
async fn a_family_that_ignores_sigterm_is_killed_with_all_its_grandchildren() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell(DEAF).kill_wait(Duration::from_millis(50));
    let (worker, mut stream) = start(&mut server, runner).await;
    stream.assign(assignment(1, 7)).await;
    let (_, reader) = fifo.first_line().await;
    stream.stop(1, 7, "cancelled").await;
    let report = report(&mut stream).await;
    assert_eq!(report.error, "stopped because the job was cancelled (killed by signal 9)");
    all_gone(reader).await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn the_workers_kill_wait_ends_a_family_whose_own_is_longer() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let runner = fifo.shell(DEAF).kill_wait(Duration::from_secs(600));
    let builder = builder(&server.url).kill_wait(Duration::from_millis(50)).exec("work", runner);
    let worker = Running::start(builder.guardian(guardian()));
    let (_, mut stream) = server.register().await;
    stream.assign(wire::Assignment { timeout_ms: Some(500), ..assignment(1, 7) }).await;
    let (_, reader) = fifo.first_line().await;
    let report = report(&mut stream).await;
    let text = "timed out after 500ms: stopped because it took too long (killed by signal 9)";
    assert_eq!((report.outcome.as_str(), report.error.as_str()), ("failed", text));
    all_gone(reader).await;
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_worker_that_ends_at_once_takes_its_families_with_it() {
    let (mut server, fifo) = (ScriptedServer::start().await, Fifo::new());
    let (worker, mut stream) = start(&mut server, fifo.shell(DEAF)).await;
    stream.assign(assignment(1, 7)).await;
    let (_, reader) = fifo.first_line().await;
    worker.shutdown.abort();
    assert_eq!(worker.end().await.still_running, 1);
    all_gone(reader).await;
}

#[tokio::test]
async fn a_command_that_vanished_is_a_failed_attempt() {
    assert!(ExecRunner::new(vec![]).is_err());
    assert!(ExecRunner::new(vec!["no-such-command".into()]).is_err());
    let directory = std::env::temp_dir().join(format!("tenure-vanished-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&directory).expect("the temporary directory can be written");
    let path = directory.join("command");
    std::os::unix::fs::symlink("/bin/true", &path).expect("a link can be made");
    let program = path.display().to_string();
    let runner = ExecRunner::new(vec![program.clone()]).expect("it is there");
    std::fs::remove_dir_all(&directory).expect("it can be removed");
    let (outcome, text) = check(runner, "").await.unwrap_err();
    assert_eq!(outcome, "failed");
    assert!(text.starts_with(&format!("cannot start {program:?}: No such file")), "{text}");
}

#[tokio::test]
async fn whatever_a_process_writes_is_a_sign_that_it_gets_on() {
    for script in ["echo half >&2; sleep 100", "echo half; sleep 100"] {
        let mut server = ScriptedServer::start().await;
        let (worker, mut stream) = start(&mut server, shell(script)).await;
        stream.assign(wire::Assignment { heartbeat_timeout_ms: Some(60_000), ..assignment(1, 7) }).await;
        let beats = stream.until(|frame| frame.beats.first().cloned()).await;
        assert_eq!(beats.fence, 7, "{script}");
        worker.shutdown.abort();
        worker.end().await;
    }
    let mut server = ScriptedServer::start().await;
    let (mut worker, mut stream) = start(&mut server, shell("sleep 100")).await;
    stream.assign(wire::Assignment { heartbeat_timeout_ms: Some(500), ..assignment(1, 7) }).await;
    worker.event(|event| matches!(event, WorkerEvent::Wedged { .. }).then_some(())).await;
    worker.shutdown.abort();
    worker.end().await;
}

#[tokio::test]
async fn an_exclusive_command_knows_that_it_is() {
    let mut server = ScriptedServer::start().await;
    let (worker, mut stream) = start(&mut server, shell("echo $TENURE_EXCLUSIVE")).await;
    stream.assign(exclusive(1, 7)).await;
    let binds = stream.until(|frame| (!frame.binds.is_empty()).then(|| frame.binds.clone())).await;
    stream.bind(&binds).await;
    let report = report(&mut stream).await;
    assert_eq!((report.outcome.as_str(), report.result), ("completed", "1\n".into()));
    worker.shutdown.abort();
}
