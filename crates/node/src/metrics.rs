//! The numbers a server exports, under names people know.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use lease::message::Answer;
use model::{HolderEnd, Instant, State};
use store::QueueStats;

use crate::door::DoorMetrics;
use crate::membership::MemberMetrics;
use crate::queue_figures::{QueueFigures, figures};
use crate::volatile::MusterMetrics;

/// All metrics of one server. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) enqueued: Counter,
    pub(crate) completed: Counter,
    pub(crate) failed: Counter,
    pub(crate) retried: Counter,
    pub(crate) rescued: Counter,
    pub(crate) dead: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) handed_back: Counter,
    pub(crate) stale_writes: Family<Verb, Counter>,
    pub(crate) job_duration: Histogram,
    pub(crate) enqueue_to_start: Histogram,
    pub(crate) rescue: Histogram,
    hand_over_margin: Family<HandOver, Histogram, fn() -> Histogram>,
    negative_margins: Counter,
    pub(crate) sessions: Gauge,
    pub(crate) muster: MusterMetrics,
    pub(crate) door: DoorMetrics,
    heartbeats: Family<BeatAnswer, Counter>,
    pub(crate) key_conflicts: Counter,
    pub(crate) clocks_off: Counter,
    workers: Family<WorkerState, Gauge>,
    heartbeat_age: Gauge<f64, AtomicU64>,
    pub(crate) stalls: Counter,
    pub(crate) servers: Gauge,
    pub(crate) take_overs: Counter,
    pub(crate) disowned: Counter,
    pub(crate) stalled_seconds: Counter<f64, AtomicU64>,
    store_commit: Histogram,
    store_vacuum: Histogram,
    store_batch: Histogram,
    queue_size: Family<QueueState, Gauge>,
    queue_oldest: Family<QueueLabel, Gauge<f64, AtomicU64>>,
    registry: std::sync::Arc<std::sync::Mutex<Registry>>,
}

/// Which verb a stale holder tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Verb {
    verb: &'static str,
}

impl Verb {
    pub(crate) const FINISH: Verb = Verb { verb: "finish" };
    pub(crate) const RENEW: Verb = Verb { verb: "renew" };
    pub(crate) const PROGRESS: Verb = Verb { verb: "progress" };
}

/// What made sure that an exclusive job had stopped before it moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HandOver {
    by: &'static str,
}

impl HandOver {
    /// Its holder's lease was over: the clock rule.
    pub(crate) const LEASE: HandOver = HandOver { by: "lease" };
    /// Its holder, or the guardian of its holder, said so.
    pub(crate) const WORD: HandOver = HandOver { by: "word" };
    /// The clock rule, checked by what the old holder said later about when it had really stopped.
    pub(crate) const LATE_WORD: HandOver = HandOver { by: "late_word" };

    /// Its holder's lease was over, and its clock is not one that the clock rule allows for.
    pub(crate) const UNPROVEN: HandOver = HandOver { by: "unproven" };

    /// What stands behind the end of a holder.
    pub(crate) fn of(end: HolderEnd) -> HandOver {
        match end {
            HolderEnd::Left | HolderEnd::Crashed => HandOver::WORD,
            _ => HandOver::LEASE,
        }
    }
}

