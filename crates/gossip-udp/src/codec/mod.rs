//! Messages as bytes: hand-written, one spelling for each value, bounded by what was received.
//!
//! This is the plain inside; [`seal`](crate::seal) puts the envelope around it, which carries the version.

mod error;
pub mod exchange;
pub mod packet;
mod update;
mod wire;

pub use error::Malformed;

/// What an envelope adds to the bytes inside, at most.
pub const ENVELOPE_BYTES_MAX: usize = 31;
