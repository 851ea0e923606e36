//! Moving on: servers that send workers elsewhere, to and fro, or to someone who is dead, and servers that die.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::ErrorKind;
use rpc::wire;
use tokio::sync::Notify;
use worker::{Client, ClientError, JobContext, StopReason, WorkerEvent};

use crate::support::{ScriptedServer, Stream, assignment, fresh_token, job_id, patiently};
use crate::worker::{Running, builder, echo, stoppable};

/// Long enough for several tries; a worker that wastes its time is without a lease when it is over.
const LEASE: Duration = Duration::from_secs(5);

/// An address where nobody listens.
fn nobody() -> String {
    // The port of a listener that was closed.
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// Those of its events that a worker must not have when it only moves.
fn losses(worker: &mut Running) -> Vec<WorkerEvent> {
    let is_loss = |event: &WorkerEvent| {
        matches!(event, WorkerEvent::NewKey { .. } | WorkerEvent::LeaseOver { .. } | WorkerEvent::Lost { .. })
    };
    worker.events_so_far().into_iter().filter(is_loss).collect()
}

/// Takes a worker over: it has to show another token, and is believed when it does.
async fn take_over(stream: &mut Stream) {
    let beat = stream.heartbeat().await;
    let mismatch = wire::HeartbeatAnswer {
        number: beat.number,
        answer: "token_mismatch".into(),
        token: fresh_token(),
        held: true,
        resync: true,
        ..Default::default()
    };
    stream.answer_heartbeat(mismatch).await;
    let beat = stream.heartbeat().await;
    assert!(beat.full.is_some(), "everything it holds");
    stream.acknowledge(&beat).await;
}

#[tokio::test]
async fn a_worker_goes_to_the_server_that_looks_after_it_and_comes_back_when_that_is_gone() {
    let (mut first, mut owner) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let worker = Running::start(echo(&first.url));
    let (hello, mut stream) = first.welcome().await;
    let beat = stream.heartbeat().await;
    let sent_away_at = Instant::now();
    stream.send_away(&beat, &owner.url).await;
    let (again, mut stream) = owner.welcome().await;
    assert!(sent_away_at.elapsed() < Duration::from_secs(1), "{:?}: at once", sent_away_at.elapsed());
    assert_eq!((again.worker, again.nonce), (hello.worker.clone(), hello.nonce), "under the same key");
    assert_eq!(stream.next().await.credits, 4);
    // When that one is gone, the list it was given counts again.
    drop(owner);
    drop(stream);
    let (third, _) = first.welcome().await;
    assert_eq!(third.worker, hello.worker);
    worker.shutdown.abort();
}

#[tokio::test]
async fn credits_wait_for_a_server_that_takes_a_heartbeat() {
    let (mut first, mut owner) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let worker = Running::start(echo(&first.url));
    let (_, mut stream) = first.register().await;
    assert_eq!(stream.next().await.credits, 4);
    let beat = stream.heartbeat().await;
    stream.send_away(&beat, &owner.url).await;
    let (_, mut stream) = owner.welcome().await;
    let frame = stream.read().await;
    assert_eq!(frame.credits, 0, "it may not be the one that looks after this worker either");
    stream.acknowledge(&frame.heartbeat.expect("the first frame has one")).await;
    assert_eq!(stream.next().await.credits, 4);
    worker.shutdown.abort();
}

#[tokio::test]
async fn an_address_where_nobody_answers_is_no_more_than_a_hint() {
    // One refuses connections, the other one takes them and says nothing, as a frozen server does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for dead in [nobody(), format!("http://{}", silent.local_addr().unwrap())] {
        let mut known = ScriptedServer::start().await;
        let (stoppable, mut told) = stoppable(&known.url);
        let mut worker = Running::start(stoppable.lease(LEASE));
        let (hello, mut stream) = known.register().await;
        stream.assign(assignment(1, 7)).await;
        let beat = stream.heartbeat().await;
        stream.send_away(&beat, &dead).await;
        let again = known.send_away(&dead).await;
        assert_eq!(again.worker, hello.worker);
        let (again, mut stream) = known.welcome().await;
        assert_eq!(again.worker, hello.worker, "the lease is not over yet");
        take_over(&mut stream).await;
        assert_eq!(stream.next().await.credits, 3, "its job runs on");
        assert!(told.try_recv().is_err());
        assert_eq!(losses(&mut worker), []);
        worker.shutdown.abort();
    }
}

