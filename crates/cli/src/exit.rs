//! Exit codes. Every command ends in one of these, and scripts may rely on them.

use std::fmt;
use std::io;
use std::process::ExitCode;

use model::{ErrorKind, Invalid};
use rpc::ApiError;
use worker::{BuildError, ClientError};

/// How a command ended. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// A promise or check failed: the job died, the doctor found trouble, the server could not start.
    Failed = 1,
    /// The command line, a config file or the input breaks a rule; clap uses the same number.
    Usage = 2,
    /// No server answered, or the one that did cannot serve now. Trying again may help.
    Unreachable = 3,
    /// The thing named does not exist.
    NotFound = 4,
    /// The server refused: the present state or a limit does not allow it.
    Refused = 5,
}

impl Exit {
    /// The code of an error, by the first cause that has one.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        error.chain().find_map(Self::of_cause).unwrap_or(Exit::Failed)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return Some(failure.exit);
        }
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return Some(Self::of_client(error));
        }
        if let Some(error) = cause.downcast_ref::<BuildError>() {
            return Some(match error {
                BuildError::Invalid(_) => Exit::Usage,
                BuildError::Client(error) => Self::of_client(error),
            });
        }
        cause.is::<Invalid>().then_some(Exit::Usage)
    }

    fn of_client(error: &ClientError) -> Exit {
        match error {
            ClientError::Unreachable { .. } => Exit::Unreachable,
            ClientError::Api(ApiError { kind, .. }) => match kind {
                ErrorKind::Invalid => Exit::Usage,
                ErrorKind::NotFound => Exit::NotFound,
                ErrorKind::Refused
                | ErrorKind::StaleFence
                | ErrorKind::WorkerInactive
                | ErrorKind::TokenMismatch
                | ErrorKind::NotOwner
                | ErrorKind::Throttled => Exit::Refused,
                ErrorKind::Unavailable => Exit::Unreachable,
                ErrorKind::Internal => Exit::Failed,
            },
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A failure whose code the command itself chose.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// True if the reader of our output went away (`| head`), which is its right and no error of ours.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        let api = |kind| anyhow::Error::from(ClientError::Api(ApiError::new(kind, "why")));
        let unreachable = ClientError::Unreachable { server: "http://x".into(), why: "refused".into() };
        let table = [
            (unreachable.into(), Exit::Unreachable),
            (api(ErrorKind::Unavailable), Exit::Unreachable),
            (api(ErrorKind::NotFound), Exit::NotFound),
            (api(ErrorKind::Refused), Exit::Refused),
            (api(ErrorKind::Invalid), Exit::Usage),
            (api(ErrorKind::Internal), Exit::Failed),
            (Invalid::new("bad").into(), Exit::Usage),
            (Failure::new(Exit::NotFound, "gone").into(), Exit::NotFound),
            (anyhow::anyhow!("anything else"), Exit::Failed),
        ];
        for (error, exit) in table {
            assert_eq!(Exit::of(&error), exit, "{error}");
            let wrapped = Err::<(), _>(error).context("while doing it").expect_err("it is an error");
            assert_eq!(Exit::of(&wrapped), exit, "a context hides nothing");
        }
    }

    #[test]
    fn a_closed_pipe_is_recognised() {
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_closed_pipe(&closed));
        assert!(!is_closed_pipe(&anyhow::anyhow!("broken pipe, but only in words")));
    }
}
