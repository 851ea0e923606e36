//! A server whose memory is full, and a client that has more for it than fits.

use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use worker::SubmitOptions;

use super::{call, job, said, until, worker};
use crate::support::Fleet;

const MEMORY: u64 = 64 << 20;
const PAYLOAD: usize = 100_000;
/// Half as much again as fits.
const JOBS: usize = 1_000;

/// The server dies when it is full: the next one is told everything again, and is full too.
#[tokio::test]
async fn a_client_with_more_jobs_than_fit_sees_all_of_them_end() {
    let mut fleet = Fleet::start(&["--volatile-only", "--lease", "3s", "--volatile-memory", "64MiB"]).await;
    let submitter = fleet.client.submitter(SubmitOptions::default());
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let mut tickets = Vec::new();
    for _ in 0..JOBS {
        let job = rpc::wire::NewJob { payload: payload.clone(), ..job("q", "") };
        tickets.push(submitter.submit(job).await.expect("the submitter is open"));
    }
    let client = fleet.client.clone();
    let is_full = || async {
        let status = client.muster_status().await.ok()?;
        assert!(status.bytes <= MEMORY && status.bytes_max == MEMORY, "{status:?}");
        (status.bytes + PAYLOAD as u64 > MEMORY - 10_000).then_some(())
    };
    until("a server that is full", is_full).await;
    let home = fleet.home.path().to_owned();
    let (shown, _) = said(&call(&fleet.server.url, &["muster", "status"], &home).await, 0);
    assert!(shown.contains("MiB of 64.0MiB; clients wait until some have ended"), "{shown}");
    let (_, refused) =
        said(&call(&fleet.server.url, &["enqueue", "q", &"y".repeat(PAYLOAD)], &home).await, 5);
    assert!(refused.contains("--volatile-memory"), "{refused}");
    let waits = ["enqueue", "q", "small", "--wait", "--wait-timeout", "100ms"];
    let (_, note) = said(&call(&fleet.server.url, &waits, &home).await, 1);
    assert!(note.contains("note: volatile queues have no room for more jobs now"), "{note}");

    fleet.server.process.signal(Signal::KILL).expect("it was running");
    fleet.server.process.ended().await.expect("it is gone");
    fleet.restart().await;
    until("a server that is full again", is_full).await;
    let _workers = ["ann", "bob"].map(|name| worker(&fleet, name, &["q"], "wc -c"));
    for ticket in tickets {
        let end = tokio::time::timeout(Duration::from_secs(120), ticket).await;
        let end = end.expect("it ends in time").expect("it is taken");
        assert_eq!(end.result.trim_ascii(), PAYLOAD.to_string().as_bytes(), "{end:?}");
    }
    submitter.close().await;
    let emptied = || async { client.muster_status().await.ok().filter(|status| status.bytes == 0) };
    until("a server that is empty", emptied).await;
}
