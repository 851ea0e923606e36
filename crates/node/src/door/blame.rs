//! Whose mistake it was that a gRPC message could not be read.
//!
//! gRPC's own libraries answer INTERNAL when the bytes of a request are no message. For whoever runs the server that is a defect,
//! and for clients a reason to try again; here it is INVALID_ARGUMENT, as everything else that is wrong with a request. What
//! is too large stays OUT_OF_RANGE, with the sizes.

use http::{HeaderMap, HeaderValue};
use tonic::{Code, Status};

/// How the messages of such errors begin, as tonic and prost write them.
const CLIENTS: [&str; 4] = [
    "failed to decode Protobuf message",
    "protocol error: received message",
    "Unexpected EOF decoding stream",
    "Missing request message",
];

/// Corrects the status among these headers, if it blames us for the client's mistake. Costs one look at headers, no more, unless
/// something went wrong.
pub(crate) fn correct(headers: &mut HeaderMap) {
    let is_internal = |code: &HeaderValue| Code::from_bytes(code.as_bytes()) == Code::Internal;
    if !headers.get(Status::GRPC_STATUS).is_some_and(is_internal) {
        return;
    }
    let is_clients = Status::from_header_map(headers)
        .is_some_and(|status| CLIENTS.iter().any(|start| status.message().starts_with(start)));
    if is_clients {
        headers.insert(Status::GRPC_STATUS, HeaderValue::from(Code::InvalidArgument as i32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrected(status: Status) -> Option<Code> {
        let mut headers = status.into_http::<()>().into_parts().0.headers;
        correct(&mut headers);
        Some(Status::from_header_map(&headers)?.code())
    }

    #[test]
    fn what_cannot_be_read_is_the_clients_mistake_and_everything_else_is_as_it_was() {
        for start in CLIENTS {
            let status = Status::internal(format!("{start}: NewJob.queue: bad, \"50 %\""));
            assert_eq!(corrected(status), Some(Code::InvalidArgument), "{start}");
        }
        assert_eq!(corrected(Status::internal("a defect")), Some(Code::Internal));
        assert_eq!(corrected(Status::out_of_range(CLIENTS[0])), Some(Code::OutOfRange));
        let mut none = HeaderMap::new();
        correct(&mut none);
        assert!(none.is_empty());
    }
}
