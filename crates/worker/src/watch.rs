//! Watches the server of a stream, so that a frozen one is left before the lease is over.
//!
//! A server that is stopped keeps its connections open: nothing breaks, nothing comes. The monitor probes it beside the
//! stream; three probes in a row without an answer are a death.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease::monitor::{HeartbeatMonitor, Input, MonitorConfig, Output};
use model::{Clock, Limits};
use tokio::time;

use crate::home::Home;
use crate::server::Server;

/// The longest time between two probes.
const INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Probes per lease. Three failures and a timeout then take seven tenths of it.
const PROBES_PER_LEASE: u32 = 5;
/// Failures in a row that are a death.
const FAILURES: u32 = 3;

/// A watched server.
pub(crate) struct Watch {
    server: Server,
    home: Arc<Home>,
    clock: Arc<dyn Clock>,
    /// The lease that the monitor was made for.
    lease: Duration,
    monitor: HeartbeatMonitor,
    probe: Option<Probe>,
}

/// A probe under way.
struct Probe {
    number: u64,
    answer: Pin<Box<dyn Future<Output = bool> + Send>>,
}

impl Watch {
    /// Watches this server on behalf of the worker at home there.
    pub(crate) fn new(server: Server, home: Arc<Home>, clock: Arc<dyn Clock>) -> Self {
        let lease = home.lease();
        let monitor = HeartbeatMonitor::new(config(lease), clock.monotonic());
        Watch { server, home, clock, lease, monitor, probe: None }
    }

    /// Returns when the server is dead. May be dropped and called again at any point.
    pub(crate) async fn dead(&mut self) {
        loop {
            while let Some(output) = self.monitor.poll_output() {
                match output {
                    Output::Probe { probe } => self.send(probe),
                    Output::Dead => return,
                    Output::Recovered => {}
                }
            }
            let wake_in = self.monitor.next_deadline().map(|at| at.since(self.clock.monotonic()));
            tokio::select! {
                // An answer that waited while this process stood still is not held against the server.
                biased;
                input = answer(&mut self.probe) => self.monitor.handle(self.clock.monotonic(), input),
                () = self.home.lease_changed(self.lease) => self.follow_lease(),
                () = time::sleep(wake_in.unwrap_or(INTERVAL_MAX)) => {
                    self.monitor.handle_deadline(self.clock.monotonic());
                }
            }
        }
    }

    /// A server may grant another lease than the one that was expected.
    fn follow_lease(&mut self) {
        self.lease = self.home.lease();
        self.monitor = HeartbeatMonitor::new(config(self.lease), self.clock.monotonic());
        self.probe = None;
    }

    fn send(&mut self, number: u64) {
        let server = self.server.clone();
        let answer = Box::pin(async move { server.answers_probe().await });
        // One that is still under way has failed already; it is dropped.
        self.probe = Some(Probe { number, answer });
    }
}

fn config(lease: Duration) -> MonitorConfig {
    let interval = (lease.max(Limits::LEASE_MIN) / PROBES_PER_LEASE).min(INTERVAL_MAX);
    MonitorConfig { interval, timeout: interval / 2, failures: FAILURES }
}

/// Waits for the answer of the probe under way; for ever if there is none.
async fn answer(probe: &mut Option<Probe>) -> Input {
    let Some(Probe { number, answer }) = probe else { return std::future::pending().await };
    let number = *number;
    let is_answered = answer.await;
    *probe = None;
    if is_answered { Input::Answered { probe: number } } else { Input::Failed { probe: number } }
}
