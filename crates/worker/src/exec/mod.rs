//! Runs each job as a process: the payload is its input, its output is the result, its exit code is the outcome.
//!
//! | exit | outcome |
//! |---|---|
//! | 0 | completed, standard output is the result |
//! | 65 (`EX_DATAERR`) | dead: trying again will not help |
//! | 75 (`EX_TEMPFAIL`), any other code, a signal | failed, tried again by the job's policy |
//!
//! The end of standard error becomes the error text. Each process leads a process group of its own. When the job must
//! stop, the group gets SIGTERM and, after the kill wait, SIGKILL; what such a process returns is never taken for
//! success, since many programs exit with 0 when they are terminated. Whatever the leader leaves behind in its group is
//! killed, also after a normal exit, and nothing is reported before the group is empty. A process that moves itself
//! into another group or session escapes this.
//!
//! Where a job has a heartbeat timeout, whatever its process writes counts as a sign that it gets on.

mod capture;
mod group;
mod program;
#[cfg(test)]
mod tests;

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use lease::ledger::StopReason;
use model::Invalid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time;

use self::capture::{Head, Tail};
use self::group::Group;
use crate::context::JobContext;
use crate::job_error::JobError;

/// "The input data was incorrect in some way": no retry (`sysexits.h`).
const EX_DATAERR: i32 = 65;
/// Largest result; a job that writes more is dead, since a cut result would pass for a whole one.
const STDOUT_MAX_DEFAULT: usize = 64 << 10;
/// How much of the end of standard error is kept.
const STDERR_MAX_DEFAULT: usize = 4 << 10;
/// From SIGTERM to SIGKILL. One second less than the worker's kill wait, so that the group is empty before the worker
/// gives the task up.
const KILL_WAIT_DEFAULT: Duration = Duration::from_secs(4);
/// How long output may still trickle in once the group is dead: only a process that left the group can hold it open.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// A command to run for each job.
#[derive(Clone, Debug)]
pub struct ExecRunner {
    command: Vec<String>,
    env: Vec<(String, String)>,
    stdout_max: usize,
    stderr_max: usize,
    kill_wait: Duration,
}

impl ExecRunner {
    /// A runner for this program and its arguments. Refused, with a sentence, if the program cannot be found or run.
    pub fn new(command: Vec<String>) -> Result<Self, Invalid> {
        let Some(program) = command.first() else {
            return Err(Invalid::new("name a command to run for each job"));
        };
        program::check(program)?;
        Ok(ExecRunner {
            command,
            env: Vec::new(),
            stdout_max: STDOUT_MAX_DEFAULT,
            stderr_max: STDERR_MAX_DEFAULT,
            kill_wait: KILL_WAIT_DEFAULT,
        })
    }

    /// Sets a variable in every process, besides those of the job.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Largest result in bytes; a job that writes more is dead. 64 KiB when not given.
    pub fn stdout_max(mut self, bytes: usize) -> Self {
        self.stdout_max = bytes;
        self
    }

    /// How many bytes of the end of standard error are kept. 4 KiB when not given.
    pub fn stderr_max(mut self, bytes: usize) -> Self {
        self.stderr_max = bytes;
        self
    }

    /// From SIGTERM to SIGKILL. 4 s when not given; keep it shorter than the worker's own kill wait.
    pub fn kill_wait(mut self, wait: Duration) -> Self {
        self.kill_wait = wait;
        self
    }

