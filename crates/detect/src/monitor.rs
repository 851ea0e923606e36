//! The active monitor as a task: probes one target and calls back when it dies and when it is back.

use std::fmt::Display;
use std::future::pending;
use std::pin::Pin;

use lease::monitor::{HeartbeatMonitor, Input, MonitorConfig, Output};
use model::Instant;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{self, sleep_until};
use tracing::{debug, info};

/// What happened to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// As many probes in a row as the config says have failed. Told once per death.
    Dead,
    /// It answered again.
    Recovered,
}

/// Keeps the target watched. Dropping it stops that at once, with the probe that is under way.
#[derive(Debug)]
#[must_use = "dropping it stops the watching"]
pub struct Watch {
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches one target: probes it now and at each interval, and tells `on_change` when it dies and when it recovers. A
/// probe fails by its error, by a panic, or by taking longer than the timeout, when it is dropped. A panic of `probe`
/// itself or of `on_change` ends the watching.
///
/// # Panics
///
/// When the config does not pass its own [`check`](MonitorConfig::check), and outside a tokio runtime.
pub fn watch<P, F, E>(
    config: MonitorConfig,
    probe: P,
    on_change: impl FnMut(Change) + Send + 'static,
) -> Watch
where
    P: FnMut() -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let config = config.check().expect("a target is watched with a config that was checked");
    Watch { task: tokio::spawn(run(config, probe, on_change)).abort_handle() }
}

async fn run<P, F, E>(config: MonitorConfig, mut probe: P, mut on_change: impl FnMut(Change))
where
    P: FnMut() -> F,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let began = time::Instant::now();
    let now = || Instant::ZERO + began.elapsed();
    let mut monitor = HeartbeatMonitor::new(config, now());
    let mut under_way = None;
    loop {
        while let Some(output) = monitor.poll_output() {
            match output {
                Output::Probe { probe: number } => under_way = Some(UnderWay::start(number, probe())),
                Output::Dead => {
                    info!(failures = config.failures, "target is dead");
                    on_change(Change::Dead);
                }
                Output::Recovered => {
                    info!("target has recovered");
                    on_change(Change::Recovered);
                }
            }
        }
        let deadline = monitor.next_deadline().expect("a monitor always has a next probe");
        let ended = tokio::select! {
            // An answer that is there counts, even if we come too late to look at it.
            biased;
            input = UnderWay::end(&mut under_way) => Some(input),
            () = sleep_until(began + deadline.since(Instant::ZERO)) => None,
        };
        // Ended, or it had its time: while a probe is under way, the next deadline is its timeout.
        under_way = None;
        match ended {
            Some(input) => monitor.handle(now(), input),
            None => monitor.handle_deadline(now()),
        }
    }
}

/// A probe in a task of its own, so that its panic is a failure of the target and not ours.
struct UnderWay<E> {
    number: u64,
    task: JoinHandle<Result<(), E>>,
}

impl<E: Display + Send + 'static> UnderWay<E> {
    fn start(number: u64, probe: impl Future<Output = Result<(), E>> + Send + 'static) -> Self {
        UnderWay { number, task: tokio::spawn(probe) }
    }

    /// How the probe ended; never, if there is none.
    async fn end(under_way: &mut Option<Self>) -> Input {
        let Some(UnderWay { number, task }) = under_way else { return pending().await };
        let probe = *number;
        match Pin::new(task).await {
            Ok(Ok(())) => return Input::Answered { probe },
            Ok(Err(error)) => debug!(probe, %error, "probe failed"),
            Err(error) => debug!(probe, %error, "probe failed"),
        }
        Input::Failed { probe }
    }
}

impl<E> Drop for UnderWay<E> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
