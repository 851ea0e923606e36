//! What a store with volatile queues says of claims that it did not make.

use model::{Fence, JobId, WorkerKey};

/// What workers say of claims that a former life of the server made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    /// Running or ended, and not submitted again by their clients.
    pub unclaimed: u64,
    /// Claims or results of copies that should not exist.
    pub double_starts: u64,
    /// Reports that were dropped because worker or fence were wrong.
    pub stale_reports: u64,
}

/// A copy of a job that should not exist showed itself: its claim or its result was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The job.
    pub job: JobId,
    /// Who holds it, or did last, and under which fence.
    pub known: Option<(WorkerKey, Fence)>,
    /// Who should not have it, and under which fence.
    pub other: (WorkerKey, Fence),
}