    /// Runs one job to its end, or until its context says stop. Dropping the future kills the group at once.
    pub async fn run(&self, context: JobContext, payload: Bytes) -> Result<Bytes, JobError> {
        let program = &self.command[0];
        let mut child = self
            .command_for(&context)
            .spawn()
            .map_err(|error| JobError::retry(format!("cannot start {program:?}: {error}")))?;
        let stdin = child.stdin.take();
        let mut stdout = Head::new(child.stdout.take(), self.stdout_max);
        let mut stderr = Tail::new(child.stderr.take(), self.stderr_max);
        // Declared after the child, so that it is dropped first: the group dies before its leader can be reaped.
        let mut group = Group::of(&child);

        let (status, is_stopped) = {
            let ending = self.end(&mut child, &mut group, &context);
            let feeding = feed(stdin, payload);
            let reading = || context.heartbeat();
            let mut io =
                std::pin::pin!(async { tokio::join!(feeding, stdout.read(reading), stderr.read(reading)) });
            let mut ending = std::pin::pin!(ending);
            let mut io_done = false;
            let ended = loop {
                tokio::select! {
                    ended = &mut ending => break ended,
                    _ = &mut io, if !io_done => io_done = true,
                }
            };
            if !io_done {
                let _ = time::timeout(OUTPUT_WAIT, io).await;
            }
            ended.map_err(|error| JobError::retry(format!("lost track of {program:?}: {error}")))?
        };
        self.outcome(status, is_stopped.then(|| context.stop_reason()).flatten(), stdout, &stderr)
    }

    /// Waits for the leader, stops it when told to, and empties its group. Whether it had to be stopped.
    async fn end(
        &self,
        child: &mut Child,
        group: &mut Group,
        context: &JobContext,
    ) -> std::io::Result<(ExitStatus, bool)> {
        let is_stopped = tokio::select! {
            // One that ended by itself in the same instant was not stopped.
            biased;
            () = group.leader_exited() => false,
            () = context.cancelled() => true,
        };
        if is_stopped {
            group.terminate();
            let _ = time::timeout(self.kill_wait, group.leader_exited()).await;
        }
        // The leader is a zombie or still runs; either way its number is not free for others yet.
        group.kill();
        let status = child.wait().await?;
        group.reaped().await;
        Ok((status, is_stopped))
    }

    fn command_for(&self, context: &JobContext) -> Command {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("TENURE_JOB_ID", context.job_id().to_string())
            .env("TENURE_ATTEMPT", context.attempt().to_string())
            .env("TENURE_MAX_ATTEMPTS", context.max_attempts().to_string())
            .env("TENURE_FENCE", context.fence().to_string())
            .env("TENURE_QUEUE", context.queue())
            .env("TENURE_KIND", context.kind())
            .env("TENURE_WORKER", context.worker().as_str())
            .env("TENURE_SERVER", context.servers())
            .env("TENURE_LEASE_MS", context.lease().as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(timeout) = context.timeout() {
            command.env("TENURE_TIMEOUT_MS", timeout.as_millis().to_string());
        }
        if let Some(traceparent) = context.traceparent() {
            command.env("TENURE_TRACEPARENT", traceparent);
        }
        command
    }

    fn outcome(
        &self,
        status: ExitStatus,
        stopped: Option<StopReason>,
        stdout: Head,
        stderr: &Tail,
    ) -> Result<Bytes, JobError> {
        let last_words = stderr.text();
        let describe = |how: String| if last_words.is_empty() { how } else { format!("{how}: {last_words}") };
        if let Some(reason) = stopped {
            return Err(JobError::retry(describe(format!("{} ({})", stop_text(reason), exit_text(status)))));
        }
        match status.code() {
            Some(0) => stdout.into_result().ok_or_else(|| {
                JobError::dead(format!(
                    "stdout has more than {} bytes; write large results elsewhere",
                    self.stdout_max
                ))
            }),
            Some(EX_DATAERR) => Err(JobError::dead(describe(exit_text(status)))),
            _ => Err(JobError::retry(describe(exit_text(status)))),
        }
    }
}

/// Gives the process its input. One that does not want it (EPIPE) is none of our business; its exit code speaks.
async fn feed(stdin: Option<ChildStdin>, payload: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&payload).await;
    }
}

fn exit_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn stop_text(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "stopped because the job was cancelled",
        StopReason::Lost => "stopped because the job was lost",
        StopReason::LeaseOver => "stopped because the server was not heard for a whole lease",
        StopReason::TimedOut => "stopped because it took too long",
        StopReason::Wedged => "stopped because it gave no sign of progress",
        StopReason::Draining => "stopped because the worker is shutting down",
    }
}
