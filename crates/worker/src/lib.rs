//! The SDK: a client for producers, and a runtime for workers.
//!
//! ```no_run
//! use worker::{JobContext, JobError, Worker};
//!
//! #[derive(serde::Deserialize)]
//! struct Welcome {
//!     to: String,
//! }
//!
//! # async fn run() -> Result<(), worker::BuildError> {
//! let worker = Worker::builder("http://127.0.0.1:7117")
//!     .queue("mail")
//!     .concurrency(16)
//!     .handle("welcome", |ctx: JobContext, mail: Welcome| async move {
//!         if !mail.to.contains('@') {
//!             return Err(JobError::dead("not an address"));
//!         }
//!         ctx.progress("sending")?;
//!         Ok(format!("sent to {}", mail.to))
//!     })
//!     .build()?;
//! worker.run_until(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Volatile queues
//!
//! A queue may be volatile: its server keeps its jobs in memory and nothing of them in a store, so that its speed is not
//! bounded by one. What the server does not keep, its clients do: a [`Submitter`] remembers a job until it has ended, and
//! submits it again, under the same id, when the server was restarted. A job runs at most once at a time; one whose end never
//! reached its client may run again after it. When the client's process ends, nobody remembers what had not ended.
//!
//! ```no_run
//! use rpc::wire::NewJob;
//! use worker::{Client, SubmitOptions};
//!
//! # async fn run() -> Result<(), worker::ClientError> {
//! let client = Client::connect("http://127.0.0.1:7117")?;
//! let submitter = client.submitter(SubmitOptions::default());
//! let job = NewJob { queue: "thumbnails".into(), payload: "\"cat.png\"".into(), ..NewJob::default() };
//! // Waits only while too many are in flight. Tickets are cheap: take thousands, then await them.
//! let ticket = submitter.submit(job).await?;
//! let end = ticket.await?;
//! println!("{} is {}: {:?}", end.id, end.state.word(), end.result);
//! submitter.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Workers serve volatile queues as they serve exclusive ones, with a [`guardian`](WorkerBuilder::guardian). Where one machine
//! should do the work of one place at a time, they sit in a [`seat`](WorkerBuilder::seat).
//!
//! | file | duty |
//! |---|---|
//! | `client`, `server` | unary calls, over one or several servers |
//! | `builder`, `fitness`, `worker` | the description of a worker, what is refused, its public face |
//! | `handler`, `context`, `job_error`, `event` | what handlers and observers see |
//! | `home` | what all handlers share: who the worker is just now |
//! | `session`, `link`, `frame` | the driver of the ledger (`lease::ledger`), its connection, its wire format |
//! | `route`, `watch` | which server it turns to, and when it leaves one |
//! | `jobs` | what waits and what runs, and how to end it |
//! | `submit` | jobs of volatile queues, seen through to their end |
//! | `healthcheck`, `told` | whether a job would run here just now; what the server tells, for the log |
//! | `guard`, `doom`, `farewell` | what makes sure that an exclusive job never outlives its lease |
//! | `exec` | runs each job as a process of the guardian |

mod backoff;
mod builder;
mod client;
mod context;
mod doom;
mod error;
mod event;
mod exec;
mod farewell;
pub mod fencing;
mod fitness;
mod frame;
mod guard;
mod handler;
mod healthcheck;
mod home;
mod job_error;
mod jobs;
mod key;
mod link;
mod route;
mod server;
mod session;
mod submit;
#[cfg(test)]
mod testing;
mod told;
mod watch;
mod worker;

/// The process that starts, guards and ends a worker's commands, and outlives the worker.
pub mod guardian {
    pub use ::guardian::{
        Conditions, Environment, Guardian, Isolation, Protection, StartError, User, run_if_asked,
    };
}

pub use builder::WorkerBuilder;
pub use client::{Client, Events, MESSAGE_BYTES_MAX, Watch};
pub use context::JobContext;
pub use error::{BuildError, CheckpointError, ClientError};
pub use event::{Summary, WorkerEvent, outcome_word};
pub use exec::ExecRunner;
pub use handler::ANY_KIND;
pub use job_error::JobError;
pub use lease::ledger::{KeyEnd, StopReason};
pub use submit::{End, SubmitOptions, Submitter, Ticket};
pub use worker::{Shutdown, Worker};
