//! A process that knows the key of a worker and the fence of its job, as every job does, and comes to the server in the
//! worker's place: right after a restart, before the worker is back.

use rpc::wire::work_client::WorkClient;
use rpc::wire::{self, WorkerFrame};
use rustix::process::Signal;
use tokio_stream::wrappers::ReceiverStream;

use crate::locked::Locked;
use crate::proxy::{Cut, Proxy};

/// What the server answered to one try.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It did not let it in.
    Refused,
    /// It took its word for it.
    Believed(String),
}

/// Opens a stream under the holder's key, says that its job was handed back, and hears what the server makes of that.
async fn usurp(server: &str, job: &wire::Job) -> Answer {
    let mut client = WorkClient::connect(server.to_owned()).await.expect("the server listens");
    let (frames, outgoing) = tokio::sync::mpsc::channel(4);
    let hello = wire::Hello {
        worker: job.holder.clone(),
        queues: vec!["none".to_owned()],
        nonce: 666,
        slots: 1,
        ..Default::default()
    };
    let report = wire::Report {
        job: job.id.clone(),
        fence: job.fence,
        outcome: "handed_back".to_owned(),
        ..Default::default()
    };
    let first = WorkerFrame { hello: Some(hello), reports: vec![report], ..Default::default() };
    frames.send(first).await.expect("there is room");
    let mut answers = match client.session(ReceiverStream::new(outgoing)).await {
        Ok(answers) => answers.into_inner(),
        Err(_) => return Answer::Refused,
    };
    loop {
        match answers.message().await {
            Ok(Some(frame)) => {
                if let Some(report) = frame.reports.into_iter().next() {
                    return Answer::Believed(report.answer);
                }
            }
            Ok(None) | Err(_) => return Answer::Refused,
        }
    }
}

#[tokio::test]
async fn whoever_comes_first_after_a_restart_is_not_taken_for_the_worker() {
    let mut scene = Locked::start("60s").await;
    let proxy = Proxy::to(&scene.fleet.server.url).await;
    let mut first = scene.worker(&proxy.url, "first", &[]);
    let id = scene.enqueue().await;
    scene.begun(1).await;
    let job = scene.fleet.job(id).await;
    let second = scene.worker(&scene.fleet.server.url, "second", &[]);

    // The worker is kept away, so that the other one is there first.
    proxy.cut(Cut { to_server: true, to_worker: true });
    scene.fleet.server.process.signal(Signal::KILL).expect("it was running");
    scene.fleet.server.process.ended().await.expect("it is gone");
    scene.fleet.restart().await;
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(usurp(&scene.fleet.server.url, &job).await);
    }
    if answers.iter().any(|answer| *answer != Answer::Refused) {
        scene.begun(2).await;
    }
    assert!(scene.copies().iter().all(|copy| !copy.overlaps), "two copies at once: {answers:?}");
    assert!(answers.iter().all(|answer| *answer == Answer::Refused), "{answers:?}");
    assert!(scene.fleet.metric("tenure_worker_key_conflicts_total", "").await >= 10.0);
    proxy.cut(Cut::default());
    scene.finish();
    let ended = scene.fleet.ended(&[id]).await.remove(0);
    assert_eq!((ended.state.as_str(), ended.fence), ("completed", job.fence), "by the worker that ran it");
    assert_eq!(scene.copies().len(), 1, "{:?}", scene.copies());
    for worker in [&first, &second] {
        worker.signal(Signal::TERM).expect("it is running");
    }
    first.ended().await.expect("it drains");
    drop(second);
}
