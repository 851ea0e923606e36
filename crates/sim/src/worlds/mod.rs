//! The worlds: each a set of real machines, a model of what is outside them, and laws.

pub mod jobs;
pub mod muster;
pub mod swim;
