//! The gRPC door. Each method is one line: the handlers are in `api`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use rpc::wire;
use rpc::wire::jobs_server::{Jobs, JobsServer};
use rpc::wire::muster_server::{Muster, MusterServer};
use rpc::wire::nodes_server::{Nodes, NodesServer};
use rpc::wire::queues_server::{Queues, QueuesServer};
use rpc::wire::servers_server::{Servers, ServersServer};
use rpc::wire::work_server::{Work, WorkServer};
use rpc::wire::workers_server::{Workers, WorkersServer};
use tokio::sync::broadcast::error::RecvError;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::api::Api;
use crate::session;
use crate::shield::{to_the_end, while_wanted};
use crate::volatile::submitting;

/// Room for a full batch and its envelope.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

type Reply<T> = Result<Response<T>, Status>;
type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Door(Arc<Api>);

/// All gRPC services as routes.
pub(crate) fn routes(api: &Arc<Api>) -> axum::Router {
    let jobs = JobsServer::new(Door(Arc::clone(api)));
    let work = WorkServer::new(Door(Arc::clone(api)));
    let queues = QueuesServer::new(Door(Arc::clone(api)));
    tonic::service::Routes::new(
        jobs.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
    .add_service(
        work.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
    .add_service(queues)
    .add_service(NodesServer::new(Door(Arc::clone(api))).max_encoding_message_size(MESSAGE_BYTES_MAX))
    .add_service(MusterServer::new(Door(Arc::clone(api))).max_encoding_message_size(MESSAGE_BYTES_MAX))
    .add_service(ServersServer::new(Door(Arc::clone(api))))
    .add_service(WorkersServer::new(Door(Arc::clone(api))).max_decoding_message_size(MESSAGE_BYTES_MAX))
    .prepare()
    .into_axum_router()
}

/// A call that changes something; see `shield`.
macro_rules! shielded {
    ($door:expr, $request:expr, $method:ident) => {{
        let (api, request) = (Arc::clone(&$door.0), $request.into_inner());
        reply(to_the_end(async move { api.$method(request).await }).await)
    }};
}

fn too_slow(missed: u64) -> Status {
    Status::data_loss(format!("too slow: {missed} events were dropped; watch again"))
}

fn reply<T>(answer: crate::api::Answer<T>) -> Reply<T> {
    Ok(Response::new(answer?))
}

#[async_trait]
impl Jobs for Door {
    type WatchStream = Outgoing<wire::JobEvent>;
    type SubmitStream = Outgoing<wire::SubmitAnswer>;

    async fn submit(&self, request: Request<Streaming<wire::SubmitFrame>>) -> Reply<Self::SubmitStream> {
        let answers = submitting::open(Arc::clone(&self.0), request.into_inner()).await?;
        Ok(Response::new(Box::pin(answers)))
    }

    async fn enqueue(&self, request: Request<wire::EnqueueRequest>) -> Reply<wire::EnqueueResponse> {
        shielded!(self, request, enqueue)
    }

    async fn get(&self, request: Request<wire::GetJobRequest>) -> Reply<wire::Job> {
        reply(self.0.get(request.into_inner()).await)
    }

    async fn list(&self, request: Request<wire::ListJobsRequest>) -> Reply<wire::ListJobsResponse> {
        reply(self.0.list(request.into_inner()).await)
    }

    async fn cancel(&self, request: Request<wire::CancelRequest>) -> Reply<wire::CancelResponse> {
        shielded!(self, request, cancel)
    }

    async fn retry(&self, request: Request<wire::RetryRequest>) -> Reply<wire::RetryResponse> {
        shielded!(self, request, retry)
    }

    async fn stats(&self, _: Request<wire::StatsRequest>) -> Reply<wire::StatsResponse> {
        reply(self.0.stats().await)
    }

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Reply<Self::WatchStream> {
        let (wanted, events, present) = self.0.watch(request.into_inner()).await?;
        let wanted = Arc::new(wanted);
        let changes = futures_util::stream::unfold(events, move |mut events| {
            let wanted = Arc::clone(&wanted);
            async move {
                loop {
                    match events.next().await {
                        Ok(event) if wanted.matches(&event) => return Some((Ok(event), events)),
                        Ok(_) => {}
                        Err(RecvError::Lagged(missed)) => {
                            return Some((Err(too_slow(missed)), events));
                        }
                        Err(RecvError::Closed) => return None,
                    }
                }
            }
        });
        let all = futures_util::stream::iter(present.into_iter().map(Ok)).chain(changes);
        Ok(Response::new(Box::pin(all.take_until(self.0.closing.clone().cancelled_owned()))))
    }
}

#[async_trait]
impl Work for Door {
    type SessionStream = Outgoing<wire::ServerFrame>;

    async fn session(&self, request: Request<Streaming<wire::WorkerFrame>>) -> Reply<Self::SessionStream> {
        let outbox = session::open(Arc::clone(&self.0), request.into_inner()).await?;
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(outbox))))
    }

    async fn claim(&self, request: Request<wire::ClaimRequest>) -> Reply<wire::ClaimResponse> {
        let api = Arc::clone(&self.0);
        reply(while_wanted(|gone| async move { api.claim(request.into_inner(), gone).await }).await)
    }

    async fn renew(&self, request: Request<wire::RenewRequest>) -> Reply<wire::RenewResponse> {
        shielded!(self, request, renew)
    }

    async fn finish(&self, request: Request<wire::FinishRequest>) -> Reply<wire::FinishResponse> {
        shielded!(self, request, finish)
    }

    async fn progress(&self, request: Request<wire::ProgressRequest>) -> Reply<wire::ProgressResponse> {
        shielded!(self, request, progress)
    }

    async fn probe(&self, _: Request<wire::ProbeRequest>) -> Reply<wire::ProbeResponse> {
        Ok(Response::new(wire::ProbeResponse { generation: self.0.generation }))
    }
}

