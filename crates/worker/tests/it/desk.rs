//! A server of volatile jobs that does exactly what a test tells it: every stream is handed to the test, which answers it.

use std::net::SocketAddr;

use rpc::wire;
use rpc::wire::jobs_server::{Jobs, JobsServer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::Empty;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::support::patiently;

/// A listening server.
pub(crate) struct Desk {
    pub(crate) url: String,
    talks: mpsc::Receiver<Talk>,
    server: JoinHandle<()>,
}

/// One stream of a client; dropped, it is over.
pub(crate) struct Talk {
    frames: Streaming<wire::SubmitFrame>,
    answers: mpsc::Sender<Result<wire::SubmitAnswer, Status>>,
}

impl Desk {
    pub(crate) async fn start() -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("loopback can be bound");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (talks_in, talks) = mpsc::channel(8);
        let server = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(JobsServer::new(Clerk { talks: talks_in }))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .expect("the server runs until it is dropped");
        });
        Desk { url, talks, server }
    }

    /// The next stream, told that this life of the server answers; it has said who it is, and nothing else.
    pub(crate) async fn talk(&mut self, generation: u64) -> Talk {
        let (talk, greeting) = self.talk_with(generation).await;
        assert_eq!((greeting.jobs.len(), greeting.acknowledged.len()), (0, 0), "{greeting:?}");
        talk
    }

    /// The next stream, not answered yet, and what it said first.
    pub(crate) async fn untold_talk(&mut self) -> (Talk, wire::SubmitFrame) {
        let mut talk = patiently("a stream", self.talks.recv()).await.expect("the server is running");
        let greeting = talk.frame().await;
        assert!(!greeting.client.is_empty(), "{greeting:?}");
        (talk, greeting)
    }

    /// The same, told that this life of the server answers and has dealt with what it said.
    pub(crate) async fn talk_with(&mut self, generation: u64) -> (Talk, wire::SubmitFrame) {
        self.talk_remembering(generation, 0).await
    }

    /// The same, told also since when this life of the server remembers its client.
    pub(crate) async fn talk_remembering(
        &mut self,
        generation: u64,
        memory: u64,
    ) -> (Talk, wire::SubmitFrame) {
        let (talk, greeting) = self.untold_talk().await;
        talk.answer(wire::SubmitAnswer { generation, memory, frames: 1, ..Default::default() }).await;
        (talk, greeting)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Talk {
    /// The next frame, not answered yet.
    pub(crate) async fn frame(&mut self) -> wire::SubmitFrame {
        let frame = patiently("a frame", self.frames.message()).await.expect("the stream did not break");
        frame.expect("the stream goes on")
    }

    /// Takes frames until they brought so many jobs; their ids, in the order in which they came.
    pub(crate) async fn take(&mut self, jobs: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < jobs {
            ids.extend(submitted(&self.frame().await));
            self.done().await;
        }
        ids
    }

    /// One more frame was dealt with.
    pub(crate) async fn done(&self) {
        self.answer(wire::SubmitAnswer { frames: 1, ..Default::default() }).await;
    }

    /// One more frame was dealt with, but this job of it is refused.
    pub(crate) async fn refuse(&self, id: &str, error: &str) {
        let refusals = vec![wire::Refusal { id: id.to_owned(), error: error.to_owned() }];
        self.answer(wire::SubmitAnswer { frames: 1, refusals, ..Default::default() }).await;
    }

    /// One more frame was dealt with, but there was no room for these jobs of it.
    pub(crate) async fn postpone(&self, ids: &[String]) {
        let (postponed, retry_after_ms) = (ids.to_vec(), 20);
        self.answer(wire::SubmitAnswer { frames: 1, postponed, retry_after_ms, ..Default::default() }).await;
    }

    /// These jobs have completed, each with its id as its result.
    pub(crate) async fn complete(&self, ids: &[impl AsRef<str>]) {
        let end = |id: &str| wire::End {
            id: id.to_owned(),
            state: "completed".to_owned(),
            result: id.to_owned().into(),
            attempt: 1,
            ..Default::default()
        };
        let ends = ids.iter().map(|id| end(id.as_ref())).collect();
        self.answer(wire::SubmitAnswer { ends, ..Default::default() }).await;
    }

    async fn answer(&self, answer: wire::SubmitAnswer) {
        self.answers.send(Ok(answer)).await.expect("the client listens");
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(self, status: Status) {
        self.answers.send(Err(status)).await.expect("the client listens");
    }

    /// Returns when the client does not listen any more.
    pub(crate) async fn hung_up(self) {
        patiently("the end of a stream", self.answers.closed()).await;
    }
}

/// The jobs that a frame submits.
pub(crate) fn submitted(frame: &wire::SubmitFrame) -> Vec<String> {
    frame.jobs.iter().map(|job| job.id.clone()).collect()
}

/// Hands everything to the test.
struct Clerk {
    talks: mpsc::Sender<Talk>,
}

#[tonic::async_trait]
impl Jobs for Clerk {
    type WatchStream = Empty<Result<wire::JobEvent, Status>>;
    type SubmitStream = ReceiverStream<Result<wire::SubmitAnswer, Status>>;

    async fn submit(
        &self,
        request: Request<Streaming<wire::SubmitFrame>>,
    ) -> Result<Response<Self::SubmitStream>, Status> {
        let (answers, outgoing) = mpsc::channel(8);
        let talk = Talk { frames: request.into_inner(), answers };
        self.talks.send(talk).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }

    async fn enqueue(
        &self,
        _: Request<wire::EnqueueRequest>,
    ) -> Result<Response<wire::EnqueueResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn get(&self, _: Request<wire::GetJobRequest>) -> Result<Response<wire::Job>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn list(
        &self,
        _: Request<wire::ListJobsRequest>,
    ) -> Result<Response<wire::ListJobsResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn cancel(
        &self,
        _: Request<wire::CancelRequest>,
    ) -> Result<Response<wire::CancelResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn retry(&self, _: Request<wire::RetryRequest>) -> Result<Response<wire::RetryResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn watch(&self, _: Request<wire::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn stats(&self, _: Request<wire::StatsRequest>) -> Result<Response<wire::StatsResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }
}
