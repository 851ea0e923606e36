//! Submits jobs to a volatile queue and prints how they end. Restart the server while it runs: every job still ends, under
//! the id it had.
//!
//! ```text
//! tenure serve
//! tenure queues set sums --volatile
//! tenure worker --queue sums --exclusive -- wc -c
//! cargo run -p worker --example volatile -- 20
//! ```

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rpc::wire::NewJob;
use worker::{Client, SubmitOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::var("TENURE_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7117".to_owned());
    let count: usize = std::env::args().nth(1).map_or(Ok(10), |count| count.parse())?;

    let submitter = Client::connect(&server)?.submitter(SubmitOptions::default());
    let mut tickets = FuturesUnordered::new();
    for number in 1..=count {
        let payload = "x".repeat(number).into();
        let job = NewJob { queue: "sums".to_owned(), payload, ..NewJob::default() };
        tickets.push(submitter.submit(job).await?);
    }
    while let Some(end) = tickets.next().await {
        match end {
            Ok(end) if end.is_completed() => {
                println!("{} completed: {}", end.id, String::from_utf8_lossy(&end.result).trim());
            }
            Ok(end) => println!("{} is {}: {}", end.id, end.state.word(), end.error),
            // This one was refused for good; the others go on.
            Err(error) => eprintln!("{error}"),
        }
    }
    // The server may forget them now.
    submitter.close().await;
    Ok(())
}