#[async_trait]
impl Workers for Door {
    async fn list(&self, request: Request<wire::ListWorkersRequest>) -> Reply<wire::ListWorkersResponse> {
        reply(self.0.list_workers(request.into_inner()).await)
    }

    async fn get(&self, request: Request<wire::GetWorkerRequest>) -> Reply<wire::Worker> {
        reply(self.0.get_worker(request.into_inner()).await)
    }

    async fn drain(&self, request: Request<wire::DrainWorkerRequest>) -> Reply<wire::Worker> {
        shielded!(self, request, drain_worker)
    }

    async fn kick(&self, request: Request<wire::KickWorkerRequest>) -> Reply<wire::Worker> {
        shielded!(self, request, kick_worker)
    }

    async fn heartbeat(&self, request: Request<wire::Heartbeat>) -> Reply<wire::HeartbeatAnswer> {
        shielded!(self, request, heartbeat)
    }

    async fn leave(&self, request: Request<wire::LeaveRequest>) -> Reply<wire::LeaveResponse> {
        shielded!(self, request, leave_unary)
    }

    async fn ping(&self, request: Request<wire::PingRequest>) -> Reply<wire::PingResponse> {
        shielded!(self, request, ping)
    }
}

#[async_trait]
impl Servers for Door {
    async fn list(&self, _: Request<wire::ListServersRequest>) -> Reply<wire::ListServersResponse> {
        reply(self.0.list_servers())
    }
}

#[async_trait]
impl Nodes for Door {
    type WatchStream = Outgoing<wire::NodeEvent>;

    async fn list(&self, _: Request<wire::ListNodesRequest>) -> Reply<wire::ListNodesResponse> {
        reply(self.0.list_nodes())
    }

    async fn get(&self, request: Request<wire::GetNodeRequest>) -> Reply<wire::Node> {
        reply(self.0.get_node(request.into_inner()))
    }

    async fn watch(&self, _: Request<wire::WatchNodesRequest>) -> Reply<Self::WatchStream> {
        let (present, changes) = self.0.watch_nodes()?;
        let changes = BroadcastStream::new(changes)
            .map(|change| change.map_err(|BroadcastStreamRecvError::Lagged(missed)| too_slow(missed)));
        let all = futures_util::stream::iter(present.into_iter().map(Ok)).chain(changes);
        Ok(Response::new(Box::pin(all.take_until(self.0.closing.clone().cancelled_owned()))))
    }

    async fn forget(&self, request: Request<wire::ForgetNodeRequest>) -> Reply<wire::Node> {
        shielded!(self, request, forget_node)
    }

    async fn leave(&self, request: Request<wire::LeaveNodesRequest>) -> Reply<wire::Node> {
        shielded!(self, request, leave_nodes)
    }
}

#[async_trait]
impl Muster for Door {
    async fn status(&self, _: Request<wire::MusterStatusRequest>) -> Reply<wire::MusterStatus> {
        reply(self.0.muster_status().await)
    }
}

#[async_trait]
impl Queues for Door {
    async fn list(&self, _: Request<wire::ListQueuesRequest>) -> Reply<wire::ListQueuesResponse> {
        reply(self.0.queues().await)
    }

    async fn set(&self, request: Request<wire::SetQueueRequest>) -> Reply<wire::Queue> {
        shielded!(self, request, set_queue)
    }
}
