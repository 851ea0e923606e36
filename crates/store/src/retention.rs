//! How long what has ended is kept.

use std::time::Duration;

/// How long finished things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed and cancelled jobs.
    pub completed: Duration,
    /// Dead jobs.
    pub dead: Duration,
}

impl Retention {
    /// How long a terminal worker is remembered, after which its key is as new.
    pub const WORKERS: Duration = Duration::from_secs(24 * 3600);
    /// How long a request id is remembered.
    pub const REQUEST_IDS: Duration = Duration::from_secs(24 * 3600);
}

impl Default for Retention {
    fn default() -> Self {
        Retention { completed: Duration::from_secs(24 * 3600), dead: Duration::from_secs(7 * 24 * 3600) }
    }
}
