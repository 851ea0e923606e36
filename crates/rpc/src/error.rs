//! One table from error kinds to gRPC codes and HTTP statuses, read in both directions.

use std::fmt;
use std::time::Duration;

use model::{ErrorKind, Invalid};
use serde::{Deserialize, Serialize};
use store::StoreError;
use tonic::{Code, Status};

/// Kind, gRPC code, HTTP status, title. The order matters for reading a code that is used twice: the first row wins.
const TABLE: [(ErrorKind, Code, u16, &str); 10] = [
    (ErrorKind::StaleFence, Code::FailedPrecondition, 409, "the job is no longer held under this fence"),
    (ErrorKind::WorkerInactive, Code::FailedPrecondition, 409, "the worker's key is dead"),
    (ErrorKind::TokenMismatch, Code::FailedPrecondition, 409, "the token is not the current one"),
    (ErrorKind::NotOwner, Code::FailedPrecondition, 421, "another server is in charge of this worker"),
    (ErrorKind::Refused, Code::FailedPrecondition, 409, "the present state does not allow this"),
    (ErrorKind::NotFound, Code::NotFound, 404, "no such thing"),
    (ErrorKind::Invalid, Code::InvalidArgument, 400, "the request is not valid"),
    (ErrorKind::Throttled, Code::ResourceExhausted, 429, "a limit was reached"),
    (ErrorKind::Unavailable, Code::Unavailable, 503, "the server cannot do this now"),
    (ErrorKind::Internal, Code::Internal, 500, "a defect in the server"),
];

/// gRPC metadata that carries [`ErrorKind::word`], since several kinds share a code.
const KIND_KEY: &str = "tenure-error";
/// gRPC metadata that carries [`ApiError::token`].
const TOKEN_KEY: &str = "tenure-token";
/// gRPC metadata that carries [`ApiError::owner`].
const OWNER_KEY: &str = "tenure-owner";
/// gRPC metadata that says when to try again, in milliseconds.
const RETRY_AFTER_KEY: &str = "tenure-retry-after-ms";

/// An error as every interface reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Who can do something about it.
    pub kind: ErrorKind,
    /// What happened and how to mend it.
    pub message: String,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
    /// With [`ErrorKind::TokenMismatch`]: the token to show.
    pub token: Option<String>,
    /// With [`ErrorKind::NotOwner`]: who is, if that is known.
    pub owner: Option<String>,
}

impl ApiError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ApiError { kind, message: message.into(), retry_after: None, token: None, owner: None }
    }

    /// The caller's input breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The thing named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The HTTP status of this kind.
    pub fn http_status(&self) -> u16 {
        self.row().2
    }

    /// The body of an HTTP error (RFC 9457).
    pub fn to_problem(&self) -> Problem {
        let (kind, _, status, title) = self.row();
        Problem {
            kind: kind.word().to_owned(),
            title: title.to_owned(),
            status,
            detail: self.message.clone(),
            retry_after_ms: self.retry_after.map(|span| span.as_millis() as u64),
            token: self.token.clone(),
            owner: self.owner.clone(),
        }
    }

    fn row(&self) -> (ErrorKind, Code, u16, &'static str) {
        TABLE.into_iter().find(|row| row.0 == self.kind).expect("the table has a row for every kind")
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<Invalid> for ApiError {
    fn from(error: Invalid) -> Self {
        ApiError::invalid(error.0)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let may_help = matches!(error, StoreError::Unavailable(_) | StoreError::Full(_));
        let retry_after = may_help.then_some(Duration::from_secs(1));
        ApiError { retry_after, ..ApiError::new(error.kind(), error.to_string()) }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let mut status = Status::new(error.row().1, error.message);
        let metadata = status.metadata_mut();
        metadata.insert(KIND_KEY, error.kind.word().parse().expect("kind words are plain ASCII"));
        if let Some(span) = error.retry_after {
            metadata.insert(
                RETRY_AFTER_KEY,
                span.as_millis().to_string().parse().expect("digits are plain ASCII"),
            );
        }
        if let Some(token) = error.token.and_then(|token| token.parse().ok()) {
            metadata.insert(TOKEN_KEY, token);
        }
        if let Some(owner) = error.owner.and_then(|owner| owner.parse().ok()) {
            metadata.insert(OWNER_KEY, owner);
        }
        status
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let word = status.metadata().get(KIND_KEY).and_then(|value| value.to_str().ok());
        let kind = TABLE
            .iter()
            .find(|row| word.is_some_and(|word| row.0.word() == word))
            .or_else(|| TABLE.iter().find(|row| row.1 == status.code()))
            .map_or(ErrorKind::Unavailable, |row| row.0);
        let retry_after = status
            .metadata()
            .get(RETRY_AFTER_KEY)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_millis);
        let text = |key| status.metadata().get(key).and_then(|value| Some(value.to_str().ok()?.to_owned()));
        let (token, owner) = (text(TOKEN_KEY), text(OWNER_KEY));
        ApiError { kind, message: status.message().to_owned(), retry_after, token, owner }
    }
}

/// An error as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable word for the kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and how to mend it.
    pub detail: String,
    /// When trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The token to show in the next heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Who is in charge of this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_way_over_grpc() {
        for (kind, code, status, _) in TABLE {
            let error = ApiError {
                kind,
                message: "why".into(),
                retry_after: Some(Duration::from_millis(250)),
                token: Some("1.2".to_owned()),
                owner: Some("http://b:1".to_owned()),
            };
            assert_eq!(error.http_status(), status);
            let over_the_wire = Status::from(error.clone());
            assert_eq!(over_the_wire.code(), code);
            assert_eq!(ApiError::from(over_the_wire), error);
        }
    }

    #[test]
    fn a_code_without_our_metadata_is_read_by_the_table() {
        assert_eq!(ApiError::from(Status::not_found("x")).kind, ErrorKind::NotFound);
        assert_eq!(ApiError::from(Status::unknown("x")).kind, ErrorKind::Unavailable);
    }
}
