//! Requests that are answered at the door, in the form that their sender reads.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Version};
use rpc::ApiError;
use tonic::Status;

use super::budget::NoRoom;
use super::guard::is_grpc_type;
use super::metrics::Reason;

/// Why a request does not come in.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    reason: Reason,
    error: ApiError,
}

impl Refusal {
    /// The caller must change something.
    pub(crate) fn new(status: StatusCode, reason: Reason, why: String) -> Self {
        Refusal { status, reason, error: ApiError::invalid(why) }
    }

    /// The caller may try again.
    pub(crate) fn no_room(why: NoRoom) -> Self {
        Refusal { status: StatusCode::SERVICE_UNAVAILABLE, reason: Reason::Room, error: why.into() }
    }

    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// The answer to this request. gRPC has its status in headers of its own; HTTP's is there too, for what stands between.
    pub(crate) fn answer<B>(self, request: &Request<B>) -> Response {
        let is_grpc = request.version() == Version::HTTP_2
            && request.headers().get(CONTENT_TYPE).is_some_and(is_grpc_type);
        if is_grpc {
            let mut response = Status::from(self.error).into_http::<Body>();
            *response.status_mut() = self.status;
            return response;
        }
        crate::http::with_status(&self.error, self.status)
    }
}
