//! What is measured: each experiment is one file and finds a table.

mod restart;
mod turnover;

pub use restart::restart;
pub use turnover::turnover;

pub use crate::worlds::swim::experiments::{Amount, Cell, Findings, Progress, Samples};
