//! A server of volatile jobs that does exactly what a test tells it: every call is handed to the test, which answers it.

use std::net::SocketAddr;

use rpc::wire;
use rpc::wire::jobs_server::{Jobs, JobsServer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::Empty;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status};

use crate::support::patiently;

/// A listening server.
pub(crate) struct Desk {
    pub(crate) url: String,
    enqueues: mpsc::Receiver<Call<wire::EnqueueRequest, wire::EnqueueResponse>>,
    acks: mpsc::Receiver<Call<wire::AcknowledgeRequest, wire::AcknowledgeResponse>>,
    ends: mpsc::Receiver<(wire::EndsRequest, Outbound)>,
    server: JoinHandle<()>,
}

/// A call that waits for its answer.
pub(crate) struct Call<Q, A> {
    pub(crate) request: Q,
    answer: oneshot::Sender<Result<A, Status>>,
}

/// A stream of ends; dropped, it is over.
pub(crate) struct EndsStream {
    outbound: Outbound,
}

type Outbound = mpsc::Sender<Result<wire::EndsFrame, Status>>;

impl Desk {
    pub(crate) async fn start() -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("loopback can be bound");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let (enqueues_in, enqueues) = mpsc::channel(8);
        let (acks_in, acks) = mpsc::channel(8);
        let (ends_in, ends) = mpsc::channel(8);
        let clerk = Clerk { enqueues: enqueues_in, acks: acks_in, ends: ends_in };
        let server = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(JobsServer::new(clerk))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .expect("the server runs until it is dropped");
        });
        Desk { url, enqueues, acks, ends, server }
    }

    /// The next enqueue, not answered yet.
    pub(crate) async fn enqueue(&mut self) -> Call<wire::EnqueueRequest, wire::EnqueueResponse> {
        patiently("an enqueue", self.enqueues.recv()).await.expect("the server is running")
    }

    /// Takes enqueues as this life of the server until it has so many jobs; their ids, in the order in which they came.
    pub(crate) async fn take(&mut self, jobs: usize, generation: u64) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < jobs {
            let call = self.enqueue().await;
            ids.extend(call.ids());
            call.take(generation);
        }
        ids
    }

    /// The next acknowledgement, not answered yet.
    pub(crate) async fn ack(&mut self) -> Call<wire::AcknowledgeRequest, wire::AcknowledgeResponse> {
        patiently("an acknowledgement", self.acks.recv()).await.expect("the server is running")
    }

    /// Whether an acknowledgement waits.
    pub(crate) fn has_ack(&self) -> bool {
        !self.acks.is_empty()
    }

    /// The next stream of ends, told that this life of the server answers.
    pub(crate) async fn ends(&mut self, generation: u64) -> EndsStream {
        let (_, outbound) =
            patiently("a stream of ends", self.ends.recv()).await.expect("the server is running");
        let stream = EndsStream { outbound };
        stream.send(wire::EndsFrame { generation, ends: Vec::new() }).await;
        stream
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl<Q, A> Call<Q, A> {
    /// Answers it.
    pub(crate) fn answer(self, answer: Result<A, Status>) {
        // Whoever asked may be gone.
        let _ = self.answer.send(answer);
    }
}

impl Call<wire::EnqueueRequest, wire::EnqueueResponse> {
    /// What is submitted.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.request.jobs.iter().map(|job| job.id.clone()).collect()
    }

    /// All of it is taken, by this life of the server.
    pub(crate) fn take(self, generation: u64) {
        let jobs = self.ids().into_iter().map(|id| wire::Enqueued { id, duplicate: false }).collect();
        self.answer(Ok(wire::EnqueueResponse { jobs, generation, ..Default::default() }));
    }
}

impl EndsStream {
    /// These jobs have completed, each with its id as its result.
    pub(crate) async fn complete(&self, ids: &[impl AsRef<str>]) {
        let end = |id: &str| wire::End {
            id: id.to_owned(),
            state: "completed".to_owned(),
            result: id.to_owned().into(),
            attempt: 1,
            ..Default::default()
        };
        self.send(wire::EndsFrame {
            ends: ids.iter().map(|id| end(id.as_ref())).collect(),
            ..Default::default()
        })
        .await;
    }

    async fn send(&self, frame: wire::EndsFrame) {
        self.outbound.send(Ok(frame)).await.expect("the client listens");
    }

    /// Returns when the client does not listen any more.
    pub(crate) async fn hung_up(self) {
        patiently("the end of a stream of ends", self.outbound.closed()).await;
    }
}

/// Hands everything to the test.
struct Clerk {
    enqueues: mpsc::Sender<Call<wire::EnqueueRequest, wire::EnqueueResponse>>,
    acks: mpsc::Sender<Call<wire::AcknowledgeRequest, wire::AcknowledgeResponse>>,
    ends: mpsc::Sender<(wire::EndsRequest, Outbound)>,
}

fn over<T>(_: T) -> Status {
    Status::unavailable("the test is over")
}

async fn hand_over<Q, A>(
    calls: &mpsc::Sender<Call<Q, A>>,
    request: Request<Q>,
) -> Result<Response<A>, Status> {
    let (answer, answered) = oneshot::channel();
    calls.send(Call { request: request.into_inner(), answer }).await.map_err(over)?;
    answered.await.map_err(over)?.map(Response::new)
}

#[tonic::async_trait]
impl Jobs for Clerk {
    type WatchStream = Empty<Result<wire::JobEvent, Status>>;
    type EndsStream = ReceiverStream<Result<wire::EndsFrame, Status>>;

    async fn enqueue(
        &self,
        request: Request<wire::EnqueueRequest>,
    ) -> Result<Response<wire::EnqueueResponse>, Status> {
        hand_over(&self.enqueues, request).await
    }

    async fn acknowledge(
        &self,
        request: Request<wire::AcknowledgeRequest>,
    ) -> Result<Response<wire::AcknowledgeResponse>, Status> {
        hand_over(&self.acks, request).await
    }

    async fn ends(&self, request: Request<wire::EndsRequest>) -> Result<Response<Self::EndsStream>, Status> {
        let (outbound, frames) = mpsc::channel(8);
        self.ends.send((request.into_inner(), outbound)).await.map_err(over)?;
        Ok(Response::new(ReceiverStream::new(frames)))
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
