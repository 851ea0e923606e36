//! What can be asked without changing anything: `get`, `list`, `stats`, `deadlines`.

use std::ops::Bound;

use model::{Job, JobId, RegistryId};

use super::clock::Now;
use super::mutation::Mutation;
use super::tables::{Tables, due_in};
use crate::port::{Deadlines, JobFilter, Page, QueueStats};

impl Tables {
    pub(super) fn get(&self, id: JobId) -> Option<Job> {
        self.jobs.get(&id).map(|row| row.job.clone())
    }

    pub(super) fn list(&self, filter: &JobFilter, page: Page) -> Vec<Job> {
        let below = page.before.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.jobs.range((Bound::Unbounded, below)).rev();
        rows.map(|(_, row)| &row.job).filter(|job| filter.matches(job)).take(page.limit).cloned().collect()
    }

    pub(super) fn stats(&self, now: Now) -> Vec<QueueStats> {
        self.index
            .queues
            .iter()
            .map(|(name, queue)| QueueStats {
                queue: name.clone(),
                settings: queue.settings.clone(),
                counts: queue.counts,
                oldest: queue.oldest().map(|ready_at| now.wall.since(ready_at)),
            })
            .collect()
    }

    pub(super) fn deadlines(&self, now: Now, registry: RegistryId) -> Deadlines {
        let leases = || self.leases_judged_by(registry, Mutation::DeadlinesShowOthers);
        let next_lease = leases().filter_map(|leases| leases.ends.first()).map(|(until, _)| *until).min();
        let longest =
            leases().filter_map(|leases| leases.lengths.last_key_value()).map(|(length, _)| *length);
        Deadlines {
            next_run_in: self.index.scheduled.first().map(|(run_at, _)| due_in(*run_at, now)),
            next_lease_in: next_lease.map(|until| until.since(now.lease)),
            longest_lease: longest.max(),
        }
    }
}

impl JobFilter {
    pub(super) fn matches(&self, job: &Job) -> bool {
        self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && (self.states.is_empty() || self.states.contains(&job.state))
    }
}
