//! A worker whose handler writes to its own SQLite database, which refuses what a stale holder writes. Start a server, run this
//! once or several times, and give it work; freeze one (`kill -STOP`) for longer than its lease to make it stale:
//!
//! ```text
//! tenure serve
//! cargo run -p worker --example fenced -- payments.db
//! tenure enqueue payments --kind pay '{"account": "ada", "cents": 1250}'
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use serde::Deserialize;
use worker::fencing::sqlite;
use worker::{JobContext, JobError, Worker};

/// The worker's own table.
const CREATE_PAYMENTS: &str = "\
CREATE TABLE IF NOT EXISTS payments (
    job TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    cents INTEGER NOT NULL
) STRICT";
/// The fence keeps zombies out. That an earlier attempt may have booked it already is for the primary key.
const BOOK: &str =
    "INSERT INTO payments (job, account, cents) VALUES (?1, ?2, ?3) ON CONFLICT (job) DO NOTHING";

/// How long a handler waits for others that write to the same database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Pay {
    account: String,
    cents: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "payments.db".into()));
    let server = std::env::var("TENURE_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7117".to_owned());
    prepare(&file)?;
    let worker = Worker::builder(server)
        .queue("payments")
        .concurrency(4)
        .handle("pay", move |ctx: JobContext, pay: Pay| {
            let file = file.clone();
            async move {
                // The slow part comes before the transaction: a process that freezes inside one keeps everybody waiting.
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(2)) => {}
                    () = ctx.cancelled() => return Err(JobError::retry("told to stop")),
                }
                // No check of our own here that we still hold the job: it could be over a moment later. The database decides.
                let (job, fence) = (ctx.job_id().to_string(), ctx.fence().get());
                tokio::task::spawn_blocking(move || book(&file, &job, fence, &pay)).await?
            }
        })
        .build()?;
    worker
        .run_until(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await;
    Ok(())
}

/// Creates the worker's own table and, beside it, the guard.
fn prepare(file: &Path) -> rusqlite::Result<()> {
    let db = open(file)?;
    db.execute_batch(CREATE_PAYMENTS)?;
    db.execute_batch(sqlite::CREATE_TABLE)?;
    // With it a stale fence is an error, also for someone who forgets to look whether a row came back.
    db.execute_batch(sqlite::CREATE_TRIGGER)
}

/// Books the payment, unless a later claim of the same job has been here.
fn book(file: &Path, job: &str, fence: i64, pay: &Pay) -> Result<(), JobError> {
    let mut db = open(file)?;
    // Immediate: whoever else has this job waits here, or makes us wait.
    let write = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The guard comes first, so that all that follows is read and written behind it. One resource per job: only fences of the
    // same job are compared. If ours is stale this is an error, and the transaction is rolled back as it is dropped.
    write.query_row(sqlite::ADVANCE, (format!("job/{job}"), fence), |row| row.get::<_, i64>(0))?;
    write.execute(BOOK, (job, &pay.account, pay.cents))?;
    write.commit()?;
    println!("booked {} cents for {} (job {job}, fence {fence})", pay.cents, pay.account);
    Ok(())
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(file)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}
