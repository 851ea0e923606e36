//! A server that does exactly what a test tells it: each stream a worker opens is handed to the test.

use std::net::SocketAddr;
use std::time::Duration;

use rpc::wire;
use rpc::wire::work_server::{Work, WorkServer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Long enough for a slow machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listening server.
pub(crate) struct ScriptedServer {
    pub(crate) url: String,
    sessions: mpsc::Receiver<Stream>,
    progress: mpsc::Receiver<ProgressCall>,
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
    answers: mpsc::Sender<Result<wire::ServerFrame, Status>>,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("loopback can be bound");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (sessions_in, sessions) = mpsc::channel(8);
        let (progress_in, progress) = mpsc::channel(8);
        let service = WorkServer::new(Service { sessions: sessions_in, progress: progress_in });
        let server = tokio::spawn(async move {
            let listener = TcpListenerStream::new(listener);
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(listener)
                .await
                .expect("the server runs until it is dropped");
        });
        ScriptedServer { url, sessions, progress, server }
    }

    /// The next stream, after its hello was read and welcomed.
    pub(crate) async fn welcome(&mut self) -> (wire::Hello, Stream) {
        let mut stream = self.session().await;
        let hello = stream.next().await.hello.expect("the first frame carries the hello");
        let welcome = wire::Welcome { server: "scripted".into(), version: "0".into(), generation: 1 };
        stream.send(wire::ServerFrame { welcome: Some(welcome), ..Default::default() }).await;
        (hello, stream)
    }

    pub(crate) async fn session(&mut self) -> Stream {
        patiently("a session", self.sessions.recv()).await.expect("the server is running")
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
    pub(crate) async fn next(&mut self) -> wire::WorkerFrame {
        patiently("a frame", self.frames.message())
            .await
            .expect("the stream is well")
            .expect("the stream is open")
    }

    /// Reads frames until one has what is asked for. Beats on the way are not answered.
    pub(crate) async fn until<T>(&mut self, mut find: impl FnMut(&wire::WorkerFrame) -> Option<T>) -> T {
        loop {
            if let Some(found) = find(&self.next().await) {
                return found;
            }
        }
    }

    pub(crate) async fn send(&mut self, frame: wire::ServerFrame) {
        self.answers.send(Ok(frame)).await.expect("the worker reads");
    }

    pub(crate) async fn assign(&mut self, assignment: wire::Assignment) {
        self.send(wire::ServerFrame { assignments: vec![assignment], ..Default::default() }).await;
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

/// A job to assign: kind "work", lease 20 s.
pub(crate) fn assignment(number: u8, fence: i64) -> wire::Assignment {
    wire::Assignment {
        job: job_id(number),
        fence,
        attempt: 1,
        max_attempts: 5,
        queue: "q".into(),
        kind: "work".into(),
        lease_ms: 20_000,
        ..Default::default()
    }
}

pub(crate) fn job_id(number: u8) -> String {
    model::JobId::from_bytes([number; 16]).to_string()
}

/// Waits for something that must happen.
pub(crate) async fn patiently<T>(what: &str, happening: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happening).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

struct Service {
    sessions: mpsc::Sender<Stream>,
    progress: mpsc::Sender<ProgressCall>,
}

#[tonic::async_trait]
impl Work for Service {
    type SessionStream = ReceiverStream<Result<wire::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<wire::WorkerFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, outbound) = mpsc::channel(8);
        let stream = Stream { frames: request.into_inner(), answers };
        self.sessions.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(outbound)))
    }

    async fn progress(
        &self,
        request: Request<wire::ProgressRequest>,
    ) -> Result<Response<wire::ProgressResponse>, Status> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let request = request.into_inner();
        let note = request.notes[0].clone();
        self.progress
            .send(ProgressCall { request, answer })
            .await
            .map_err(|_| Status::unavailable("the test is over"))?;
        let accepted = answered.await.map_err(|_| Status::unavailable("not answered"))?;
        let answer = wire::ProgressAnswer { job: note.job, fence: note.fence, accepted };
        Ok(Response::new(wire::ProgressResponse { notes: vec![answer] }))
    }

    async fn claim(&self, _: Request<wire::ClaimRequest>) -> Result<Response<wire::ClaimResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn renew(&self, _: Request<wire::RenewRequest>) -> Result<Response<wire::RenewResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn finish(
        &self,
        _: Request<wire::FinishRequest>,
    ) -> Result<Response<wire::FinishResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }
}
