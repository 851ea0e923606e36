//! One page of a list: where it begins, and where it is full. Stores read no further than that.

use bytes::Bytes;
use model::{Job, JobId};

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Only ids below this one: the last id of the page before.
    pub before: Option<JobId>,
    /// At most this many.
    pub limit: usize,
    /// The page ends with the job with which it has [so many bytes](Page::bytes_of), at least one.
    pub bytes_max: usize,
}

impl Page {
    /// What a job counts: what it carries, which may be of any size.
    pub fn bytes_of(job: &Job) -> usize {
        let parts = [Some(&job.payload), job.result.as_ref(), job.checkpoint.as_ref(), job.progress.as_ref()];
        parts.into_iter().flatten().map(Bytes::len).sum()
    }

    /// Ends the list where the page is full.
    pub fn cut(&self, jobs: &mut Vec<Job>) {
        let mut bytes = 0;
        let fits = |job: &&Job| {
            let fits = bytes < self.bytes_max;
            bytes += Page::bytes_of(job);
            fits
        };
        let count = jobs.iter().take(self.limit).take_while(fits).count();
        jobs.truncate(count);
    }

    /// Whether there may be more jobs after these.
    pub fn is_full(&self, jobs: &[Job]) -> bool {
        jobs.len() >= self.limit || jobs.iter().map(Page::bytes_of).sum::<usize>() >= self.bytes_max
    }
}
