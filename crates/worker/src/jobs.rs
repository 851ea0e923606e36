//! The jobs in hand: those that wait for their start, and those that run, each with the way to stop and to end it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lease::ledger::{Grant, StopReason};
use model::Hold;
use rpc::wire;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::context::JobContext;
use crate::exec::ExecTerms;
use crate::guard::Guard;
use crate::handler::{self, Handler, Handlers};
use crate::home::{Home, JobEvent};

/// Every job of a session that has not ended.
pub(crate) struct Jobs {
    handlers: Handlers,
    home: Arc<Home>,
    kill_wait: Duration,
    /// The job that is being handed in just now.
    arrived: Option<Assigned>,
    /// Exclusive ones, which start only when their bind is acknowledged.
    waiting: HashMap<Hold, Assigned>,
    running: HashMap<Hold, Running>,
}

/// A job that has not started.
pub(crate) struct Assigned {
    pub(crate) context: JobContext,
    payload: Bytes,
}

struct Running {
    context: JobContext,
    place: Place,
}

/// Where a job runs, and how to end it there.
enum Place {
    /// In a task of this process.
    Inside(AbortHandle),
    /// In a process of its own. The task that waits for its end is never aborted: it ends when the whole family has.
    Family {
        /// Kills the family.
        abort: CancellationToken,
        /// Fires when nobody of it is left.
        gone: CancellationToken,
    },
}

impl Jobs {
    pub(crate) fn new(handlers: Handlers, home: Arc<Home>, kill_wait: Duration) -> Self {
        Jobs { handlers, home, kill_wait, arrived: None, waiting: HashMap::new(), running: HashMap::new() }
    }

    /// How often the handler of this kind must say that it gets on.
    pub(crate) fn heartbeat_timeout(&self, kind: &str) -> Option<Duration> {
        self.handlers.heartbeat_timeout(kind)
    }

    /// A job was assigned; the ledger is about to say what becomes of it.
    pub(crate) fn arrive(&mut self, grant: &Grant, mut assignment: wire::Assignment) {
        let payload = std::mem::take(&mut assignment.payload);
        let context = JobContext::new(grant, assignment, Arc::clone(&self.home));
        self.arrived = Some(Assigned { context, payload });
    }

    /// The ledger has said all it has to say about the job that arrived. An exclusive one waits for its start now, if
    /// `is_held` says so: a job that was refused without a word never starts.
    pub(crate) fn settle(&mut self, is_held: impl FnOnce(Hold) -> bool) {
        if let Some(assigned) = self.arrived.take()
            && assigned.context.is_exclusive()
            && is_held(assigned.context.hold())
        {
            self.waiting.insert(assigned.context.hold(), assigned);
        }
    }

    /// Takes the job that is to start now, or never.
    pub(crate) fn take(&mut self, hold: Hold) -> Option<Assigned> {
        let arrived = self.arrived.take_if(|assigned| assigned.context.hold() == hold);
        // Usually nobody waits, and this is asked at the end of every job.
        arrived.or_else(|| if self.waiting.is_empty() { None } else { self.waiting.remove(&hold) })
    }

    /// Starts the handler of a job. An exclusive one inside this process asks `is_in_time` once more when the guardian has
    /// been told of it: we may have been frozen since the start was decided.
    pub(crate) fn start(
        &mut self,
        assigned: Assigned,
        guard: &Guard,
        is_in_time: impl Fn() -> bool + Send + 'static,
    ) {
        let Assigned { context, payload } = assigned;
        let hold = context.hold();
        let Some(handler) = self.handlers.find(context.kind()).cloned() else {
            let ended = handler::unhandled(context.kind());
            let _ = self.home.events.send(JobEvent::Finished { hold, ended, at: None });
            return;
        };
        let place = self.spawn(handler, context.clone(), payload, guard, is_in_time);
        self.running.insert(hold, Running { context, place });
    }

    /// Fires the job's cancellation token.
    pub(crate) fn stop(&self, hold: Hold, reason: StopReason) {
        if let Some(job) = self.running.get(&hold) {
            job.context.stop(reason);
        }
    }

    /// Ends the job, if that ends it for certain. What an exclusive handler inside this process has handed to other threads
    /// or tasks would go on after its own task was ended, unnoticed; so it ends by itself, or with the process.
    pub(crate) fn abort(&self, hold: Hold) {
        if let Some(job) = self.running.get(&hold)
            && !(job.context.is_exclusive() && matches!(job.place, Place::Inside(_)))
        {
            job.place.abort();
        }
    }

    /// Ends them all.
    pub(crate) fn abort_all(&self) {
        for job in self.running.values() {
            job.place.abort();
        }
    }

    /// The job has ended.
    pub(crate) fn remove(&mut self, hold: Hold) {
        self.running.remove(&hold);
    }

    /// What runs for this job.
    pub(crate) fn context(&self, hold: Hold) -> Option<&JobContext> {
        self.running.get(&hold).map(|job| &job.context)
    }

    /// Fires when nobody of the job's family is left, if it is one.
    pub(crate) fn family_gone(&self, hold: Hold) -> Option<CancellationToken> {
        match &self.running.get(&hold)?.place {
            Place::Family { gone, .. } => Some(gone.clone()),
            Place::Inside(_) => None,
        }
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    fn spawn(
        &self,
        handler: Handler,
        context: JobContext,
        payload: Bytes,
        guard: &Guard,
        is_in_time: impl Fn() -> bool + Send + 'static,
    ) -> Place {
        let events = self.home.events.clone();
        match handler {
            Handler::Inside(inside) => {
                let entry = context.is_exclusive().then(|| guard.enter());
                let run = inside.run(context, payload, events);
                let task = tokio::spawn(async move {
                    // Without a run, its end says that it was aborted.
                    if entry.is_none() || is_in_time() {
                        run.await;
                    }
                    drop(entry);
                });
                Place::Inside(task.abort_handle())
            }
            Handler::Exec(runner) => {
                let (abort, gone) = (CancellationToken::new(), CancellationToken::new());
                let is_gone = gone.clone();
                let terms = ExecTerms {
                    guardian: guard.guardian().expect("no command is taken without a guardian").clone(),
                    kill_wait: self.kill_wait,
                    abort: abort.clone(),
                };
                tokio::spawn(async move {
                    let hold = context.hold();
                    let (ended, at) = runner.run(terms, context, payload).await;
                    is_gone.cancel();
                    let _ = events.send(JobEvent::Finished { hold, ended, at });
                });
                Place::Family { abort, gone }
            }
        }
    }
}

/// A session that is dropped takes its jobs with it: nobody would stop them in time.
impl Drop for Jobs {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl Place {
    fn abort(&self) {
        match self {
            Place::Inside(task) => task.abort(),
            Place::Family { abort, .. } => abort.cancel(),
        }
    }
}
