//! Runs each job as a process: the payload is its input, its output is the result, its exit code is the outcome.
//!
//! | exit | outcome |
//! |---|---|
//! | 0 | completed, standard output is the result |
//! | 65 (`EX_DATAERR`) | dead: trying again will not help |
//! | 75 (`EX_TEMPFAIL`), any other code, a signal | failed, tried again by the job's policy |
//!
//! The end of standard error becomes the error text. The process is started by the worker's guardian, as the leader of a
//! family: everyone who descends from it. When the job must stop, the family gets SIGTERM and, after the kill wait,
//! SIGKILL. Whoever the leader leaves behind is killed, also after a normal exit, and nothing is reported before nobody
//! of the family is left.
//!
//! Where a job has a heartbeat timeout, whatever its process writes counts as a sign that it gets on.

mod capture;
mod outcome;
mod program;

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use guardian::{Exit, Family, Guardian, GuardianLost, Launch, LaunchError};
use lease::ledger::Ended;
use model::{Instant, Invalid};
use rustix::io::Errno;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time;
use tokio_util::sync::CancellationToken;

use self::capture::{Head, Tail};
use self::outcome::Course;
use crate::context::JobContext;
use crate::handler;
use crate::job_error::JobError;

/// Largest result; a job that writes more is dead, since a cut result would pass for a whole one.
const STDOUT_MAX_DEFAULT: usize = 64 << 10;
/// How much of the end of standard error is kept.
const STDERR_MAX_DEFAULT: usize = 4 << 10;
/// How long a start is put off for want of descriptors, processes or memory, and how often it is tried.
const SHORTAGE_WAIT: Duration = Duration::from_secs(10);
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);
/// How long output may still trickle in once the family is gone: only someone who got hold of a pipe in another way can
/// keep it open.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// A command to run for each job.
#[derive(Clone, Debug)]
pub struct ExecRunner {
    command: Vec<String>,
    env: Vec<(String, String)>,
    stdout_max: usize,
    stderr_max: usize,
    kill_wait: Option<Duration>,
}

/// What the worker gives to a run.
pub(crate) struct ExecTerms {
    /// Who starts and ends the process.
    pub(crate) guardian: Guardian,
    /// From telling a job to stop to the end of its task.
    pub(crate) kill_wait: Duration,
    /// Fires when the process must be killed at once.
    pub(crate) abort: CancellationToken,
}

