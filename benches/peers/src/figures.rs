//! The figures that are compared, named as `tenure bench --json` names them.

use std::time::Instant;

/// Jobs per second while latency is measured.
pub(crate) const RATE: usize = 200;
/// Jobs whose latency is measured.
pub(crate) const LATENCY_JOBS: usize = 2_000;

pub(crate) struct Figures {
    pub(crate) enqueue: u64,
    pub(crate) drain: u64,
    pub(crate) pipelined: u64,
    /// Milliseconds from the enqueue call to the handler.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Figures {
    pub(crate) fn print(&self) {
        let Figures { enqueue, drain, pipelined, p50, p99 } = self;
        println!(
            "{{\"enqueue_per_s\":{enqueue},\"drain_per_s\":{drain},\"pipelined_per_s\":{pipelined},\"start_ms_p50\":{p50},\"start_ms_p99\":{p99}}}"
        );
    }
}

pub(crate) fn per_second(jobs: usize, began: Instant) -> u64 {
    (jobs as f64 / began.elapsed().as_secs_f64()) as u64
}

/// The median and the 99th percentile in milliseconds, of nanoseconds in any order.
pub(crate) fn percentiles(delays: &mut [u64]) -> (f64, f64) {
    delays.sort_unstable();
    let millis =
        |percent: usize| (delays[(delays.len() * percent).div_ceil(100) - 1] / 10_000) as f64 / 100.0;
    (millis(50), millis(99))
}
