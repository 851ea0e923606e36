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
//! | file | duty |
//! |---|---|
//! | `client`, `server` | unary calls, over one or several servers |
//! | `worker` | the builder and the public face of a worker |
//! | `handler`, `context`, `job_error`, `event` | what handlers and observers see |
//! | `home` | what all handlers share: who the worker is just now |
//! | `session`, `link`, `watch`, `frame` | the driver of the ledger (`lease::ledger`), its connection, its wire format |
//! | `exec` | runs each job as a process |

mod backoff;
mod client;
mod context;
mod error;
mod event;
mod exec;
mod frame;
mod handler;
mod home;
mod job_error;
mod key;
mod link;
mod server;
mod session;
#[cfg(test)]
mod testing;
mod watch;
mod worker;

pub use client::{Client, MESSAGE_BYTES_MAX, Watch};
pub use context::JobContext;
pub use error::{BuildError, CheckpointError, ClientError};
pub use event::{Summary, WorkerEvent, outcome_word};
pub use exec::ExecRunner;
pub use handler::ANY_KIND;
pub use job_error::JobError;
pub use lease::ledger::{KeyEnd, StopReason};
pub use worker::{Shutdown, Worker, WorkerBuilder};
