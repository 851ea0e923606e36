//! The numbers of volatile queues. They exist on every server, and stay at zero where there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rpc::wire;
use store::Inheritance;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MusterMetrics {
    waiting: Gauge,
    members: Gauge,
    held_back: Gauge,
    queued: Gauge,
    pub(crate) dismissed: Counter,
    pub(crate) turned_away: Counter,
    unclaimed: Gauge,
    double_starts: Gauge,
    /// Those of which workers told when they woke.
    late_double_starts: Arc<AtomicU64>,
    stale_reports: Gauge,
    bytes: Gauge,
    bytes_max: Gauge,
    pub(crate) postponed: Counter,
}

impl MusterMetrics {
    pub(crate) fn register(&self, r: &mut Registry) {
        r.register("muster_waiting", "1 while volatile queues wait for their workers", self.waiting.clone());
        r.register("muster_members", "Workers in the present set", self.members.clone());
        r.register(
            "muster_held_back",
            "Workers that may not run volatile jobs until others know of them",
            self.held_back.clone(),
        );
        r.register(
            "muster_queued",
            "New workers that are kept out until the others agree",
            self.queued.clone(),
        );
        r.register(
            "muster_dismissed",
            "Workers whose lease was not renewed any more because they were unhealthy for too long or lost their seat",
            self.dismissed.clone(),
        );
        r.register("muster_turned_away", "Workers whose seat was taken", self.turned_away.clone());
        r.register(
            "inherited_unclaimed",
            "Jobs of a former life of the server that their clients have not submitted again",
            self.unclaimed.clone(),
        );
        r.register(
            "double_starts",
            "Claims or results of copies that should not exist; any is an alarm",
            self.double_starts.clone(),
        );
        r.register(
            "inherited_stale_reports",
            "Reports of volatile jobs that were dropped because worker or fence were wrong",
            self.stale_reports.clone(),
        );
        r.register(
            "volatile_bytes",
            "Memory that volatile jobs take, with all that they carry",
            self.bytes.clone(),
        );
        r.register(
            "volatile_bytes_max",
            "Memory with which no more volatile jobs are taken",
            self.bytes_max.clone(),
        );
        r.register(
            "volatile_postponed",
            "Volatile jobs that were not taken because there was no room; each time one is tried counts",
            self.postponed.clone(),
        );
    }

    /// A worker says that volatile jobs ran on after they were given away.
    pub(crate) fn late_double_start(&self) {
        self.late_double_starts.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was said.
    pub(crate) fn late_double_starts(&self) -> u64 {
        self.late_double_starts.load(Ordering::Relaxed)
    }

    /// How the muster stands, and what the store knows of former lives of the server.
    pub(crate) fn show(&self, status: &wire::MusterStatus, inheritance: Inheritance) {
        let held_back = status.workers.iter().filter(|worker| !worker.held_back_by.is_empty()).count();
        self.waiting.set(i64::from(status.waiting));
        self.members.set(i64::from(status.members));
        self.queued.set(i64::from(status.queued));
        self.held_back.set(held_back as i64);
        self.unclaimed.set(inheritance.unclaimed.cast_signed());
        let double_starts = inheritance.double_starts + self.late_double_starts();
        self.double_starts.set(double_starts.cast_signed());
        self.stale_reports.set(inheritance.stale_reports.cast_signed());
        self.bytes.set(status.bytes.cast_signed());
        self.bytes_max.set(status.bytes_max.cast_signed());
    }
}
