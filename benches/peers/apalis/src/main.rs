//! Drives apalis on PostgreSQL. Tuned: `BATCH` jobs in one fetch, no second write when a job starts, woken by NOTIFY.

#[path = "../../driver.rs"]
mod driver;

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};

use driver::{Handler, Queue};

const QUEUE: &str = "bench";
/// Jobs in one fetch.
const BATCH: usize = 1_000;
/// Also what wakes a worker to write down that jobs are done.
const POLL: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> driver::Result<()> {
    driver::drive::<Apalis>().await
}

#[derive(Clone)]
struct Apalis(PgPool);

impl Queue for Apalis {
    async fn open(url: &str) -> driver::Result<Apalis> {
        Ok(Apalis(PgPool::connect(url).await?))
    }

    async fn setup(&self) -> driver::Result<()> {
        Ok(PostgresStorage::setup(&self.0).await?)
    }

    async fn enqueue(&self, payloads: Vec<String>) -> driver::Result<()> {
        let task = |payload: String| TaskBuilder::new(format!("\"{payload}\"").into_bytes()).build();
        let mut connection = self.0.acquire().await?;
        let tasks = payloads.into_iter().map(task).collect();
        Ok(apalis_postgres::queries::push_tasks(&mut *connection, QUEUE, tasks).await?)
    }

    async fn work(&self, handler: Handler, fast: bool) -> driver::Result<()> {
        let mut config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        if fast {
            // Whole seconds are the smallest unit of the check; three beats missed.
            config = config.heartbeat_interval(Duration::from_secs(1)).missed_heartbeats(3);
        }
        let backend = PostgresStorage::<String>::new(&self.0)
            .with_config(config)
            .with_pubsub()
            .poll_with_interval(POLL);
        let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()))
            .backend(backend)
            .data(handler)
            .build(handle);
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("apalis: {error}");
                std::process::exit(1);
            }
        });
        Ok(())
    }

    async fn is_drained(&self) -> driver::Result<bool> {
        let open = "SELECT FROM apalis.jobs WHERE status <> 'Done' LIMIT 1";
        Ok(sqlx::query(open).fetch_optional(&self.0).await?.is_none())
    }
}

async fn handle(payload: String, handler: Data<Handler>) -> Result<(), BoxDynError> {
    handler.run(&payload).await;
    Ok(())
}
