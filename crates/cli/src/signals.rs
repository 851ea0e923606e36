//! Ctrl-C and SIGTERM. The first asks for a good end, the second ends at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::exit::{Exit, Failure};
use crate::stderr;

/// While this lives, a write beyond the file-size limit (`ulimit -f`) is an error like a full disk, not our death.
pub(crate) fn survive_file_size_limit() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
}

/// Runs a command that has processes of its own. A signal ends it by dropping it, and with it those processes.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut signals = Signals::catch()?;
    tokio::select! {
        done = work => done,
        () = signals.next() => Err(Failure::failed("interrupted; its processes are ended").into()),
    }
}

/// Both signals, caught from the moment this exists.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Must be called inside a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of the two.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// A token that the first signal fires. The second calls `end`, for whoever does not want to wait; should even that
    /// take long, the third ends the process as it is.
    pub(crate) fn drain_on_first(mut self, end: impl FnOnce() + Send + 'static) -> CancellationToken {
        let token = CancellationToken::new();
        let fired = token.clone();
        tokio::spawn(async move {
            self.next().await;
            warn!("stopping; a second signal ends at once");
            fired.cancel();
            self.next().await;
            warn!("ending at once");
            end();
            self.next().await;
            end_process();
        });
        token
    }
}

/// Ends the process as it is.
pub(crate) fn end_process() {
    stderr::flush();
    std::process::exit(Exit::Failed as i32);
}
