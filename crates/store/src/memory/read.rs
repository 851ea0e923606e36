//! What can be asked without changing anything: `get`, `list`, `stats`, `deadlines`.

use std::ops::Bound;

use model::{Job, JobId, RegistryId};

use super::clock::Now;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Tables, due_in};
use crate::port::{Deadlines, JobFilter, Page, QueueStats};

impl Tables {
    pub(super) fn get(&self, id: JobId) -> Option<Job> {
        self.jobs.get(id).map(|row| self.shown(row))
    }

    pub(super) fn list(&self, filter: &JobFilter, page: Page) -> Vec<Job> {
        let below = page.before.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.jobs.range((Bound::Unbounded, below)).rev();
        let matching = rows.filter(|row| self.matches(filter, row));
        let mut bytes = 0;
        let mut jobs = Vec::new();
        for row in matching.take(page.limit) {
            let job = self.shown(row);
            bytes += Page::bytes_of(&job);
            jobs.push(job);
            if bytes >= page.bytes_max {
                break;
            }
        }
        jobs
    }

    pub(super) fn stats(&self, now: Now) -> Vec<QueueStats> {
        self.index
            .queues
            .iter()
            .map(|queue| QueueStats {
                queue: queue.name.clone(),
                settings: queue.settings.clone(),
                counts: queue.counts,
                oldest: queue.oldest().map(|ready_at| now.wall.since(ready_at)),
            })
            .collect()
    }

    pub(super) fn deadlines(&self, now: Now, registry: RegistryId) -> Deadlines {
        let leases = || self.leases_judged_by(registry, Mutation::DeadlinesShowOthers);
        let next_lease = leases().filter_map(|leases| leases.ends.first()).map(|(until, _)| until).min();
        let longest =
            leases().filter_map(|leases| leases.lengths.iter().next_back()).map(|(length, _)| *length);
        Deadlines {
            next_run_in: self.index.scheduled.first().map(|(run_at, _)| due_in(run_at, now)),
            next_lease_in: next_lease.map(|until| until.since(now.lease)),
            longest_lease: longest.max(),
        }
    }

    /// Whether a job is among those that are asked for.
    pub(super) fn matches(&self, filter: &JobFilter, row: &Row) -> bool {
        filter.queue.as_ref().is_none_or(|queue| *queue == self.queue_of(row).name)
            && filter.kind.as_ref().is_none_or(|kind| *kind == row.kind)
            && (filter.states.is_empty() || filter.states.contains(&row.state))
    }
}
