//! What a worker may put into one frame, or into several that are handled together.

use rpc::wire::work_client::WorkClient;
use rpc::wire::{self, ServerFrame, WorkerFrame};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::Server;

/// A server that says nothing for so long says nothing at all.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// A worker's stream with nothing in between.
pub(crate) struct Stream {
    pub(crate) frames: mpsc::Sender<WorkerFrame>,
    answers: tonic::Streaming<ServerFrame>,
}

impl Stream {
    pub(crate) async fn open(server: &Server, credits: u32) -> Stream {
        Stream::open_as(server, "raw", credits, 0).await
    }

    /// A nonce announces a worker that heartbeats.
    pub(crate) async fn open_as(server: &Server, key: &str, credits: u32, nonce: u64) -> Stream {
        let hello = wire::Hello {
            worker: key.to_owned(),
            queues: vec!["q".to_owned()],
            slots: 8,
            nonce,
            ..Default::default()
        };
        Stream::open_with(server, hello, credits).await
    }

    pub(crate) async fn open_with(server: &Server, hello: wire::Hello, credits: u32) -> Stream {
        let first = WorkerFrame { hello: Some(hello), credits, ..Default::default() };
        Stream::try_open(server, first).await.expect("the session opens")
    }

    /// One that begins with this frame, unless it is refused.
    pub(crate) async fn try_open(server: &Server, first: WorkerFrame) -> Result<Stream, tonic::Status> {
        let mut client = WorkClient::connect(server.url()).await.expect("the server listens");
        let (frames, outgoing) = mpsc::channel(16);
        frames.send(first).await.expect("the stream is open");
        let answers = client.session(ReceiverStream::new(outgoing)).await?.into_inner();
        Ok(Stream { frames, answers })
    }

    /// Says nothing more, and returns when the server has done what was said and ended it.
    pub(crate) async fn close(self) {
        let Stream { frames, answers } = self;
        drop(frames);
        Stream { frames: mpsc::channel(1).0, answers }.ended().await;
    }

    pub(crate) async fn hear<T>(&mut self, mut wanted: impl FnMut(ServerFrame) -> Option<T>) -> T {
        loop {
            let frame =
                tokio::time::timeout(PATIENCE, self.answers.message()).await.expect("something is said");
            let frame = frame.expect("the stream goes on").expect("and does not end");
            if let Some(found) = wanted(frame) {
                return found;
            }
        }
    }

    /// Returns when the server has ended it.
    pub(crate) async fn ended(&mut self) {
        let end = async { while let Ok(Some(_)) = self.answers.message().await {} };
        tokio::time::timeout(PATIENCE, end).await.expect("the stream ends");
    }

    pub(crate) async fn say(&self, frame: WorkerFrame) {
        self.frames.send(frame).await.expect("the stream is open");
    }

    pub(crate) async fn assignment(&mut self) -> wire::Assignment {
        self.hear(|frame| frame.assignments.into_iter().next()).await
    }
}

pub(crate) async fn enqueue(server: &Server) {
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    server
        .client
        .enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() })
        .await
        .expect("accepted");
}

