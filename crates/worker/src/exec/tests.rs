//! Real processes. A FIFO that every process of a job holds open tells when the last one of them is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use model::Retry;
use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;
use crate::home::JobEvent;
use crate::testing::{context, context_with_events};

/// Longer than any test may take: a test that needs it has failed.
const FOREVER: Duration = Duration::from_secs(30);

fn shell(script: &str) -> ExecRunner {
    ExecRunner::new(vec!["sh".into(), "-c".into(), script.into()]).expect("there is a shell")
}

async fn check(runner: ExecRunner, payload: &str) -> Result<String, (String, Retry)> {
    let result =
        time::timeout(FOREVER, runner.run(context("report"), Bytes::copy_from_slice(payload.as_bytes())));
    match result.await.expect("the job ends") {
        Ok(result) => Ok(String::from_utf8(result.into()).expect("the tests write text")),
        Err(error) => Err((error.message().to_owned(), error.retry_wish())),
    }
}

/// A FIFO in the temporary directory, removed at the end.
struct Fifo(PathBuf);

impl Fifo {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tenure-exec-{:016x}", rand::random::<u64>()));
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a FIFO can be made");
        Fifo(path)
    }

    /// A runner whose script has the FIFO open as descriptor 3, in all its processes.
    fn shell(&self, script: &str) -> ExecRunner {
        shell(&format!("exec 3>'{}'; {script}", self.0.display()))
    }

    /// Waits for the first line written to it.
    async fn first_line(&self) -> (String, BufReader<File>) {
        let path = self.0.clone();
        blocking(move || {
            let mut reader = BufReader::new(File::open(path).expect("the FIFO can be read"));
            let mut line = String::new();
            reader.read_line(&mut line).expect("the FIFO can be read");
            (line, reader)
        })
        .await
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits until no process has the FIFO open for writing any more.
async fn all_gone(mut reader: BufReader<File>) {
    blocking(move || {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("the FIFO can be read");
    })
    .await;
}

/// Runs this in a thread that a failing test leaves behind: a runtime would wait for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(done.send(work())));
    time::timeout(FOREVER, result).await.expect("it happens in time").expect("it does not panic")
}

#[tokio::test]
async fn input_and_output_are_payload_and_result() {
    assert_eq!(check(shell("cat"), "some bytes").await, Ok("some bytes".into()));
    assert_eq!(check(shell("exec cat"), &"x".repeat(60_000)).await.map(|result| result.len()), Ok(60_000));
}

#[tokio::test]
async fn a_process_need_not_read_its_input() {
    assert_eq!(check(shell("exec 0<&-; echo done"), &"x".repeat(1 << 20)).await, Ok("done\n".into()));
}

#[tokio::test]
async fn the_environment_tells_about_the_job() {
    let script = r#"echo "$TENURE_JOB_ID $TENURE_ATTEMPT/$TENURE_MAX_ATTEMPTS $TENURE_FENCE $TENURE_QUEUE $TENURE_KIND" \
        "$TENURE_SERVER $TENURE_LEASE_MS ${TENURE_TIMEOUT_MS-none} ${TENURE_TRACEPARENT-none} $COLOUR ${TENURE_WORKER:+key}""#;
    let expected = "07070707-0707-0707-0707-070707070707 1/3 1000001 mail report \
                    http://127.0.0.1:9 20000 none none blue key\n";
    assert_eq!(check(shell(script).env("COLOUR", "blue"), "").await, Ok(expected.into()));
}

#[tokio::test]
async fn exit_codes_are_outcomes() {
    for (script, error, retry) in [
        (
            "echo first >&2; echo no such user >&2; exit 3",
            "exit code 3: first\nno such user",
            Retry::ByPolicy,
        ),
        ("exit 1", "exit code 1", Retry::ByPolicy),
        ("echo bad row >&2; exit 65", "exit code 65: bad row", Retry::Never),
        ("exit 75", "exit code 75", Retry::ByPolicy),
        ("kill -9 $$", "killed by signal 9", Retry::ByPolicy),
    ] {
        assert_eq!(check(shell(script), "").await, Err((error.into(), retry)), "{script}");
    }
}

