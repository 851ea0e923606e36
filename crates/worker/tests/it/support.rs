//! A server that does exactly what a test tells it: each stream a worker opens is handed to the test. Heartbeats are
//! acknowledged on the way by whoever reads the stream, unless the test asks for them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rpc::wire;
use rpc::wire::work_server::WorkServer;
use rpc::wire::workers_server::WorkersServer;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Status, Streaming};

use crate::service::Service;

/// Long enough for a slow machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Which life of the server tests see that do not care.
pub(crate) const GENERATION: u64 = 1;

/// A listening server.
pub(crate) struct ScriptedServer {
    pub(crate) url: String,
    sessions: mpsc::Receiver<Stream>,
    progress: mpsc::Receiver<ProgressCall>,
    leaves: mpsc::Receiver<wire::LeaveRequest>,
    is_frozen: Arc<AtomicBool>,
    owner: Arc<Mutex<Option<String>>>,
    server: JoinHandle<()>,
}

/// One call of `Work.Progress`; the answer goes back through the channel.
pub(crate) struct ProgressCall {
    pub(crate) request: wire::ProgressRequest,
    pub(crate) answer: tokio::sync::oneshot::Sender<bool>,
}

/// One worker's stream.
pub(crate) struct Stream {
    frames: Streaming<wire::WorkerFrame>,
    answers: Answers,
    /// Whose it is, once it was welcomed.
    worker: String,
    starts: u64,
}

/// What the server says on a stream.
pub(crate) type Answers = mpsc::Sender<Result<wire::ServerFrame, Status>>;

