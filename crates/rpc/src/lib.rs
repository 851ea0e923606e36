//! The wire: protobuf messages, gRPC stubs, their JSON form, and the one place where wire meets model.
//!
//! The server (`node`) and the SDK (`worker`) both speak through this crate. It holds no logic: a message that cannot
//! be a model value is refused in [`convert`] (or, for heartbeats, in [`lease_convert`]) with a sentence that says how to mend it.

pub mod convert;
mod error;
pub mod json;
pub mod lease_convert;
pub mod node_convert;

pub use error::{ApiError, Problem};

/// The generated messages and stubs of `proto/tenure/v1/tenure.proto`.
#[expect(missing_docs, reason = "generated code; the proto file is the documentation")]
pub mod wire {
    include!("generated/tenure.v1.rs");
}
