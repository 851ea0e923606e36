//! What the end of a process means for its job.

use bytes::Bytes;
use guardian::Exit;
use lease::ledger::StopReason;

use super::capture::{Head, Tail};
use crate::job_error::JobError;

/// "The input data was incorrect in some way": no retry (`sysexits.h`).
const EX_DATAERR: i32 = 65;

/// How a process went.
pub(super) struct Course {
    /// Why it was told to end, if it was.
    pub(super) stopped: Option<StopReason>,
    pub(super) exit: Exit,
    pub(super) stdout: Head,
    pub(super) stderr: Tail,
}

impl Course {
    /// What to report. What a process returns after it was told to end is never taken for success, since many programs
    /// exit with 0 when they are terminated.
    pub(super) fn outcome(self) -> Result<Bytes, JobError> {
        let Course { stopped, exit, stdout, stderr } = self;
        let last_words = stderr.text();
        let describe = |how: String| if last_words.is_empty() { how } else { format!("{how}: {last_words}") };
        let how = exit_text(&exit);
        match (stopped, exit.code) {
            (Some(reason), _) => Err(JobError::retry(describe(format!("{} ({how})", stop_text(reason))))),
            (None, Some(0)) => stdout.into_result(),
            (None, Some(EX_DATAERR)) => Err(JobError::dead(describe(how))),
            (None, _) => Err(JobError::retry(describe(how))),
        }
    }
}

fn exit_text(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

fn stop_text(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "stopped because the job was cancelled",
        StopReason::Lost => "stopped because the job was lost",
        StopReason::LeaseOver => "stopped because the server was not heard for too long",
        StopReason::TimedOut => "stopped because it took too long",
        StopReason::Wedged => "stopped because it gave no sign of progress",
        StopReason::Draining => "stopped because the worker is shutting down",
    }
}

#[cfg(test)]
mod tests {
    use model::{Instant, Retry};

    use super::*;

    /// A process that wrote "result" and, if anything, these last words.
    async fn check(exit: Exit, stopped: Option<StopReason>, words: &str) -> Result<Bytes, (String, Retry)> {
        let (mut stdout, mut stderr) = (Head::new(100), Tail::new(100));
        stdout.read(&b"result"[..], || ()).await;
        stderr.read(words.as_bytes(), || ()).await;
        let outcome = Course { stopped, exit, stdout, stderr }.outcome();
        outcome.map_err(|error| (error.message().to_owned(), error.retry_wish()))
    }

    const fn code(code: i32) -> Exit {
        Exit { code: Some(code), signal: None, gone_at: Instant::ZERO }
    }

    const KILLED: Exit = Exit { code: None, signal: Some(9), gone_at: Instant::ZERO };

    #[tokio::test]
    async fn exit_codes_are_outcomes() {
        assert_eq!(check(code(0), None, "chatter").await, Ok("result".into()));
        for (exit, words, error, retry) in [
            (code(3), "first\nno such user\n", "exit code 3: first\nno such user", Retry::ByPolicy),
            (code(1), "", "exit code 1", Retry::ByPolicy),
            (code(65), "bad row", "exit code 65: bad row", Retry::Never),
            (code(75), "", "exit code 75", Retry::ByPolicy),
            (KILLED, "", "killed by signal 9", Retry::ByPolicy),
        ] {
            assert_eq!(check(exit, None, words).await, Err((error.into(), retry)));
        }
    }

    #[tokio::test]
    async fn what_was_stopped_never_succeeded() {
        for (exit, reason, error) in [
            (code(0), StopReason::Draining, "stopped because the worker is shutting down (exit code 0): bye"),
            (KILLED, StopReason::TimedOut, "stopped because it took too long (killed by signal 9): bye"),
            (code(65), StopReason::Cancelled, "stopped because the job was cancelled (exit code 65): bye"),
        ] {
            assert_eq!(check(exit, Some(reason), "bye").await, Err((error.into(), Retry::ByPolicy)));
        }
    }
}