/// Tokens are never given twice.
static TOKENS: AtomicU64 = AtomicU64::new(1);

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("loopback can be bound");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (sessions_in, sessions) = mpsc::channel(8);
        let (progress_in, progress) = mpsc::channel(8);
        let (leaves_in, leaves) = mpsc::channel(8);
        let (is_frozen, owner) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let service = Service {
            sessions: sessions_in,
            progress: progress_in,
            leaves: leaves_in,
            is_frozen: Arc::clone(&is_frozen),
            owner: Arc::clone(&owner),
        };
        let server = tokio::spawn(async move {
            let listener = TcpListenerStream::new(listener);
            tonic::transport::Server::builder()
                .add_service(WorkServer::new(service.clone()))
                .add_service(WorkersServer::new(service))
                .serve_with_incoming(listener)
                .await
                .expect("the server runs until it is dropped");
        });
        ScriptedServer { url, sessions, progress, leaves, is_frozen, owner, server }
    }

    /// The next stream, after its hello was read and welcomed.
    pub(crate) async fn welcome(&mut self) -> (wire::Hello, Stream) {
        self.welcome_as(GENERATION).await
    }

    /// The same, by this life of the server.
    pub(crate) async fn welcome_as(&mut self, generation: u64) -> (wire::Hello, Stream) {
        let mut stream = self.session().await;
        let hello = stream.next().await.hello.expect("the first frame carries the hello");
        stream.worker = hello.worker.clone();
        let welcome = wire::Welcome { server: "scripted".into(), version: "0".into(), generation };
        stream.send(wire::ServerFrame { welcome: Some(welcome), ..Default::default() }).await;
        (hello, stream)
    }

    /// The next stream of a worker that is not known yet, registered.
    pub(crate) async fn register(&mut self) -> (wire::Hello, Stream) {
        let (hello, mut stream) = self.welcome().await;
        let beat = stream.heartbeat().await;
        stream.acknowledge(&beat).await;
        (hello, stream)
    }

    /// Answers no probe any more, as if the process were stopped.
    pub(crate) fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
    }

    /// Takes no leave any more, since the server at this address is in charge.
    pub(crate) fn disown(&self, owner: &str) {
        *self.owner.lock().expect("nobody panics") = Some(owner.to_owned());
    }

    /// The next stream, whose first heartbeat is answered with the address of another server.
    pub(crate) async fn send_away(&mut self, owner: &str) -> wire::Hello {
        let (hello, mut stream) = self.welcome().await;
        let beat = stream.heartbeat().await;
        stream.send_away(&beat, owner).await;
        hello
    }

    pub(crate) async fn session(&mut self) -> Stream {
        patiently("a session", self.sessions.recv()).await.expect("the server is running")
    }

    /// Whether a call of `Work.Progress` waits.
    pub(crate) fn has_progress(&self) -> bool {
        !self.progress.is_empty()
    }

    /// Whether a call of `Workers.Leave` waits.
    pub(crate) fn has_leave(&self) -> bool {
        !self.leaves.is_empty()
    }

    pub(crate) async fn leave(&mut self) -> wire::LeaveRequest {
        patiently("a leave", self.leaves.recv()).await.expect("the server is running")
    }

    pub(crate) async fn progress(&mut self) -> ProgressCall {
        patiently("a progress call", self.progress.recv()).await.expect("the server is running")
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Stream {
    pub(crate) fn new(frames: Streaming<wire::WorkerFrame>, answers: Answers) -> Self {
        Stream { frames, answers, worker: String::new(), starts: 0 }
    }

    /// The next frame that says more than a heartbeat; heartbeats are acknowledged.
    pub(crate) async fn next(&mut self) -> wire::WorkerFrame {
        loop {
            let mut frame = self.read().await;
            let Some(beat) = frame.heartbeat.take() else { return frame };
            self.acknowledge(&beat).await;
            if frame != wire::WorkerFrame::default() {
                return frame;
            }
        }
    }

    /// The next heartbeat, not answered yet. What else is said on the way is passed over.
    pub(crate) async fn heartbeat(&mut self) -> wire::Heartbeat {
        loop {
            if let Some(beat) = self.read().await.heartbeat {
                return beat;
            }
        }
    }

    /// Reads frames until one has what is asked for.
    pub(crate) async fn until<T>(&mut self, mut find: impl FnMut(&wire::WorkerFrame) -> Option<T>) -> T {
        patiently("a frame with what is asked for", async {
            loop {
                if let Some(found) = find(&self.next().await) {
                    return found;
                }
            }
        })
        .await
    }

    /// Takes a heartbeat and grants what it asks for, or 20 s; the token to show next.
    pub(crate) async fn acknowledge(&mut self, beat: &wire::Heartbeat) -> String {
        self.grant(beat, if beat.lease_ms == 0 { 20_000 } else { beat.lease_ms }).await
    }

    /// Takes a heartbeat and grants this lease; the token to show next.
    pub(crate) async fn grant(&mut self, beat: &wire::Heartbeat, lease_ms: i64) -> String {
        self.renew(beat, lease_ms, true).await
    }

    /// Takes a heartbeat and grants what it asks for, but not for exclusive jobs.
    pub(crate) async fn withhold(&mut self, beat: &wire::Heartbeat) -> String {
        self.renew(beat, beat.lease_ms, false).await
    }

    async fn renew(&mut self, beat: &wire::Heartbeat, lease_ms: i64, exclusive_hold: bool) -> String {
        let token = fresh_token();
        self.answer_heartbeat(wire::HeartbeatAnswer {
            number: beat.number,
            answer: "ok".into(),
            token: token.clone(),
            lease_ms,
            exclusive_hold,
            ..Default::default()
        })
        .await;
        token
    }

    /// Answers a heartbeat with the address of another server, or without one.
    pub(crate) async fn send_away(&mut self, beat: &wire::Heartbeat, owner: &str) {
        self.answer_heartbeat(wire::HeartbeatAnswer {
            number: beat.number,
            answer: "not_owner".into(),
            address: owner.to_owned(),
            ..Default::default()
        })
        .await;
    }

    pub(crate) async fn answer_heartbeat(&mut self, answer: wire::HeartbeatAnswer) {
        self.send(wire::ServerFrame { heartbeat: Some(answer), ..Default::default() }).await;
    }

    /// The next frame, whatever it says; nothing is answered.
    pub(crate) async fn read(&mut self) -> wire::WorkerFrame {
        patiently("a frame", self.frames.message())
            .await
            .expect("the stream is well")
            .expect("the stream is open")
    }

    pub(crate) async fn send(&mut self, frame: wire::ServerFrame) {
        self.answers.send(Ok(frame)).await.expect("the worker reads");
    }

    /// Starts a job; whom the start is for is filled in.
    pub(crate) async fn assign(&mut self, assignment: wire::Assignment) {
        self.starts += 1;
        let assignment = wire::Assignment {
            generation: GENERATION,
            worker: self.worker.clone(),
            start: self.starts,
            ..assignment
        };
        self.send(wire::ServerFrame { assignments: vec![assignment], ..Default::default() }).await;
    }

    /// Says that these early binds stand.
    pub(crate) async fn bind(&mut self, binds: &[wire::Change]) {
        let bound =
            binds.iter().map(|bind| wire::Hold { job: bind.job.clone(), fence: bind.fence }).collect();
        self.send(wire::ServerFrame { bound, ..Default::default() }).await;
    }

    /// Orders a job to stop.
    pub(crate) async fn stop(&mut self, number: u8, fence: i64, reason: &str) {
        let stop = wire::Stop { job: job_id(number), fence, reason: reason.into() };
        self.send(wire::ServerFrame { stops: vec![stop], ..Default::default() }).await;
    }

    pub(crate) async fn answer(&mut self, report: &wire::Report, answer: &str) {
        let answer = wire::ReportAnswer {
            job: report.job.clone(),
            fence: report.fence,
            answer: answer.into(),
            current_fence: if answer == "stale" { report.fence + 1 } else { 0 },
            ..Default::default()
        };
        self.send(wire::ServerFrame { reports: vec![answer], ..Default::default() }).await;
    }
}

/// A job to assign: kind "work".
pub(crate) fn assignment(number: u8, fence: i64) -> wire::Assignment {
    wire::Assignment {
        job: job_id(number),
        fence,
        attempt: 1,
        max_attempts: 5,
        queue: "q".into(),
        kind: "work".into(),
        lease_ms: 30_000,
        ..Default::default()
    }
}

/// The same, of an exclusive queue.
pub(crate) fn exclusive(number: u8, fence: i64) -> wire::Assignment {
    wire::Assignment { exclusive: true, ..assignment(number, fence) }
}

/// A token that was never given before.
pub(crate) fn fresh_token() -> String {
    format!("{GENERATION:x}.{:x}", TOKENS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn job_id(number: u8) -> String {
    model::JobId::from_bytes([number; 16]).to_string()
}

/// Waits for something that must happen.
pub(crate) async fn patiently<T>(what: &str, happening: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happening).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}
