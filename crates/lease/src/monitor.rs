//! The active monitor: probes one target, says when it is dead and when it is back.
//!
//! ```text
//!            `failures` probes in a row failed
//!   alive ────────────────────────────────────► dead
//!         ◄────────────────────────────────────
//!                    a probe was answered
//! ```
//!
//! One probe is under way at a time, and probing goes on whatever was found. A probe fails when its sender says so or
//! when it has not been answered for the timeout. The machine is told of answers before deadlines by a driver that
//! drains its inbox first, so an answer that waited while we ourselves stood still is not held against the target.

use std::collections::VecDeque;
use std::time::Duration;

use model::{Instant, Invalid};

/// How to probe. Death is noticed within `failures` intervals and one timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// From one probe to the next.
    pub interval: Duration,
    /// A probe not answered for this long has failed. At most the interval, so that probes do not overlap.
    pub timeout: Duration,
    /// So many failed probes in a row are a death; at least one. Three forgive a lost packet and a pause.
    pub failures: u32,
}

impl MonitorConfig {
    /// Notices a death within 3.5 s, and takes a pause of that length for one.
    pub const fn aggressive() -> Self {
        MonitorConfig { interval: Duration::from_secs(1), timeout: Duration::from_millis(500), failures: 3 }
    }

    /// Notices a death within 34 s, for targets that are often slow.
    pub const fn conservative() -> Self {
        MonitorConfig { interval: Duration::from_secs(10), timeout: Duration::from_secs(4), failures: 3 }
    }

    /// Refuses what cannot be probed by.
    pub fn check(self) -> Result<Self, Invalid> {
        let MonitorConfig { interval, timeout, failures } = self;
        if timeout.is_zero() || timeout > interval {
            return Err(Invalid::new(format!(
                "probe timeout of {timeout:?} is out of range; it must be above zero and at most the probe \
                 interval, {interval:?}"
            )));
        }
        if failures == 0 {
            return Err(Invalid::new("a monitor needs at least one failure to declare its target dead"));
        }
        Ok(self)
    }
}

impl Default for MonitorConfig {
    /// Notices a death within 17 s.
    fn default() -> Self {
        MonitorConfig { interval: Duration::from_secs(5), timeout: Duration::from_secs(2), failures: 3 }
    }
}

/// Something happened. What is said of any other probe than the one under way is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The target answered.
    Answered {
        /// Which probe.
        probe: u64,
    },
    /// The target certainly did not answer: it refused, or could not be reached.
    Failed {
        /// Which probe.
        probe: u64,
    },
}

/// Do this for me.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a probe, and say [`Input::Answered`] or [`Input::Failed`]; silence counts as failure after the timeout.
    Probe {
        /// Its number; numbers only grow.
        probe: u64,
    },
    /// The target is dead. Said once per death.
    Dead,
    /// The target answered after it had been declared dead.
    Recovered,
}

/// The machine. After each input or deadline, drain [`poll_output`](Self::poll_output) before the next.
#[derive(Debug)]
pub struct HeartbeatMonitor {
    config: MonitorConfig,
    /// The number of the latest probe.
    latest: u64,
    /// When the latest probe has failed if it is not answered; `None` once its fate is known.
    fails_at: Option<Instant>,
    /// When to send the next one.
    probe_at: Instant,
    /// How many in a row have failed.
    failed: u32,
    is_dead: bool,
    outputs: VecDeque<Output>,
}

impl HeartbeatMonitor {
    /// Takes the target to be alive, and probes it at once.
    ///
    /// # Panics
    ///
    /// When the config does not pass its own [`check`](MonitorConfig::check).
    pub fn new(config: MonitorConfig, now: Instant) -> Self {
        HeartbeatMonitor {
            config: config.check().expect("a monitor is built with a config that was checked"),
            latest: 0,
            fails_at: None,
            probe_at: now,
            failed: 0,
            is_dead: false,
            outputs: VecDeque::new(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, _now: Instant, input: Input) {
        let (Input::Answered { probe } | Input::Failed { probe }) = input;
        if probe != self.latest || self.fails_at.take().is_none() {
            return;
        }
        match input {
            Input::Answered { .. } => self.answered(),
            Input::Failed { .. } => self.count_failure(),
        }
    }

    /// Wake me then; a time that is past means now.
    pub fn next_deadline(&self) -> Option<Instant> {
        // A probe fails before the next is sent, since the timeout is not longer than the interval.
        Some(self.fails_at.unwrap_or(self.probe_at))
    }

    /// It is then.
    pub fn handle_deadline(&mut self, now: Instant) {
        if self.fails_at.take_if(|fails_at| *fails_at <= now).is_some() {
            self.count_failure();
        }
        if self.probe_at <= now {
            self.probe(now);
        }
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// True from [`Output::Dead`] to [`Output::Recovered`].
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    fn probe(&mut self, now: Instant) {
        self.latest += 1;
        self.fails_at = Some(now + self.config.timeout);
        // Counted from now, not from when it should have been: after we stood still there is no burst of probes that
        // could all fail at once.
        self.probe_at = now + self.config.interval;
        self.outputs.push_back(Output::Probe { probe: self.latest });
    }

    fn answered(&mut self) {
        self.failed = 0;
        if self.is_dead {
            self.is_dead = false;
            self.outputs.push_back(Output::Recovered);
        }
    }

    fn count_failure(&mut self) {
        self.failed = self.failed.saturating_add(1);
        if self.failed >= self.config.failures && !self.is_dead {
            self.is_dead = true;
            self.outputs.push_back(Output::Dead);
        }
    }
}

#[cfg(test)]
mod tests;
