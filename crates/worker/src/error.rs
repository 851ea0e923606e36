//! What can go wrong between this process and the server, and while a worker is being built.

use model::Invalid;
use rpc::ApiError;
use thiserror::Error;

/// A call to the server failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// No server of the list answered. Whether the call happened is unknown only if `why` says so.
    #[error(
        "cannot reach the tenure server at {server}; is it running? start it with `tenure serve` ({why})"
    )]
    Unreachable {
        /// The address, or all of them when several were tried.
        server: String,
        /// What the network said.
        why: String,
    },
    /// The server answered with an error, or the input could not be sent at all.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<Invalid> for ClientError {
    fn from(error: Invalid) -> Self {
        ClientError::Api(error.into())
    }
}

/// A worker cannot be built as described.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BuildError {
    /// A setting breaks a rule; the text says which and how to mend it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The server list cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A checkpoint was not saved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CheckpointError {
    /// The job is not ours any more; the handler should stop. Its cancellation token has been fired.
    #[error("the job is no longer held by this worker")]
    Lost,
    /// The server was not reached or did not take it; the job may still be ours.
    #[error(transparent)]
    Client(#[from] ClientError),
}
