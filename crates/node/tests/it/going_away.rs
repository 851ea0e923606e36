//! Clients that vanish in the middle of a call: what was committed is also acted on, and nothing of theirs stays behind.

use rpc::wire;
use tokio::io::AsyncWriteExt as _;

use crate::support::Server;

/// Sends a whole request and goes away without waiting for the answer, after giving the server this many chances to
/// run. Different counts cut it off at different places.
async fn send_and_vanish(server: &Server, path: &str, body: &str, turns: usize) {
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("sent");
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

async fn claim(server: &Server, wait_ms: i64) -> Vec<wire::Assignment> {
    let request =
        wire::ClaimRequest { worker: "w".to_owned(), queues: vec!["q".to_owned()], limit: 1, wait_ms };
    server.client.claim(request).await.expect("the claim is answered").jobs
}

#[tokio::test]
async fn a_job_is_dispatched_although_its_producer_is_gone() {
    let server = Server::start().await;
    for turns in 0..60 {
        // A worker waits before the job comes: only the signal that follows the commit can wake it.
        let (jobs, ()) = tokio::join!(claim(&server, 20_000), async {
            while server.http("GET", "/v1/stats", "").await.1["workers"] == 0 {
                tokio::task::yield_now().await;
            }
            send_and_vanish(&server, "/v1/jobs", "{\"queue\": \"q\"}", turns * 3).await;
            // Had the server not even read it, there is nothing to dispatch; a later one will do.
            let (_, listed) = server.http("GET", "/v1/jobs?state=available,running", "").await;
            if listed["jobs"].as_array().is_none_or(Vec::is_empty) {
                server.http("POST", "/v1/jobs", "{\"queue\": \"q\"}").await;
            }
        });
        for job in &jobs {
            let report = wire::Report {
                job: job.job.clone(),
                fence: job.fence,
                outcome: "completed".to_owned(),
                ..Default::default()
            };
            let request = wire::FinishRequest { worker: "w".to_owned(), reports: vec![report] };
            server.client.finish(request).await.expect("accepted");
        }
        // A straggler of this round must not be mistaken for the next one's job.
        for job in claim(&server, 0).await {
            let report = wire::Report {
                job: job.job,
                fence: job.fence,
                outcome: "completed".to_owned(),
                ..Default::default()
            };
            let request = wire::FinishRequest { worker: "w".to_owned(), reports: vec![report] };
            server.client.finish(request).await.expect("accepted");
        }
        assert_eq!(jobs.len(), 1, "round {turns}: the worker was not woken");
    }
    server.stop().await;
}

#[tokio::test]
async fn claims_that_are_cut_off_while_they_wait_leave_nothing_behind() {
    let server = Server::start().await;
    let body = "{\"worker\": \"cut\", \"queues\": [\"q\"], \"limit\": 5, \"wait_ms\": 60000}";
    for turns in 0..50 {
        send_and_vanish(&server, "/v1/work/claim", body, turns).await;
    }
    // Every one of them ends long before its minute is over.
    while server.http("GET", "/v1/stats", "").await.1["workers"] != 0 {
        tokio::task::yield_now().await;
    }
    let (_, answer) = server.http("POST", "/v1/jobs", "{\"queue\": \"q\"}").await;
    assert_eq!(answer["unserved_queues"], serde_json::json!(["q"]));
    let jobs = claim(&server, 10_000).await;
    assert_eq!(jobs.len(), 1, "the job is there for who asks for it now");
    assert_eq!(jobs[0].attempt, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let server = Server::start().await;
    let mut silent = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
    // The end of the stream is what is waited for.
    let read = tokio::io::AsyncReadExt::read(&mut silent, &mut [0; 1]).await;
    assert_eq!(read.expect("a clean end"), 0);
    server.stop().await;
}
