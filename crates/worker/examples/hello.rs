//! A worker with one typed handler. Start a server, run this, and give it work:
//!
//! ```text
//! tenure serve
//! cargo run -p worker --example hello
//! tenure enqueue mail --kind welcome '{"to": "ada@example.org"}'
//! ```

use serde::{Deserialize, Serialize};
use worker::{JobContext, JobError, Worker, WorkerEvent};

#[derive(Deserialize)]
struct Welcome {
    to: String,
}

#[derive(Serialize)]
struct Sent {
    bytes: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::var("TENURE_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7117".to_owned());
    let worker = Worker::builder(server)
        .queue("mail")
        .concurrency(16)
        .handle("welcome", |ctx: JobContext, mail: Welcome| async move {
            if !mail.to.contains('@') {
                // Trying again will not make it an address.
                return Err(JobError::dead(format!("{:?} is not an address", mail.to)));
            }
            ctx.progress("writing")?;
            // The fence makes the effect safe to repeat: a mail server that remembers it refuses an older one.
            let text = format!("Welcome, {}! (job {}, fence {})", mail.to, ctx.job_id(), ctx.fence());
            println!("{text}");
            Ok(Sent { bytes: text.len() })
        })
        .on_event(|event| match event {
            WorkerEvent::Connected { server } => eprintln!("connected to {server}"),
            WorkerEvent::Unreachable { why } => eprintln!("{why}; trying again"),
            _ => {}
        })
        .build()?;

    // The first Ctrl-C drains, the second one ends at once.
    let shutdown = worker.shutdown();
    let summary = worker
        .run_until(async move {
            let _ = tokio::signal::ctrl_c().await;
            tokio::spawn(async move {
                let _ = tokio::signal::ctrl_c().await;
                shutdown.abort();
            });
        })
        .await;
    eprintln!("{summary:?}");
    Ok(())
}
