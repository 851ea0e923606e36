//! The last resort against an exclusive job that does not end: this process ends with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::{Hold, JobId};
use tokio::time;
use tokio_util::sync::CancellationToken;

/// What happens then.
#[derive(Clone, Default)]
pub(crate) struct Doom(Option<Arc<dyn Fn(JobId) + Send + Sync>>);

impl Doom {
    /// This instead of the end, for tests.
    pub(crate) fn instead(hook: impl Fn(JobId) + Send + Sync + 'static) -> Self {
        Doom(Some(Arc::new(hook)))
    }

    /// Ends this process unless everyone is gone within this time.
    pub(crate) async fn strike_unless(self, gone: CancellationToken, wait: Duration, hold: Hold) {
        if time::timeout(wait, gone.cancelled()).await.is_err() {
            self.strike(hold);
        }
    }

    /// Ends this process. Does not unwind and runs no destructors: they could wait for the very job that does not end.
    pub(crate) fn strike(&self, Hold { job, fence }: Hold) {
        tracing::error!(job_id = %job, %fence, "an exclusive job did not end when it had to; ending this process with it");
        match &self.0 {
            Some(hook) => hook(job),
            None => std::process::abort(),
        }
    }
}

impl fmt::Debug for Doom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Doom(hook)" } else { "Doom(abort)" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use model::{Fence, JobId};

    use super::*;

    #[tokio::test]
    async fn only_what_is_gone_in_time_spares_the_process() {
        let hold = Hold { job: JobId::from_bytes([7; 16]), fence: Fence::new(1) };
        for is_gone in [true, false] {
            let struck = Arc::new(AtomicBool::new(false));
            let hook = Arc::clone(&struck);
            let doom = Doom::instead(move |job| hook.store(job == hold.job, Ordering::SeqCst));
            let gone = CancellationToken::new();
            if is_gone {
                gone.cancel();
            }
            doom.strike_unless(gone, Duration::from_millis(1), hold).await;
            assert_eq!(struck.load(Ordering::SeqCst), !is_gone);
        }
    }
}
