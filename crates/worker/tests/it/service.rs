//! The scripted server's calls, as far as workers use them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use model::ErrorKind;
use rpc::ApiError;
use rpc::wire;
use rpc::wire::work_server::Work;
use rpc::wire::workers_server::Workers;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{GENERATION, ProgressCall, Stream};

/// Hands everything to the test.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) sessions: mpsc::Sender<Stream>,
    pub(crate) progress: mpsc::Sender<ProgressCall>,
    pub(crate) leaves: mpsc::Sender<wire::LeaveRequest>,
    pub(crate) is_frozen: Arc<AtomicBool>,
    /// Who takes the leaves instead.
    pub(crate) owner: Arc<Mutex<Option<String>>>,
}

#[tonic::async_trait]
impl Work for Service {
    type SessionStream = ReceiverStream<Result<wire::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<wire::WorkerFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, outbound) = mpsc::channel(8);
        let stream = Stream::new(request.into_inner(), answers);
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

    async fn probe(&self, _: Request<wire::ProbeRequest>) -> Result<Response<wire::ProbeResponse>, Status> {
        if self.is_frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(wire::ProbeResponse { generation: GENERATION }))
    }
}

#[tonic::async_trait]
impl Workers for Service {
    async fn leave(
        &self,
        request: Request<wire::LeaveRequest>,
    ) -> Result<Response<wire::LeaveResponse>, Status> {
        let leave = request.into_inner();
        self.leaves.send(leave).await.map_err(|_| Status::unavailable("the test is over"))?;
        if let Some(owner) = self.owner.lock().expect("nobody panics").as_ref() {
            let mut refusal = Status::from(ApiError::new(ErrorKind::NotOwner, "another server is in charge"));
            refusal.metadata_mut().insert("tenure-owner", owner.parse().expect("an address"));
            return Err(refusal);
        }
        Ok(Response::new(wire::LeaveResponse::default()))
    }

    async fn list(
        &self,
        _: Request<wire::ListWorkersRequest>,
    ) -> Result<Response<wire::ListWorkersResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn get(&self, _: Request<wire::GetWorkerRequest>) -> Result<Response<wire::Worker>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn drain(&self, _: Request<wire::DrainWorkerRequest>) -> Result<Response<wire::Worker>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn kick(&self, _: Request<wire::KickWorkerRequest>) -> Result<Response<wire::Worker>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn heartbeat(
        &self,
        _: Request<wire::Heartbeat>,
    ) -> Result<Response<wire::HeartbeatAnswer>, Status> {
        Err(Status::unimplemented("scripted"))
    }

    async fn ping(&self, _: Request<wire::PingRequest>) -> Result<Response<wire::PingResponse>, Status> {
        Err(Status::unimplemented("scripted"))
    }
}
