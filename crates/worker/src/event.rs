//! What a worker tells about itself: events while it runs, a summary at its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::ledger::{KeyEnd, StopReason};
use model::{Fence, Hold, JobId, Outcome, Retry, WorkerKey};

/// Something an observer may want to know. Given by the hook of `WorkerBuilder::on_event`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// A stream to this server is up.
    Connected {
        /// Its address.
        server: String,
    },
    /// No stream could be opened; it is tried again, on the next server if there are several.
    Unreachable {
        /// What went wrong.
        why: String,
    },
    /// The stream is gone. Running handlers go on; it is reconnected.
    Disconnected {
        /// What ended it.
        why: String,
    },
    /// The server knows this worker and believes in it for this long after every heartbeat.
    Registered {
        /// The instance key.
        key: WorkerKey,
        /// The lease granted.
        lease: Duration,
    },
    /// The old instance key is over; the worker registers anew under this one.
    NewKey {
        /// The new key.
        key: WorkerKey,
        /// What ended the old one.
        why: KeyEnd,
    },
    /// A handler starts.
    Started {
        /// The job.
        job: JobId,
        /// The fence of this claim.
        fence: Fence,
        /// Which counted start this is, from 1.
        attempt: u32,
    },
    /// A handler ended and this will be reported.
    Finished {
        /// The job.
        job: JobId,
        /// The fence of this claim.
        fence: Fence,
        /// How it ended.
        outcome: Outcome,
    },
    /// A handler of a lost job ended; nothing is reported.
    Dropped {
        /// The job.
        job: JobId,
        /// The fence of this claim.
        fence: Fence,
    },
    /// The server took the report.
    Accepted {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// The server refused a report: someone else holds the job, or it ended otherwise.
    Refused {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
        /// The job's fence now; zero when it does not exist any more.
        current_fence: Fence,
    },
    /// The job is not ours any more; its handler is told to stop.
    Lost {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// The server was not heard for a whole lease, or for as much of it as an exclusive job may run; its handler is told to
    /// stop.
    LeaseOver {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// Someone cancelled the job; its handler is told to stop.
    Cancelled {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// The attempt ran for longer than its time limit; its handler is told to stop.
    TimedOut {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// The handler did not say for too long that it gets on; it is told to stop.
    Wedged {
        /// The job.
        job: JobId,
        /// The fence of our claim.
        fence: Fence,
    },
    /// The worker offered itself to exclusive queues, but the lease that the server grants is too short for that: it gets
    /// none of their jobs. Told once.
    ExclusiveUnfit {
        /// The lease granted.
        lease: Duration,
        /// The shortest lease that would do, with this kill wait and safety.
        needed: Duration,
    },
    /// The guardian is gone: what it guarded is ended, and the worker ends.
    GuardianLost,
    /// The worker takes no more work.
    Draining,
}

/// What a worker did in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Handlers that completed their job.
    pub completed: u64,
    /// Handlers that failed, to be retried or not.
    pub failed: u64,
    /// Jobs given back unharmed.
    pub handed_back: u64,
    /// Jobs that stopped being ours while their handler ran.
    pub lost: u64,
    /// Reports the server refused.
    pub refused: u64,
    /// Outcomes that could not be delivered before the end.
    pub unreported: u64,
    /// Handlers that were still running at the end.
    pub still_running: u64,
    /// It ended because its guardian was gone.
    pub guardian_lost: bool,
}

impl Summary {
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Completed { .. } => self.completed += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::HandedBack => self.handed_back += 1,
        }
    }
}

/// The observer's hook, or none.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<dyn Fn(WorkerEvent) + Send + Sync>>);

impl Observer {
    pub(crate) fn new(hook: impl Fn(WorkerEvent) + Send + Sync + 'static) -> Self {
        Observer(Some(Arc::new(hook)))
    }

    /// Makes the event only if someone listens.
    pub(crate) fn tell(&self, event: impl FnOnce() -> WorkerEvent) {
        if let Some(hook) = &self.0 {
            hook(event());
        }
    }

    /// A handler is told to stop. Nothing is told of a drain: that was told for all of them.
    pub(crate) fn stopped(&self, hold: Hold, reason: StopReason) {
        let Hold { job, fence } = hold;
        match reason {
            StopReason::Lost => self.tell(|| WorkerEvent::Lost { job, fence }),
            StopReason::LeaseOver => self.tell(|| WorkerEvent::LeaseOver { job, fence }),
            StopReason::Cancelled => self.tell(|| WorkerEvent::Cancelled { job, fence }),
            StopReason::TimedOut => self.tell(|| WorkerEvent::TimedOut { job, fence }),
            StopReason::Wedged => self.tell(|| WorkerEvent::Wedged { job, fence }),
            StopReason::Draining => {}
        }
    }

    pub(crate) fn finished(&self, hold: Hold, outcome: Option<Outcome>) {
        let Hold { job, fence } = hold;
        self.tell(|| match outcome {
            Some(outcome) => WorkerEvent::Finished { job, fence, outcome },
            None => WorkerEvent::Dropped { job, fence },
        });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer(hook)" } else { "Observer(none)" })
    }
}

/// The outcome in one word, as the wire spells it.
pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Failed { retry: Retry::Never, .. } => "dead",
        Outcome::Failed { .. } => "failed",
        Outcome::HandedBack => "handed_back",
    }
}
