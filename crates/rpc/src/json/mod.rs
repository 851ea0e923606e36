//! How bytes look in JSON.
//!
//! A field of bytes, such as `payload`, is written in one of two ways. If the bytes are JSON or text, `payload` is that JSON
//! value or that text as a JSON string. Otherwise `payload_base64` has them. Never does a value inside `payload` stand for
//! anything but itself.
//!
//! Which of the two it is follows from the content type of a payload ([`Content`]). Results, progress notes and checkpoints
//! have none: for them it follows from the bytes. `docs/decisions/0014-what-a-payload-is.md` has the whole rule and why.

mod base64;
mod content;
mod form;
mod scan;

pub use base64::{base64_decode, base64_encode};
pub use content::Content;
pub use scan::{DEPTH_MAX, Fault, scan};
