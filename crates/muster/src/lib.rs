//! A scheduler that keeps no record of what is running, and yet never starts a task beside itself.
//!
//! The workers are the only truth about running tasks. A scheduler that has just started waits until every worker that might
//! run something has reported or has certainly stopped. [`set`] ids, kept by workers from one scheduler to the next, tell
//! it in the common case that it has heard from all of them.

pub mod set;

pub use set::{Identity, SetHash, SetId, Version};