pub(crate) fn completed(job: &wire::Assignment, result: usize) -> wire::Report {
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
    // New work does not wait for the report: either may be heard of first.
    let (mut is_answered, mut next) = (false, None);
    let next = stream
        .hear(|frame| {
            is_answered |= !frame.reports.is_empty();
            next = next.take().or(frame.assignments.into_iter().next());
            if is_answered { next.take() } else { None }
        })
        .await;
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

/// A worker whose key is over opens a stream and offers slots: it must not keep others from the work.
#[tokio::test]
async fn a_dead_key_on_a_stream_gets_no_work_and_keeps_nobody_from_it() {
    let server = Server::start().await;
    let body = r#"{"nonce": 0, "profile": {"queues": ["q"]}}"#;
    assert_eq!(server.http("POST", "/v1/workers/raw/heartbeat", body).await.0, 200);
    let left = r#"{"nonce": 0, "all_stopped": true}"#;
    assert_eq!(server.http("POST", "/v1/workers/raw/leave", left).await.0, 200);

    let mut stream = Stream::open(&server, 8).await;
    let heartbeat = Some(wire::Heartbeat { number: 1, token: "1.1".to_owned(), ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    let answer = stream.hear(|frame| frame.heartbeat).await;
    assert_eq!(answer.answer, "worker_inactive");
    // Whatever the dead one offers, the live one gets every job at once.
    let mut live = Stream::open_as(&server, "live", 1, 0).await;
    for _ in 0..6 {
        enqueue(&server).await;
        let job = live.assignment().await;
        let reports = vec![completed(&job, 0)];
        live.frames.send(WorkerFrame { reports, ..Default::default() }).await.expect("the stream is open");
        live.hear(|frame| frame.reports.into_iter().next()).await;
        live.frames.send(WorkerFrame { credits: 1, ..Default::default() }).await.expect("the stream is open");
    }
    server.stop().await;
}

/// A worker that reconnects only to say goodbye is gone at once, although it has not beaten on the new stream.
#[tokio::test]
async fn a_leave_on_a_fresh_stream_counts() {
    let server = Server::start().await;
    let mut first = Stream::open(&server, 0).await;
    let heartbeat = Some(wire::Heartbeat { number: 1, ..Default::default() });
    first.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    assert_eq!(first.hear(|frame| frame.heartbeat).await.answer, "ok");
    drop(first);
    let mut second = Stream::open(&server, 0).await;
    let leave = Some(wire::Leave { all_stopped: true, crashed: false });
    second.frames.send(WorkerFrame { leave, ..Default::default() }).await.expect("the stream is open");
    second.hear(|frame| frame.left.then_some(())).await;
    let (_, worker) = server.http("GET", "/v1/workers/raw", "").await;
    assert_eq!(worker["state"], "left", "{worker}");
    server.stop().await;
}

/// A worker may be another server's, or over: until its first heartbeat is taken on this stream it gets nothing.
#[tokio::test]
async fn a_worker_gets_no_work_before_its_first_heartbeat_is_taken() {
    let server = Server::start().await;
    let mut stream = Stream::open_as(&server, "raw", 8, 5).await;
    // The server has heard of the slots when it has answered what was sent behind them.
    let heartbeat = Some(wire::Heartbeat { number: 1, token: "1.1".to_owned(), ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    assert_eq!(stream.hear(|frame| frame.heartbeat).await.answer, "worker_inactive");
    enqueue(&server).await;
    // Shorter than the lease that would bring it back from the stream.
    let claim = r#"{"worker": "other", "queues": ["q"], "wait_ms": 5000}"#;
    let (_, claimed) = server.http("POST", "/v1/work/claim", claim).await;
    assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1), "{claimed}");

    let heartbeat = Some(wire::Heartbeat { number: 2, ..Default::default() });
    stream.frames.send(WorkerFrame { heartbeat, ..Default::default() }).await.expect("the stream is open");
    assert_eq!(stream.hear(|frame| frame.heartbeat).await.answer, "ok");
    enqueue(&server).await;
    stream.assignment().await;
    server.stop().await;
}

#[tokio::test]
async fn a_frame_with_too_many_binds_or_beats_ends_the_stream_with_a_sentence() {
    let server = Server::start().await;
    let hold = wire::Hold { job: model::JobId::from_bytes([1; 16]).to_string(), fence: 1 };
    let change = wire::Change { job: hold.job.clone(), fence: 1, change: 1 };
    let too_many = model::Limits::BOUND_MAX + 1;
    let frames = [
        WorkerFrame { binds: vec![change; too_many], ..Default::default() },
        WorkerFrame { beats: vec![hold; too_many], ..Default::default() },
    ];
    for frame in frames {
        let mut stream = Stream::open(&server, 0).await;
        stream.say(frame).await;
        let status = loop {
            let said = tokio::time::timeout(PATIENCE, stream.answers.message()).await;
            match said.expect("something is said") {
                Ok(frame) => assert!(frame.is_some(), "it ends with a reason"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        assert!(status.message().contains("at most 100000 jobs"), "{status}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_restarted_server_learns_again_who_its_workers_are() {
    let server = Server::start().await;
    let mut stream = Stream::open_as(&server, "w", 0, 7).await;
    let beat = |number, token| wire::Heartbeat { number, token, ..Default::default() };
    stream.say(WorkerFrame { heartbeat: Some(beat(1, String::new())), ..Default::default() }).await;
    let first = stream.hear(|frame| frame.heartbeat).await;
    let server = server.restart_with(node::NodeConfig::default()).await;
    let mut stream = Stream::open_as(&server, "w", 0, 7).await;
    stream.say(WorkerFrame { heartbeat: Some(beat(2, first.token)), ..Default::default() }).await;
    let second = stream.hear(|frame| frame.heartbeat).await;
    assert_eq!(second.answer, "token_mismatch");
    let full = Some(wire::FullSet::default());
    let heartbeat = Some(wire::Heartbeat { full, ..beat(3, second.token) });
    stream.say(WorkerFrame { heartbeat, ..Default::default() }).await;
    assert_eq!(stream.hear(|frame| frame.heartbeat).await.answer, "ok");
    let (_, shown) = server.http("GET", "/v1/workers/w", "").await;
    assert_eq!((&shown["state"], &shown["queues"]), (&"active".into(), &serde_json::json!(["q"])), "{shown}");
    server.stop().await;
}
