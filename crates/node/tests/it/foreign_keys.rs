//! Streams under a key that is another process's. Every job knows the key of its worker, and its own fence; only the nonce is
//! known to nobody else.

use std::time::Duration;

use rpc::wire::{self, WorkerFrame};

use crate::exclusive::{ByHand, FIT, NONCE, set_exclusive, state};
use crate::frames::{Stream, completed, enqueue};
use crate::support::Server;
use crate::volatile::{self, Survivor};

const FOREIGN: u64 = 666;

fn handed_back(job: &wire::Assignment) -> wire::Report {
    wire::Report { outcome: "handed_back".to_owned(), ..completed(job, 0) }
}

/// Says hello with this nonce, and that the job has ended.
fn ended(nonce: u64, job: &wire::Assignment) -> WorkerFrame {
    let hello = Some(ByHand::hello("w", nonce, FIT));
    WorkerFrame { hello, reports: vec![handed_back(job)], ..Default::default() }
}

/// After a restart the worker is not connected yet, and whoever comes first must not be taken for it.
#[tokio::test]
async fn another_process_cannot_end_the_job_of_a_worker_that_is_away() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    let server = server.restart_with(node::NodeConfig::default()).await;
    for nonce in [FOREIGN, 0] {
        let refused = Stream::try_open(&server, ended(nonce, &job)).await.err().expect("it is refused");
        assert!(refused.message().contains("another process"), "{refused:?}");
    }
    assert_eq!(server.metric("tenure_worker_key_conflicts_total", "").await, 2.0);
    assert_eq!(state(&server, &job).await.state, "running");

    let first = WorkerFrame { reports: vec![completed(&job, 0)], ..ended(NONCE, &job) };
    let mut back = Stream::try_open(&server, first).await.expect("it is the worker itself");
    let answer = back.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answer.answer, "done", "and need not wait for its next heartbeat");
    // Nor when it is over and forgotten by the registry: the store remembers.
    server.stop().await;
}

/// A server that remembers nothing cannot know whose the key is. So it believes nobody before it has taken a heartbeat.
#[tokio::test]
async fn nothing_but_a_heartbeat_is_taken_under_an_unknown_key() {
    let client = volatile::client();
    let first = volatile::start_first().await;
    volatile::submit(&first, client, 1).await;
    let mut worker = Survivor::join(&first, "w", 1).await;
    let job = worker.take().await;
    worker.beat().await;
    first.stop().await;

    let second = volatile::start().await;
    volatile::submit(&second, client, 1).await;
    for nonce in [FOREIGN, 0] {
        let foreign = Stream::try_open(&second, ended(nonce, &job)).await;
        foreign.expect("nobody knows yet whose the key is").close().await;
    }
    // This one stays, and does not keep the worker away.
    let standing = Stream::try_open(&second, ended(FOREIGN, &job)).await.expect("nobody knows that yet");
    worker.come_back(&second, 0).await;
    standing.say(WorkerFrame { reports: vec![handed_back(&job)], ..Default::default() }).await;
    standing.close().await;
    let running = state(&second, &job).await;
    assert_eq!((running.state.as_str(), running.holder.as_str(), running.fence), ("running", "w", job.fence));
    assert_eq!(worker.report(&job).await.answer, "done");
    second.stop().await;
}

#[tokio::test]
async fn what_comes_before_the_first_heartbeat_is_done_after_it() {
    let server = Server::start().await;
    let hello = Some(ByHand::hello("new", NONCE, FIT));
    let of_nobody = wire::Assignment {
        job: "01890a5d-ac96-774b-bcce-b302099a8057".to_owned(),
        fence: 1,
        ..Default::default()
    };
    let reports = vec![completed(&of_nobody, 0)];
    let mut stream = Stream::try_open(&server, WorkerFrame { hello, reports, ..Default::default() })
        .await
        .expect("the key is nobody's");
    let heartbeat = Some(wire::Heartbeat { number: 1, ..Default::default() });
    stream.say(WorkerFrame { heartbeat, ..Default::default() }).await;
    let mut was_heard = false;
    let answer = stream
        .hear(|frame| {
            was_heard |= frame.heartbeat.is_some();
            frame.reports.into_iter().next()
        })
        .await;
    assert_eq!((answer.answer.as_str(), was_heard), ("unknown", true));
    server.stop().await;
}

/// Little is kept of what comes too early. A worker that said more must say it again, and then it is known.
#[tokio::test]
async fn a_worker_that_says_too_much_too_early_comes_again() {
    let server = Server::start().await;
    let hello = Some(ByHand::hello("new", NONCE, FIT));
    let mut stream = Stream::try_open(&server, WorkerFrame { hello, ..Default::default() })
        .await
        .expect("the key is nobody's");
    let large = wire::Assignment {
        job: "01890a5d-ac96-774b-bcce-b302099a8057".to_owned(),
        fence: 1,
        ..Default::default()
    };
    for _ in 0..4 {
        let reports = vec![completed(&large, 900_000)];
        stream.say(WorkerFrame { reports, ..Default::default() }).await;
    }
    let heartbeat = Some(wire::Heartbeat { number: 1, ..Default::default() });
    stream.say(WorkerFrame { heartbeat, ..Default::default() }).await;
    assert_eq!(stream.hear(|frame| frame.heartbeat).await.answer, "ok");
    stream.ended().await;
    let first = WorkerFrame {
        hello: Some(ByHand::hello("new", NONCE, FIT)),
        reports: vec![completed(&large, 0)],
        ..Default::default()
    };
    let mut again = Stream::try_open(&server, first).await.expect("it is known by now");
    let heard = again.hear(|frame| frame.reports.into_iter().next());
    let answer = tokio::time::timeout(Duration::from_secs(60), heard).await.expect("it is answered");
    assert_eq!(answer.answer, "unknown");
    server.stop().await;
}
