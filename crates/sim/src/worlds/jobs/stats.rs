//! What a run counts: for people, and to show that the world was not idle.

use std::time::Duration;

/// The numbers of one run, or of many together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that happened.
    pub events: u64,
    /// Virtual time that passed.
    pub virtual_time: Duration,
    /// Jobs that were acknowledged.
    pub jobs: u64,
    /// Jobs that ended, by how.
    pub completed: u64,
    /// See `completed`.
    pub cancelled: u64,
    /// See `completed`.
    pub buried: u64,
    /// Claims that were made.
    pub claims: u64,
    /// Handlers that were started.
    pub starts: u64,
    /// Heartbeats that registries answered.
    pub heartbeats: u64,
    /// Reports that were refused because the job had moved on.
    pub stale_reports: u64,
    /// Times a worker was declared inactive because its lease was over.
    pub expired: u64,
    /// Those among `expired` that had no fault; a law forbids them.
    pub healthy_reaped: u64,
    /// Holds that a worker took along to a new key.
    pub succeeded: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Streams that somebody opened under the key of a worker that ran something.
    pub usurpations: u64,
    /// Those that a server refused or did not believe; the others it did not read.
    pub usurpers_refused: u64,
    /// Registries that went to another server, and had workers.
    pub take_overs: u64,
    /// For each of these whose server was gone while nothing was wrong with the others or the store: from the last beat at
    /// which it was seen to live to the taking over. In nanoseconds, in no order.
    pub take_over_times: Vec<u64>,
    /// Times a worker was sent to another server.
    pub redirects: u64,
    /// Heartbeats that a server took that could not be sure of its registry: nothing exclusive was extended by them.
    pub unsure_answers: u64,
    /// The least time from the last moment that a server could extend exclusive holds to the taking over of its registry, in
    /// nanoseconds.
    pub ownership_margin_min: Option<i64>,
    /// For each job taken back from a worker that ended: from its worker's last answered heartbeat, or its crash, to
    /// the moment the job was offered again. In nanoseconds, in no order.
    pub rescues: Vec<u64>,
    /// Those among `rescues` during which neither a server nor the store had a fault: what an operator may expect.
    pub rescues_undisturbed: Vec<u64>,
    /// From a worker's crash to the moment a job of its was offered again, where its guardian, its network, the servers and
    /// the store had no fault: what the guardian is for. In nanoseconds, in no order.
    pub crash_rescues: Vec<u64>,
    /// Claims of exclusive jobs of which processes were started.
    pub exclusive_runs: u64,
    /// For each exclusive job that went to its next holder: from the last moment that anything of the claim before ran to
    /// the new claim. In nanoseconds, in no order.
    pub handovers: Vec<u64>,
    /// Times a worker ended itself because a job could not be stopped otherwise.
    pub dooms: u64,
    /// Times a guardian killed its worker.
    pub workers_killed: u64,
    /// Times a guardian was killed.
    pub guardians_killed: u64,
    /// The least time from a worker's own end of belief to its registry's, in nanoseconds.
    pub margin_min: Option<i64>,
}

impl Stats {
    /// Adds another run.
    pub fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.virtual_time += other.virtual_time;
        self.jobs += other.jobs;
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.buried += other.buried;
        self.claims += other.claims;
        self.usurpations += other.usurpations;
        self.usurpers_refused += other.usurpers_refused;
        self.starts += other.starts;
        self.heartbeats += other.heartbeats;
        self.stale_reports += other.stale_reports;
        self.expired += other.expired;
        self.healthy_reaped += other.healthy_reaped;
        self.succeeded += other.succeeded;
        self.faults += other.faults;
        self.take_overs += other.take_overs;
        self.take_over_times.extend(&other.take_over_times);
        self.redirects += other.redirects;
        self.unsure_answers += other.unsure_answers;
        self.ownership_margin_min =
            self.ownership_margin_min.into_iter().chain(other.ownership_margin_min).min();
        self.rescues.extend(&other.rescues);
        self.rescues_undisturbed.extend(&other.rescues_undisturbed);
        self.crash_rescues.extend(&other.crash_rescues);
        self.exclusive_runs += other.exclusive_runs;
        self.handovers.extend(&other.handovers);
        self.dooms += other.dooms;
        self.workers_killed += other.workers_killed;
        self.guardians_killed += other.guardians_killed;
        self.margin_min = self.margin_min.into_iter().chain(other.margin_min).min();
    }

    pub(super) fn note_margin(&mut self, nanos: i64) {
        self.margin_min = Some(self.margin_min.map_or(nanos, |least| least.min(nanos)));
    }

    pub(super) fn note_ownership_margin(&mut self, nanos: i64) {
        self.ownership_margin_min = Some(self.ownership_margin_min.map_or(nanos, |least| least.min(nanos)));
    }
}

/// The span within which this many percent of the spans (in nanoseconds) lie; `None` if there are none.
pub fn percentile(spans: &[u64], percent: u32) -> Option<Duration> {
    let mut sorted = spans.to_vec();
    let place = (sorted.len() * percent as usize).div_ceil(100).saturating_sub(1);
    let last = sorted.len().checked_sub(1)?;
    let (_, found, _) = sorted.select_nth_unstable(place.min(last));
    Some(Duration::from_nanos(*found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_over_all_runs() {
        let mut all = Stats::default();
        assert_eq!(percentile(&all.rescues, 50), None);
        for run in 0..10 {
            let rescues = (1..=10).map(|number| run * 10 + number).collect();
            all.add(&Stats { rescues, margin_min: Some(50 - run as i64), ..Stats::default() });
        }
        assert_eq!(percentile(&all.rescues, 50), Some(Duration::from_nanos(50)));
        assert_eq!(percentile(&all.rescues, 99), Some(Duration::from_nanos(99)));
        assert_eq!(percentile(&all.rescues, 100), Some(Duration::from_nanos(100)));
        assert_eq!(all.margin_min, Some(41));
    }
}