#[tokio::test]
async fn errors_keep_the_end_and_results_are_whole_or_refused() {
    let script = "i=0; while [ $i -lt 5000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1";
    let (error, _) = check(shell(script).stderr_max(100), "").await.unwrap_err();
    assert!(error.ends_with("line 4998\nline 4999") && error.len() <= 100 + "exit code 1: ".len(), "{error}");

    assert_eq!(check(shell("cat").stdout_max(10), "0123456789").await, Ok("0123456789".into()));
    let refused = check(shell("cat").stdout_max(10), "0123456789a").await;
    let text = "stdout has more than 10 bytes; write large results elsewhere";
    assert_eq!(refused, Err((text.into(), Retry::Never)));
}

#[tokio::test]
async fn what_is_left_behind_after_a_normal_exit_is_killed() {
    let fifo = Fifo::new();
    // The grandchild ignores SIGTERM and keeps both the FIFO and standard output open. It lets the leader go.
    let runner = fifo.shell(
        "trap 'echo finished; exit 0' USR1; (trap '' TERM; echo ready >&3; kill -USR1 $$; sleep 100) & wait; wait",
    );
    let job = tokio::spawn(async move { runner.run(context("report"), Bytes::new()).await });
    let (line, reader) = fifo.first_line().await;
    assert_eq!(line, "ready\n");
    let result = time::timeout(FOREVER, job).await.expect("the job ends").expect("no panic");
    assert_eq!(result, Ok("finished\n".into()));
    all_gone(reader).await;
}

#[tokio::test]
async fn a_stopped_job_gets_sigterm_and_its_exit_code_is_not_trusted() {
    let fifo = Fifo::new();
    let runner = fifo.shell("trap 'echo bye >&2; exit 0' TERM; echo ready >&3; sleep 100 & wait");
    let job_context = context("report");
    let job = tokio::spawn({
        let (runner, job_context) = (runner.kill_wait(FOREVER * 2), job_context.clone());
        async move { runner.run(job_context, Bytes::new()).await }
    });
    let (_, reader) = fifo.first_line().await;
    job_context.stop(StopReason::Draining);
    let result = time::timeout(FOREVER, job).await.expect("SIGTERM was enough").expect("no panic");
    let error = result.expect_err("an exit with 0 after SIGTERM proves nothing");
    assert_eq!(error.message(), "stopped because the worker is shutting down (exit code 0): bye");
    all_gone(reader).await;
}

#[tokio::test]
async fn a_group_that_ignores_sigterm_is_killed_with_all_its_grandchildren() {
    let fifo = Fifo::new();
    let runner = fifo.shell(
        "trap '' TERM; sh -c 'sh -c \"echo ready >&3; sleep 100\" & wait' & while :; do sleep 0.01; done",
    );
    let job_context = context("report");
    let job = tokio::spawn({
        let (runner, job_context) = (runner.kill_wait(Duration::from_millis(50)), job_context.clone());
        async move { runner.run(job_context, Bytes::new()).await }
    });
    let (_, reader) = fifo.first_line().await;
    job_context.stop(StopReason::TimedOut);
    let result = time::timeout(FOREVER, job).await.expect("SIGKILL always works").expect("no panic");
    let error = result.expect_err("it was killed");
    assert_eq!(error.message(), "stopped because it took too long (killed by signal 9)");
    all_gone(reader).await;
}

#[tokio::test]
async fn a_dropped_run_kills_the_group() {
    let fifo = Fifo::new();
    let runner = fifo.shell("trap '' TERM; (trap '' TERM; echo ready >&3; sleep 100) & sleep 100");
    let job = tokio::spawn(async move { runner.run(context("report"), Bytes::new()).await });
    let (_, reader) = fifo.first_line().await;
    job.abort();
    all_gone(reader).await;
}

#[tokio::test]
async fn a_command_that_vanished_is_a_failed_attempt() {
    assert!(ExecRunner::new(vec![]).is_err());
    assert!(ExecRunner::new(vec!["no-such-command".into()]).is_err());
    let mut runner = shell("true");
    runner.command[0] = "/vanished".into();
    let (error, retry) = check(runner, "").await.unwrap_err();
    assert!(error.starts_with("cannot start \"/vanished\": No such file"), "{error}");
    assert_eq!(retry, Retry::ByPolicy);
}

#[tokio::test]
async fn whatever_a_process_writes_is_a_sign_that_it_gets_on() {
    for (script, is_heard) in [("echo half >&2", true), ("echo half", true), ("true", false)] {
        let (context, mut events) = context_with_events("report");
        shell(script).run(context, Bytes::new()).await.expect("it succeeds");
        let is_sign = |event: JobEvent| matches!(event, JobEvent::Beaten(_));
        assert_eq!(events.try_recv().is_ok_and(is_sign), is_heard, "{script}");
    }
}