#[tokio::test]
async fn servers_that_send_a_worker_to_and_fro_are_not_hammered() {
    let (mut a, mut b) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let (a_url, b_url) = (a.url.clone(), b.url.clone());
    let mut worker = Running::start(echo(&format!("{a_url},{b_url}")));
    let mut visits = 0;
    let to_and_fro = async {
        loop {
            tokio::select! {
                _ = a.send_away(&b_url) => visits += 1,
                _ = b.send_away(&a_url) => visits += 1,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), to_and_fro).await;
    // Pauses of 50, 100, 200, 400 and 500 ms at least, and at most two visits between two of them.
    assert!((4..=14).contains(&visits), "{visits} visits in two seconds");
    let (hello, mut stream) = patiently("a visit", async {
        tokio::select! {
            visit = a.welcome() => visit,
            visit = b.welcome() => visit,
        }
    })
    .await;
    let beat = stream.heartbeat().await;
    stream.acknowledge(&beat).await;
    let key = worker
        .event(|event| match event {
            WorkerEvent::Registered { key, .. } => Some(key.to_string()),
            _ => None,
        })
        .await;
    assert_eq!(key, hello.worker, "it kept its key through all of that");
    worker.shutdown.abort();
}

#[tokio::test]
async fn when_a_server_dies_its_worker_goes_on_with_the_next_and_reports_there() {
    let (mut first, mut second) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let servers = format!("{},{}", first.url, second.url);
    let gated = builder(&servers).lease(LEASE).handle_raw("work", move |_: JobContext, payload| {
        let opened = Arc::clone(&opened);
        async move {
            opened.notified().await;
            Ok(payload)
        }
    });
    let mut worker = Running::start(gated);
    let (hello, mut stream) = first.register().await;
    stream.assign(assignment(1, 7)).await;
    let beat = stream.heartbeat().await;
    stream.acknowledge(&beat).await;
    let dead = first.url.clone();
    drop((first, stream));
    let died_at = Instant::now();
    // It knows no more than that the worker is the dead one's, until it has taken over.
    let again = second.send_away(&dead).await;
    assert!(died_at.elapsed() < Duration::from_secs(1), "{:?}", died_at.elapsed());
    assert_eq!((&again.worker, again.nonce), (&hello.worker, hello.nonce));
    gate.notify_one();
    worker.event(|event| matches!(event, WorkerEvent::Finished { .. }).then_some(())).await;
    let (again, mut stream) = second.welcome().await;
    assert_eq!(again.worker, hello.worker);
    let frame = stream.read().await;
    let report = &frame.reports[0];
    assert_eq!((&report.job, report.fence, report.outcome.as_str()), (&job_id(1), 7, "completed"));
    stream.answer(report, "done").await;
    stream.acknowledge(&frame.heartbeat.expect("the first frame has one")).await;
    worker.event(|event| matches!(event, WorkerEvent::Accepted { .. }).then_some(())).await;
    assert_eq!(losses(&mut worker), []);
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_server_that_is_away_is_tried_several_times_per_lease_however_long_it_is_away() {
    let lease = model::Limits::LEASE_MIN;
    let mut worker = Running::start(echo(&nobody()).lease(lease));
    let start = Instant::now();
    for _ in 0..10 {
        worker.event(|event| matches!(event, WorkerEvent::Unreachable { .. }).then_some(())).await;
    }
    // Pauses that grow as they like would take more than ten seconds by now.
    assert!(start.elapsed() < lease * 10, "{:?} for nine pauses", start.elapsed());
    worker.shutdown.abort();
}

#[tokio::test]
async fn a_lease_runs_on_while_its_worker_is_sent_about() {
    let mut server = ScriptedServer::start().await;
    let (stoppable, mut told) = stoppable(&server.url);
    let lease = Duration::from_secs(2);
    let mut worker = Running::start(stoppable.lease(lease));
    let (hello, mut stream) = server.register().await;
    stream.assign(assignment(1, 7)).await;
    let beat = stream.heartbeat().await;
    let heard_at = Instant::now();
    stream.acknowledge(&beat).await;
    let beat = stream.heartbeat().await;
    stream.send_away(&beat, "").await;
    let stopped = async {
        loop {
            tokio::select! {
                reason = told.recv() => break reason,
                _ = server.send_away("") => {}
            }
        }
    };
    assert_eq!(patiently("the stop", stopped).await, Some(StopReason::LeaseOver));
    let took = heard_at.elapsed();
    assert!(took < lease + lease / 4, "{took:?}: nothing of that renews a lease of {lease:?}");
    let next_key = worker
        .event(|event| match event {
            WorkerEvent::NewKey { key, .. } => Some(key.to_string()),
            _ => None,
        })
        .await;
    assert_ne!(next_key, hello.worker, "and with the lease the key is over");
    worker.shutdown.abort();
}

fn leave_request() -> wire::LeaveRequest {
    wire::LeaveRequest { worker: "w".into(), nonce: 7, all_stopped: true, ..Default::default() }
}

#[tokio::test]
async fn a_leave_goes_to_the_server_in_charge() {
    let (mut first, mut owner) = (ScriptedServer::start().await, ScriptedServer::start().await);
    first.disown(&owner.url);
    let client = Client::connect(&first.url).unwrap();
    patiently("the answer", client.leave(leave_request())).await.expect("someone takes it");
    assert_eq!((first.leave().await, owner.leave().await), (leave_request(), leave_request()));
}

#[tokio::test]
async fn a_leave_that_nobody_takes_is_refused_after_one_try_each() {
    let (mut a, mut b) = (ScriptedServer::start().await, ScriptedServer::start().await);
    a.disown(&b.url);
    b.disown(&a.url);
    let refused = |answer: Result<_, ClientError>| match answer {
        Err(ClientError::Api(error)) => assert_eq!(error.kind, ErrorKind::NotOwner),
        other => panic!("{other:?}"),
    };
    let client = Client::connect(&a.url).unwrap();
    refused(patiently("the answer", client.leave(leave_request())).await);
    a.leave().await;
    b.leave().await;
    assert!(!a.has_leave() && !b.has_leave(), "once each");
    a.disown(&nobody());
    refused(patiently("the answer", client.leave(leave_request())).await);
}

#[tokio::test]
async fn calls_move_on_to_the_next_server_if_they_certainly_did_not_happen_or_may_happen_twice() {
    let mut alive = ScriptedServer::start().await;
    let leave = |servers: String| async move {
        let client = Client::connect(&servers).unwrap();
        patiently("an answer", client.leave(leave_request())).await
    };
    leave(format!("{},{}", nobody(), alive.url)).await.expect("the second one takes it");
    alive.leave().await;

    // Takes whatever comes, and hangs up.
    let rude = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = format!("http://{},{}", rude.local_addr().unwrap(), alive.url);
    let hang_up = tokio::spawn(async move {
        while let Ok((stream, _)) = rude.accept().await {
            let mut asked = [0; 1024];
            stream.readable().await.unwrap();
            let _ = stream.try_read(&mut asked);
        }
    });
    leave(servers.clone()).await.expect("to leave twice is to leave");
    alive.leave().await;
    let client = Client::connect(&servers).unwrap();
    let claim = patiently("an answer", client.claim(wire::ClaimRequest::default())).await;
    let error = claim.expect_err("nobody knows").to_string();
    assert!(error.contains("the call may have happened"), "{error}");
    let client = Client::connect(&format!("{},{}", nobody(), alive.url)).unwrap();
    let claim = patiently("an answer", client.claim(wire::ClaimRequest::default())).await;
    assert!(matches!(claim, Err(ClientError::Api(_))), "the second one was asked: {claim:?}");
    hang_up.abort();
}

#[tokio::test]
async fn a_server_that_can_do_nothing_for_a_worker_is_left_for_another() {
    let (mut troubled, mut other) = (ScriptedServer::start().await, ScriptedServer::start().await);
    let worker = Running::start(echo(&format!("{},{}", troubled.url, other.url)));
    let (hello, mut stream) = troubled.welcome().await;
    for _ in 0..3 {
        let beat = stream.heartbeat().await;
        let later = wire::HeartbeatAnswer {
            number: beat.number,
            answer: "later".into(),
            retry_after_ms: 1,
            why: "the store cannot make the worker known now".into(),
            ..Default::default()
        };
        stream.answer_heartbeat(later).await;
    }
    let (again, _) = other.welcome().await;
    assert_eq!((again.worker, again.nonce), (hello.worker, hello.nonce), "under the same key");
    worker.shutdown.abort();
}
