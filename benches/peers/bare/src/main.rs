//! A queue of bare SQL: one statement takes a batch, one deletes it. No lease, no retry, no record: a worker that dies
//! loses its jobs. It shows what PostgreSQL itself allows, and is nothing to use.

#[path = "../../driver.rs"]
mod driver;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use driver::{Handler, Queue, Result};

/// Jobs in one statement at most, and connections that take jobs.
const TAKE_MAX: usize = 500;
const TAKERS: usize = 2;

const SCHEMA: &str =
    "CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text NOT NULL,
        taken boolean NOT NULL DEFAULT false);
    CREATE INDEX job_free ON job (id) WHERE NOT taken";
const ENQUEUE: &str =
    "WITH new AS (INSERT INTO job (payload) SELECT unnest($1::text[])) SELECT pg_notify('job', '')";
const CLAIM: &str = "UPDATE job SET taken = true WHERE id IN
        (SELECT id FROM job WHERE NOT taken ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload";
const FINISH: &str = "DELETE FROM job WHERE id = ANY($1)";

#[tokio::main]
async fn main() -> Result<()> {
    driver::drive::<Bare>().await
}

#[derive(Clone)]
struct Bare {
    url: String,
    /// One for each enqueue call under way.
    clients: Arc<[Client; 4]>,
    next: Arc<std::sync::atomic::AtomicUsize>,
    news: Arc<Notify>,
}

impl Queue for Bare {
    async fn open(url: &str) -> Result<Bare> {
        let news = Arc::new(Notify::new());
        let connect = || connect(url, Arc::clone(&news));
        let clients = [connect().await?, connect().await?, connect().await?, connect().await?];
        Ok(Bare { url: url.to_owned(), clients: Arc::new(clients), next: Arc::default(), news })
    }

    async fn setup(&self) -> Result<()> {
        Ok(self.clients[0].batch_execute(SCHEMA).await?)
    }

    async fn enqueue(&self, payloads: Vec<String>) -> Result<()> {
        let turn = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let client = &self.clients[turn % self.clients.len()];
        client.query_typed(ENQUEUE, &[(&payloads, tokio_postgres::types::Type::TEXT_ARRAY)]).await?;
        Ok(())
    }

    async fn work(&self, handler: Handler, _fast: bool) -> Result<()> {
        self.clients[0].batch_execute("LISTEN job").await?;
        for _ in 0..TAKERS {
            let client = connect(&self.url, Arc::clone(&self.news)).await?;
            let (handler, news) = (handler.clone(), Arc::clone(&self.news));
            tokio::spawn(async move {
                if let Err(error) = take(&client, &handler, &news).await {
                    eprintln!("bare: {error}");
                    std::process::exit(1);
                }
            });
        }
        Ok(())
    }

    async fn is_drained(&self) -> Result<bool> {
        Ok(self.clients[0].query_one("SELECT NOT EXISTS (SELECT FROM job)", &[]).await?.get(0))
    }
}

async fn take(client: &Client, handler: &Handler, news: &Notify) -> Result<()> {
    let (claim, finish) = (client.prepare(CLAIM).await?, client.prepare(FINISH).await?);
    let at_once = driver::batch().min(TAKE_MAX) as i64;
    loop {
        let rows = client.query(&claim, &[&at_once]).await?;
        if rows.is_empty() {
            news.notified().await;
            continue;
        }
        for row in &rows {
            handler.run(row.get(1)).await;
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        client.execute(&finish, &[&ids]).await?;
    }
}

/// A connection whose notifications wake one waiting taker each.
async fn connect(url: &str, news: Arc<Notify>) -> Result<Client> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                news.notify_one();
            }
        }
    });
    Ok(client)
}
