//! Drives awa. Tuned: enqueued by COPY, `SLOTS` jobs at once, no deadline of the attempt (its cheap path; a lost
//! worker's jobs are still found by heartbeat).

#[path = "../../driver.rs"]
mod driver;

use std::time::Duration;

use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

use driver::{Handler, Queue, Result};

const QUEUE: &str = "bench";
const SLOTS: u32 = 1_024;

#[tokio::main]
async fn main() -> Result<()> {
    driver::drive::<Awa>().await
}

#[derive(Serialize, Deserialize, JobArgs)]
struct Noop {
    payload: String,
}

#[derive(Clone)]
struct Awa(PgPool);

impl Queue for Awa {
    async fn open(url: &str) -> Result<Awa> {
        Ok(Awa(sqlx::postgres::PgPoolOptions::new().max_connections(20).connect(url).await?))
    }

    async fn setup(&self) -> Result<()> {
        Ok(awa::migrations::run(&self.0).await?)
    }

    async fn enqueue(&self, payloads: Vec<String>) -> Result<()> {
        let opts = || InsertOpts { queue: QUEUE.into(), ..Default::default() };
        if let [payload] = &payloads[..] {
            awa::insert_with(&self.0, &Noop { payload: payload.clone() }, opts()).await?;
            return Ok(());
        }
        let insert = |payload| awa::insert::params_with(&Noop { payload }, opts());
        let jobs = payloads.into_iter().map(insert).collect::<std::result::Result<Vec<_>, _>>()?;
        storage()?.enqueue_params_copy(&self.0, &jobs).await?;
        Ok(())
    }

    async fn work(&self, handler: Handler, fast: bool) -> Result<()> {
        let queue =
            QueueConfig { max_workers: SLOTS, deadline_duration: Duration::ZERO, ..QueueConfig::default() };
        let mut builder = Client::builder(self.0.clone()).queue(QUEUE, queue).register::<Noop, _, _>(
            move |job: Noop, _| {
                let handler = handler.clone();
                async move {
                    handler.run(&job.payload).await;
                    Ok(JobResult::Completed)
                }
            },
        );
        if fast {
            // What its documentation gives for the fastest detection.
            let second = Duration::from_secs(1);
            builder = builder
                .heartbeat_interval(second)
                .heartbeat_staleness(4 * second)
                .heartbeat_rescue_interval(second)
                .leader_election_interval(second)
                .promote_interval(Duration::from_millis(250));
        }
        let client = builder.build()?;
        client.start().await?;
        // It works until the process ends.
        std::mem::forget(client);
        Ok(())
    }

    async fn is_drained(&self) -> Result<bool> {
        // Its own exact count takes half a second; these are the tables it comes from.
        let drained = "SELECT (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
            + (SELECT count(*) FROM awa.done_entries) >= (SELECT count(*) FROM awa.ready_entries)";
        Ok(sqlx::query_scalar(drained).fetch_one(&self.0).await?)
    }
}

fn storage() -> Result<QueueStorage> {
    Ok(QueueStorage::new(QueueStorageConfig::default())?)
}
