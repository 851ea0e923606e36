//! What a store with volatile queues says besides its jobs: of claims that it did not make, to clients that come back, and how
//! full it is.

use model::{Fence, Job, JobId, WorkerKey};

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

/// What a client that comes back must be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Another number than it was told before if ends were forgotten that it may wait for: then it must submit again what it has not
    /// seen the end of.
    pub memory: u64,
    /// Its jobs that have ended and are not acknowledged, by id.
    pub ended: Vec<Job>,
}

/// What volatile jobs take in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that are here, with all that they carry.
    pub bytes: u64,
    /// When they take as much, no more are taken.
    pub bytes_max: u64,
}
