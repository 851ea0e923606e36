//! What a run counts: for people, and to show that the world was not idle.

use std::time::Duration;

use muster::How;

/// The numbers of one run, or of many together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that happened.
    pub events: u64,
    /// Virtual time that passed.
    pub virtual_time: Duration,
    /// Workers, all worlds together.
    pub workers: u64,
    /// Instances of workers.
    pub instances: u64,
    /// Times the scheduler died.
    pub restarts: u64,
    /// Tasks that clients wanted.
    pub tasks: u64,
    /// Times a task was started.
    pub starts: u64,
    /// Starts that came to a worker which was not well by its own clock, and were refused.
    pub starts_refused: u64,
    /// Heartbeats that were heard.
    pub heartbeats: u64,
    /// Times a worker stopped because its hold was over.
    pub lapses: u64,
    /// Times a lease was over by a scheduler's clock.
    pub expired: u64,
    /// Newcomers that did not get their seat.
    pub turned_away: u64,
    /// Results of claims that were over.
    pub stale_results: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Labels that were compared with the truth.
    pub labels: u64,
    /// Waits that ended because all agreed, in nanoseconds, in no order.
    pub waits_agreed: Vec<u64>,
    /// Waits that ended by time.
    pub waits_full: Vec<u64>,
    /// For each good worker: from when it was first heard of to when it was healthy.
    pub healthy_after: Vec<u64>,
}

impl Stats {
    /// Adds another run.
    pub fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.virtual_time += other.virtual_time;
        self.workers += other.workers;
        self.instances += other.instances;
        self.restarts += other.restarts;
        self.tasks += other.tasks;
        self.starts += other.starts;
        self.starts_refused += other.starts_refused;
        self.heartbeats += other.heartbeats;
        self.lapses += other.lapses;
        self.expired += other.expired;
        self.turned_away += other.turned_away;
        self.stale_results += other.stale_results;
        self.faults += other.faults;
        self.labels += other.labels;
        self.waits_agreed.extend(&other.waits_agreed);
        self.waits_full.extend(&other.waits_full);
        self.healthy_after.extend(&other.healthy_after);
    }

    pub(super) fn note_wait(&mut self, how: How, waited: Duration) {
        let nanos = waited.as_nanos() as u64;
        match how {
            How::Agreed => self.waits_agreed.push(nanos),
            How::SafeWait | How::Unsafe => self.waits_full.push(nanos),
        }
    }
}

/// The value within which this many percent of them lie; `None` if there are none.
pub fn percentile(spans: &[u64], percent: u32) -> Option<Duration> {
    let mut sorted = spans.to_vec();
    let place = (sorted.len() * percent as usize).div_ceil(100).saturating_sub(1);
    let last = sorted.len().checked_sub(1)?;
    let (_, found, _) = sorted.select_nth_unstable(place.min(last));
    Some(Duration::from_nanos(*found))
}