/// Around zero, which a margin must never reach from above, and up to the longest leases.
fn margin_seconds() -> Histogram {
    Histogram::new([-1.0, 0.0, 0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 600.0])
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BeatAnswer {
    answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueState {
    queue: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

impl Metrics {
    /// Fresh metrics, all zero.
    pub fn new() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_5, 2.0, 22));
        let metrics = Metrics {
            enqueued: Counter::default(),
            completed: Counter::default(),
            failed: Counter::default(),
            retried: Counter::default(),
            rescued: Counter::default(),
            dead: Counter::default(),
            cancelled: Counter::default(),
            handed_back: Counter::default(),
            stale_writes: Family::default(),
            job_duration: seconds(),
            enqueue_to_start: seconds(),
            rescue: seconds(),
            hand_over_margin: Family::new_with_constructor(margin_seconds),
            negative_margins: Counter::default(),
            sessions: Gauge::default(),
            muster: MusterMetrics::default(),
            door: DoorMetrics::default(),
            heartbeats: Family::default(),
            key_conflicts: Counter::default(),
            clocks_off: Counter::default(),
            workers: Family::default(),
            heartbeat_age: Gauge::default(),
            stalls: Counter::default(),
            servers: Gauge::default(),
            take_overs: Counter::default(),
            disowned: Counter::default(),
            stalled_seconds: Counter::default(),
            store_commit: seconds(),
            store_vacuum: seconds(),
            store_batch: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            queue_size: Family::default(),
            queue_oldest: Family::default(),
            registry: Default::default(),
        };
        for verb in [Verb::FINISH, Verb::RENEW, Verb::PROGRESS] {
            // A counter that is there from the start, at zero, can be alerted on.
            drop(metrics.stale_writes.get_or_create(&verb));
        }
        metrics.register();
        metrics
    }

    /// An exclusive job moved on at `moved_at`; its old holder had stopped by `stopped_by`.
    pub(crate) fn hand_over(&self, by: HandOver, stopped_by: Instant, moved_at: Instant) {
        let margin = moved_at.since(stopped_by).as_secs_f64() - stopped_by.since(moved_at).as_secs_f64();
        self.hand_over_margin.get_or_create(&by).observe(margin);
        if margin < 0.0 {
            self.negative_margins.inc();
            tracing::error!(margin_s = margin, "an exclusive job moved on before its old holder had stopped");
        }
    }

    fn register(&self) {
        let mut registry = self.registry.lock().expect("no panic while holding the lock");
        let r = registry.sub_registry_with_prefix("tenure");
        r.register("jobs_enqueued", "Jobs accepted", self.enqueued.clone());
        r.register("jobs_completed", "Jobs done", self.completed.clone());
        r.register("jobs_failed", "Attempts that failed", self.failed.clone());
        r.register("jobs_retried", "Attempts that will be made again after a failure", self.retried.clone());
        r.register("jobs_rescued", "Jobs taken back from silent or leaving holders", self.rescued.clone());
        r.register("jobs_dead", "Jobs buried", self.dead.clone());
        r.register("jobs_cancelled", "Jobs called off", self.cancelled.clone());
        r.register("jobs_handed_back", "Jobs given back unharmed", self.handed_back.clone());
        r.register(
            "stale_writes_refused",
            "Writes of holders that had lost the job",
            self.stale_writes.clone(),
        );
        r.register_with_unit(
            "job_duration",
            "Claim to accepted report",
            Unit::Seconds,
            self.job_duration.clone(),
        );
        r.register_with_unit(
            "handover_margin",
            "From the last instant an exclusive job's old holder can have run it to the move of the job",
            Unit::Seconds,
            self.hand_over_margin.clone(),
        );
        r.register(
            "handover_margin_negative",
            "Hand-overs of exclusive jobs that came too early; any is an alarm",
            self.negative_margins.clone(),
        );
        r.register_with_unit(
            "enqueue_to_start",
            "Ready to claimed",
            Unit::Seconds,
            self.enqueue_to_start.clone(),
        );
        r.register_with_unit(
            "rescue",
            "Last sign of the holder (or end of the job's own lease) to taken back",
            Unit::Seconds,
            self.rescue.clone(),
        );
        r.register("sessions", "Open worker streams", self.sessions.clone());
        self.muster.register(r);
        self.door.register(r);
        r.register("workers", "Workers by state", self.workers.clone());
        r.register("heartbeats", "Heartbeats by answer", self.heartbeats.clone());
        r.register(
            "worker_key_conflicts",
            "Streams and heartbeats refused because another process has their worker key",
            self.key_conflicts.clone(),
        );
        r.register(
            "clock_rate_out_of_bounds",
            "Times a worker's clock was found to run at another rate than leases allow for",
            self.clocks_off.clone(),
        );
        r.register_with_unit(
            "heartbeat_age",
            "How long ago the active worker heard least was heard",
            Unit::Seconds,
            self.heartbeat_age.clone(),
        );
        r.register(
            "own_stalls",
            "Times this server found that it, or its store, had stood still",
            self.stalls.clone(),
        );
        r.register_with_unit(
            "own_stalled",
            "Time this server stood still",
            Unit::Seconds,
            self.stalled_seconds.clone(),
        );
        r.register("servers", "Servers that use the same store, this one included", self.servers.clone());
        r.register(
            "take_overs",
            "Times this server took over the workers of another one",
            self.take_overs.clone(),
        );
        r.register(
            "disowned",
            "Times another server took over the workers of this one",
            self.disowned.clone(),
        );
        r.register_with_unit(
            "store_commit",
            "Duration of store commits",
            Unit::Seconds,
            self.store_commit.clone(),
        );
        r.register_with_unit(
            "store_vacuum",
            "Duration of clean-ups of the jobs' table by this server",
            Unit::Seconds,
            self.store_vacuum.clone(),
        );
        r.register("store_batch_size", "Requests that shared one commit", self.store_batch.clone());
        r.register("queue_size", "Jobs by queue and state", self.queue_size.clone());
        r.register_with_unit(
            "queue_oldest",
            "Age of the oldest available job",
            Unit::Seconds,
            self.queue_oldest.clone(),
        );
    }

    /// Counts the lines that the log of this process dropped, because nobody read them.
    pub fn with_dropped_log_lines(self, dropped: fn() -> u64) -> Self {
        let mut registry = self.registry.lock().expect("no panic while holding the lock");
        registry.sub_registry_with_prefix("tenure").register_collector(Box::new(DroppedLogLines(dropped)));
        drop(registry);
        self
    }

    /// Adds the numbers of a member.
    pub(crate) fn register_members(&self, members: &MemberMetrics) {
        let mut registry = self.registry.lock().expect("no panic while holding the lock");
        members.register(registry.sub_registry_with_prefix("tenure"));
    }

    /// Notes one commit of the store; given to the store as a hook.
    pub fn observe_commit(&self, took: Duration, requests: usize) {
        self.store_commit.observe(took.as_secs_f64());
        self.store_batch.observe(requests as f64);
    }

    /// Notes one clean-up of the store; given to the store as a hook.
    pub fn observe_vacuum(&self, took: Duration) {
        self.store_vacuum.observe(took.as_secs_f64());
    }

    pub(crate) fn count_end(&self, state: State) {
        match state {
            State::Completed => self.completed.inc(),
            State::Dead => self.dead.inc(),
            State::Cancelled => self.cancelled.inc(),
            State::Scheduled | State::Available | State::Running => return,
        };
    }

    pub(crate) fn count_heartbeat(&self, answer: &Answer) {
        let answer = match answer {
            Answer::Ok(_) => "ok",
            Answer::Inactive { .. } => "worker_inactive",
            Answer::Mismatch { .. } => "token_mismatch",
            Answer::NotOwner { .. } => "not_owner",
            Answer::Later { .. } => "later",
        };
        self.heartbeats.get_or_create(&BeatAnswer { answer }).inc();
    }

    /// The text of `/metrics`, with queue and worker figures as of now.
    pub(crate) fn render(
        &self,
        queues: &[QueueStats],
        workers: &[(&'static str, u64)],
        heartbeat_age: Duration,
    ) -> Result<String, fmt::Error> {
        // Held throughout: a second scrape must not find the families half filled.
        let registry = self.registry.lock().expect("no panic while holding the lock");
        for (state, count) in workers {
            self.workers.get_or_create(&WorkerState { state }).set(*count as i64);
        }
        self.heartbeat_age.set(heartbeat_age.as_secs_f64());
        self.queue_size.clear();
        self.queue_oldest.clear();
        for QueueFigures { queue, counts, oldest } in figures(queues) {
            for state in State::ALL {
                let label = QueueState { queue: queue.clone(), state: state.word() };
                self.queue_size.get_or_create(&label).set(counts[state as usize] as i64);
            }
            self.queue_oldest.get_or_create(&QueueLabel { queue }).set(oldest.as_secs_f64());
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// A figure that lies elsewhere and is read when somebody asks.
#[derive(Debug)]
struct DroppedLogLines(fn() -> u64);

impl Collector for DroppedLogLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Lines of the log that were dropped because nobody read them";
        let count = ConstCounter::new((self.0)());
        count.encode(encoder.encode_descriptor("log_lines_dropped", help, None, count.metric_type())?)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
