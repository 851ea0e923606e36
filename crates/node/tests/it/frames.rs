//! What a worker may put into one frame, or into several that are handled together.

use rpc::wire::work_client::WorkClient;
use rpc::wire::{self, ServerFrame, WorkerFrame};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::Server;

/// A worker's stream with nothing in between.
struct Stream {
    frames: mpsc::Sender<WorkerFrame>,
    answers: tonic::Streaming<ServerFrame>,
}

impl Stream {
    async fn open(server: &Server, credits: u32) -> Stream {
        let mut client = WorkClient::connect(server.url()).await.expect("the server listens");
        let (frames, outgoing) = mpsc::channel(16);
        let hello = wire::Hello {
            worker: "raw".to_owned(),
            queues: vec!["q".to_owned()],
            slots: 8,
            ..Default::default()
        };
        frames
            .send(WorkerFrame { hello: Some(hello), credits, ..Default::default() })
            .await
            .expect("the stream is open");
        let answers =
            client.session(ReceiverStream::new(outgoing)).await.expect("the session opens").into_inner();
        Stream { frames, answers }
    }

    async fn hear<T>(&mut self, mut wanted: impl FnMut(ServerFrame) -> Option<T>) -> T {
        loop {
            let frame = self.answers.message().await.expect("the stream goes on").expect("and does not end");
            if let Some(found) = wanted(frame) {
                return found;
            }
        }
    }

    async fn assignment(&mut self) -> wire::Assignment {
        self.hear(|frame| frame.assignments.into_iter().next()).await
    }
}

async fn enqueue(server: &Server) {
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    server
        .client
        .enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() })
        .await
        .expect("accepted");
}

fn completed(job: &wire::Assignment, result: usize) -> wire::Report {
    wire::Report {
        job: job.job.clone(),
        fence: job.fence,
        outcome: "completed".to_owned(),
        result: vec![b'1'; result].into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_job_that_is_beaten_for_and_reported_at_once_is_not_called_lost() {
    let server = Server::start().await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 1).await;
    let job = stream.assignment().await;
    let hold = wire::Hold { job: job.job.clone(), fence: job.fence };
    let frame = WorkerFrame { beats: vec![hold], reports: vec![completed(&job, 0)], ..Default::default() };
    stream.frames.send(frame).await.expect("the stream is open");
    let answer = stream.hear(|frame| (!frame.reports.is_empty()).then_some(frame)).await;
    assert_eq!((answer.reports[0].answer.as_str(), answer.stops.len()), ("done", 0), "{answer:?}");
    assert_eq!(server.metric("tenure_stale_writes_refused_total", "renew").await, 0.0);
    server.stop().await;
}

#[tokio::test]
async fn a_report_that_breaks_a_limit_ends_its_job_and_not_the_session() {
    let server = Server::start().await;
    enqueue(&server).await;
    enqueue(&server).await;
    let mut stream = Stream::open(&server, 1).await;
    let job = stream.assignment().await;
    let reports = vec![completed(&job, (1 << 20) + 1)];
    stream
        .frames
        .send(WorkerFrame { reports, credits: 1, ..Default::default() })
        .await
        .expect("the stream is open");
    let next = stream.assignment().await;
    assert_ne!(next.job, job.job, "the session goes on");
    let shown = server.client.get(wire::GetJobRequest { id: job.job }).await.expect("the job is there");
    assert_eq!(shown.state, "dead");
    assert!(shown.last_error.contains("at most 1048576 are allowed"), "{}", shown.last_error);
    server.stop().await;
}

#[tokio::test]
async fn nobody_gets_more_than_it_asked_for() {
    let server = Server::start().await;
    for _ in 0..10 {
        enqueue(&server).await;
    }
    let mut stream = Stream::open(&server, 3).await;
    let mut held = Vec::new();
    while held.len() < 3 {
        held.extend(stream.hear(|frame| (!frame.assignments.is_empty()).then_some(frame.assignments)).await);
    }
    // Everything the server would send on its own is ahead of the answer to this heartbeat.
    let heartbeat = Some(wire::Heartbeat { number: 1, ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    let frame = stream.hear(Some).await;
    assert!(frame.heartbeat.is_some() && frame.assignments.is_empty(), "{frame:?}");
    assert_eq!(held.len(), 3);
    server.stop().await;
}

#[tokio::test]
async fn a_stream_that_begins_with_nonsense_is_refused_in_words() {
    let server = Server::start().await;
    let refused = async |frame: WorkerFrame| {
        let mut client = WorkClient::connect(server.url()).await.expect("the server listens");
        client.session(tokio_stream::iter([frame])).await.expect_err("it is refused").message().to_owned()
    };
    assert!(refused(WorkerFrame::default()).await.contains("must carry a hello"));
    let hello = |worker: &str, queues: &[&str]| WorkerFrame {
        hello: Some(wire::Hello {
            worker: worker.to_owned(),
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert!(refused(hello("", &["q"])).await.contains("worker key must not be empty"));
    assert!(refused(hello("w", &[])).await.contains("at least one queue"));
    assert!(refused(hello("w", &["a b"])).await.contains("must not contain"));
    let greedy = WorkerFrame { credits: 1_000_000, ..hello("w", &["q"]) };
    assert!(refused(greedy).await.contains("offer at most"));
    server.stop().await;
}