impl ExecRunner {
    /// A runner for this program and its arguments. Refused, with a sentence, if the program cannot be found or run.
    /// It is found in `PATH` once, here.
    pub fn new(mut command: Vec<String>) -> Result<Self, Invalid> {
        let Some(program) = command.first_mut() else {
            return Err(Invalid::new("name a command to run for each job"));
        };
        *program = program::find(program)?;
        Ok(ExecRunner {
            command,
            env: Vec::new(),
            stdout_max: STDOUT_MAX_DEFAULT,
            stderr_max: STDERR_MAX_DEFAULT,
            kill_wait: None,
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

    /// From SIGTERM to SIGKILL. Four fifths of the worker's kill wait when not given, which leaves the kernel some time to
    /// end everyone; when the worker's is over, SIGKILL comes in any case.
    pub fn kill_wait(mut self, wait: Duration) -> Self {
        self.kill_wait = Some(wait);
        self
    }

    /// Runs one job to its end, or until its context says stop. Returns when nobody of its family is left; never, if that
    /// cannot be known any more; and when that was so, if that is known. Must not be dropped before.
    pub(crate) async fn run(
        &self,
        terms: ExecTerms,
        context: JobContext,
        payload: Bytes,
    ) -> (Ended, Option<Instant>) {
        let mut ended_at = None;
        let ended = self.run_family(terms, context, payload, &mut ended_at).await;
        (ended, ended_at)
    }

    /// The same; notes when the family had ended, if there was one.
    async fn run_family(
        &self,
        terms: ExecTerms,
        context: JobContext,
        payload: Bytes,
        ended_at: &mut Option<Instant>,
    ) -> Ended {
        let cannot_start = |error: &dyn Display| {
            let program = &self.command[0];
            handler::ended(Err(JobError::retry(format!("cannot start {program:?}: {error}"))))
        };
        // It may have been stopped while its task waited for its turn.
        if context.is_cancelled() {
            return Ended::Aborted;
        }
        let mut family = match self.launched(&terms, &context, payload.is_empty()).await {
            Ok(family) => family,
            Err(LaunchError::TooLate) => return Ended::Aborted,
            Err(LaunchError::NoGuardian) => return not_started(&context).await,
            Err(LaunchError::GuardianLost(lost)) => return guardian_lost(lost).await,
            Err(error) => return cannot_start(&error),
        };
        let mut stdout = Head::new(self.stdout_max);
        let mut stderr = Tail::new(self.stderr_max);
        let untaken = "a family comes with the pipes of its output";
        let pipe_in = family.stdin.take();
        let (pipe_out, pipe_err) =
            (family.stdout.take().expect(untaken), family.stderr.take().expect(untaken));
        let ended = {
            let wrote = || context.heartbeat();
            let mut io = std::pin::pin!(async {
                tokio::join!(
                    feed(pipe_in, payload),
                    stdout.read(pipe_out, wrote),
                    stderr.read(pipe_err, wrote)
                )
            });
            let mut ending = std::pin::pin!(self.end(&mut family, &terms, &context));
            let mut io_done = false;
            let ended = loop {
                tokio::select! {
                    ended = &mut ending => break ended,
                    _ = &mut io, if !io_done => io_done = true,
                }
            };
            if !io_done {
                tokio::select! {
                    // What was written so far is read in any case; nothing waits for more once the job must stop.
                    biased;
                    _ = time::timeout(OUTPUT_WAIT, io) => {}
                    () = terms.must_end(&context) => {}
                }
            }
            ended
        };
        *ended_at = ended.as_ref().ok().map(|ran| ran.exit.gone_at);
        match ended {
            Ok(Ran { exit, is_stopped: false }) => {
                handler::ended(Course { stopped: None, exit, stdout, stderr }.outcome())
            }
            Ok(Ran { exit, is_stopped: true }) => match context.stop_reason() {
                None => Ended::Aborted,
                stopped => handler::ended(Course { stopped, exit, stdout, stderr }.outcome()),
            },
            Err(lost) => guardian_lost(lost).await,
        }
    }

    /// Waits until nobody of the family is left; stops it when told to.
    async fn end(
        &self,
        family: &mut Family,
        terms: &ExecTerms,
        context: &JobContext,
    ) -> Result<Ran, GuardianLost> {
        tokio::select! {
            // One that ended by itself in the same instant was not stopped.
            biased;
            exit = family.ended() => return Ok(Ran { exit: exit?, is_stopped: false }),
            () = terms.must_end(context) => {}
        }
        family.terminate();
        tokio::select! {
            exit = family.ended() => return Ok(Ran { exit: exit?, is_stopped: true }),
            () = time::sleep(self.kill_wait.unwrap_or(terms.kill_wait * 4 / 5)) => {}
            () = terms.abort.cancelled() => {}
        }
        family.kill();
        Ok(Ran { exit: family.ended().await?, is_stopped: true })
    }

    /// Starts the family. A machine that is out of descriptors or processes just now is not the job's fault, so it waits a
    /// while for better times.
    async fn launched(
        &self,
        terms: &ExecTerms,
        context: &JobContext,
        no_input: bool,
    ) -> Result<Family, LaunchError> {
        let launch = self.launch(context, no_input);
        let give_up_at = time::Instant::now() + SHORTAGE_WAIT;
        loop {
            match terms.guardian.launch(launch.clone()).await {
                Err(LaunchError::Failed(error))
                    if is_shortage(&error)
                        && time::Instant::now() < give_up_at
                        && !context.is_cancelled() =>
                {
                    time::sleep(SHORTAGE_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    fn launch(&self, context: &JobContext, no_input: bool) -> Launch {
        let mut env = self.env.clone();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        set("TENURE_JOB_ID", context.job_id().to_string());
        set("TENURE_ATTEMPT", context.attempt().to_string());
        set("TENURE_MAX_ATTEMPTS", context.max_attempts().to_string());
        set("TENURE_FENCE", context.fence().to_string());
        set("TENURE_QUEUE", context.queue().to_owned());
        set("TENURE_KIND", context.kind().to_owned());
        set("TENURE_WORKER", context.worker().to_string());
        set("TENURE_SERVER", context.servers().to_owned());
        set("TENURE_LEASE_MS", context.lease().as_millis().to_string());
        if let Some(timeout) = context.timeout() {
            set("TENURE_TIMEOUT_MS", timeout.as_millis().to_string());
        }
        if let Some(traceparent) = context.traceparent() {
            set("TENURE_TRACEPARENT", traceparent.to_owned());
        }
        if context.is_exclusive() {
            set("TENURE_EXCLUSIVE", "1".to_owned());
        }
        let (program, args) = self.command.split_first().expect("a runner has a program");
        let exclusive = context.is_exclusive();
        Launch { program: program.clone(), args: args.to_vec(), env, exclusive, no_input }
    }
}

impl ExecTerms {
    /// Returns when the job is told to stop, or must be killed.
    async fn must_end(&self, context: &JobContext) {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.abort.cancelled() => {}
        }
    }
}

/// How a family ended.
struct Ran {
    exit: Exit,
    /// It was told to.
    is_stopped: bool,
}

/// The end of a job whose guardian died while it ran, or may have run. There is none if its processes may still run: then
/// the lease decides. Otherwise the job is lost, for it may be what killed the guardian.
async fn guardian_lost(lost: GuardianLost) -> Ended {
    if !lost.all_gone {
        std::future::pending::<()>().await;
    }
    Ended::Crashed
}

/// The end of a job that was to start when its guardian was gone already. A worker without its guardian stops everything:
/// this end waits for that stop, so that the job is handed back and counts as nothing.
async fn not_started(context: &JobContext) -> Ended {
    context.cancelled().await;
    Ended::Aborted
}

/// Whether it is for want of something that comes back.
fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// Gives the process its input. One that does not want it (EPIPE) is none of our business; its exit code speaks.
async fn feed(stdin: Option<impl AsyncWrite + Unpin>, payload: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&payload).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use lease::ledger::StopReason;

    use super::*;
    use crate::testing::context;

    #[tokio::test]
    async fn without_its_guardian_a_job_ends_only_if_its_processes_are_known_to_be_gone() {
        let end = |all_gone| guardian_lost(GuardianLost { all_gone }).now_or_never();
        assert_eq!(end(true), Some(Ended::Crashed), "it counts as lost");
        assert_eq!(end(false), None, "nothing may be said");
    }

    #[tokio::test]
    async fn a_job_that_was_never_started_for_want_of_a_guardian_is_handed_back() {
        let context = context("report");
        let end = || not_started(&context).now_or_never();
        assert_eq!(end(), None, "the stop comes first, so that it is handed back");
        context.stop(StopReason::Draining);
        assert_eq!(end(), Some(Ended::Aborted));
    }
}
