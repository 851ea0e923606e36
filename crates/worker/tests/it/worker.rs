//! Workers for the tests, each in a task of its own.

use std::path::Path;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::guardian::{Conditions, Guardian, Isolation};
use worker::{JobContext, JobError, Shutdown, StopReason, Summary, Worker, WorkerBuilder, WorkerEvent};

use crate::support::patiently;

/// A worker in a task of its own.
pub(crate) struct Running {
    summary: JoinHandle<Summary>,
    pub(crate) drain: CancellationToken,
    pub(crate) shutdown: Shutdown,
    events: mpsc::UnboundedReceiver<WorkerEvent>,
}

impl Running {
    pub(crate) fn start(builder: WorkerBuilder) -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        let worker = builder
            .on_event(move |event| drop(tell.send(event)))
            .build()
            .expect("the tests describe workers that can be built");
        let drain = CancellationToken::new();
        let signal = drain.clone().cancelled_owned();
        let shutdown = worker.shutdown();
        let summary = tokio::spawn(worker.run_until(signal));
        Running { summary, drain, shutdown, events }
    }

    /// Waits for the first event in which something is found.
    pub(crate) async fn event<T>(&mut self, mut find: impl FnMut(WorkerEvent) -> Option<T>) -> T {
        patiently("an event", async {
            loop {
                let event = self.events.recv().await.expect("the worker runs");
                if let Some(found) = find(event) {
                    return found;
                }
            }
        })
        .await
    }

    /// What happened that nobody has asked for yet.
    pub(crate) fn events_so_far(&mut self) -> Vec<WorkerEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Drops the worker as it runs.
    pub(crate) fn drop_it(&self) {
        self.summary.abort();
    }

    pub(crate) async fn end(self) -> Summary {
        patiently("the worker's end", self.summary).await.expect("the worker does not panic")
    }
}

/// A worker of queue "q" with four slots.
pub(crate) fn builder(servers: &str) -> WorkerBuilder {
    Worker::builder(servers).queue("q").concurrency(4)
}

/// A guardian for one worker.
pub(crate) fn guardian() -> Guardian {
    let program = Path::new(env!("CARGO_BIN_EXE_worker-guardian"));
    Guardian::start_program(program, &Conditions::isolated(Isolation::Groups))
        .expect("a guardian can be started")
}

/// A handler that gives its payload back.
pub(crate) fn echo(servers: &str) -> WorkerBuilder {
    builder(servers).handle_raw("work", |_, payload| async move { Ok(payload) })
}

/// A handler that tells when it was told to stop, then fails.
pub(crate) fn stoppable(servers: &str) -> (WorkerBuilder, mpsc::UnboundedReceiver<StopReason>) {
    let (tell, told) = mpsc::unbounded_channel();
    let builder = builder(servers).handle_raw("work", move |ctx: JobContext, _| {
        let tell = tell.clone();
        async move {
            ctx.cancelled().await;
            let _ = tell.send(ctx.stop_reason().expect("there is a reason"));
            Err(JobError::retry("interrupted"))
        }
    });
    (builder, told)
}
