//! What can be wrong with a caller's input, and the kinds of error every interface maps.

use thiserror::Error;

/// The caller's input broke a rule. Nothing was changed. The text says which rule and how to mend it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    /// An input error with this explanation: a lowercase fragment that says how to mend it.
    pub fn new(text: impl Into<String>) -> Self {
        Invalid(text.into())
    }
}

/// Who can do something about an error. `rpc` maps each kind to one gRPC code and one HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller no longer holds the job it writes to.
    StaleFence,
    /// The worker's key is dead: it must stop its jobs and take a new key.
    WorkerInactive,
    /// The heartbeat's token is not the current one.
    TokenMismatch,
    /// Another server is in charge of this worker.
    NotOwner,
    /// The thing named does not exist.
    NotFound,
    /// The input breaks a rule; sending it again will not help.
    Invalid,
    /// The thing exists, but its state does not allow this.
    Refused,
    /// A limit was reached; try later.
    Throttled,
    /// The store cannot serve now; try again.
    Unavailable,
    /// A defect or damaged data on our side.
    Internal,
}

impl ErrorKind {
    /// The stable word for this kind, used in problem documents and gRPC metadata.
    pub const fn word(self) -> &'static str {
        match self {
            ErrorKind::StaleFence => "stale_fence",
            ErrorKind::WorkerInactive => "worker_inactive",
            ErrorKind::TokenMismatch => "token_mismatch",
            ErrorKind::NotOwner => "not_owner",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Refused => "refused",
            ErrorKind::Throttled => "throttled",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Internal => "internal",
        }
    }
}
