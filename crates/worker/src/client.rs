//! The client: every unary call of the wire, over one or several servers.
//!
//! Channels connect on first use and reconnect by themselves. A call goes to the server that answered last; when that
//! one cannot be reached it moves on to the next. A call whose connection broke half-way is repeated only if doing it
//! twice is the same as doing it once. One that a server refuses because another one is in charge of the worker has not
//! happened, and is made there, once.

mod nodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::Stream;
use rpc::ApiError;
use rpc::wire;
use rpc::wire::jobs_client::JobsClient;
use rpc::wire::muster_client::MusterClient;
use rpc::wire::queues_client::QueuesClient;
use rpc::wire::servers_client::ServersClient;
use rpc::wire::work_client::WorkClient;
use rpc::wire::workers_client::WorkersClient;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::error::ClientError;
use crate::server::{CONNECT_TIMEOUT, CONNECT_TIMEOUT_ALONE, Server, Silence, client_error, owner, silence};
use crate::submit::{SubmitOptions, Submitter};

/// Largest message in either direction; larger ones are refused by whoever notices first.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A connection to one or several Tenure servers. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    servers: Vec<Server>,
    /// Index of the server that answered last.
    preferred: AtomicUsize,
}

/// May a call be sent again when nobody knows whether it happened?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Doing it twice is the same as doing it once.
    Safe,
    /// Only if the connection never opened.
    Unsafe,
}

impl Client {
    /// A client for a comma-separated list of servers, such as `http://a:7117,http://b:7117`.
    ///
    /// Connects on first use, so it succeeds without a server; it must be called inside a tokio runtime. An address
    /// that cannot be read is an `Invalid` error.
    pub fn connect(servers: &str) -> Result<Client, ClientError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ApiError::invalid("a client can only be made inside a tokio runtime").into());
        }
        let urls: Vec<&str> = servers.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        let timeout = if urls.len() > 1 { CONNECT_TIMEOUT } else { CONNECT_TIMEOUT_ALONE };
        let servers = urls.iter().map(|url| Server::new(url, timeout)).collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err(ApiError::invalid("name at least one server such as http://127.0.0.1:7117").into());
        }
        Ok(Client { shared: Arc::new(Shared { servers, preferred: AtomicUsize::new(0) }) })
    }

    /// Adds jobs. A request without a request id gets one, so that it can be repeated when a connection breaks.
    pub async fn enqueue(
        &self,
        mut request: wire::EnqueueRequest,
    ) -> Result<wire::EnqueueResponse, ClientError> {
        if request.request_id.is_empty() {
            request.request_id = format!("{:032x}", rand::random::<u128>());
        }
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { jobs(channel).enqueue(request).await }
        })
        .await
    }

    /// Submits jobs to volatile queues and follows them to their end; see [the crate](crate#volatile-queues). Must be called
    /// inside a tokio runtime.
    pub fn submitter(&self, options: SubmitOptions) -> Submitter {
        Submitter::start(self.clone(), &options)
    }

    /// Opens the stream of a submitter; asked for once for every server that is tried.
    pub(crate) async fn submissions<S>(&self, frames: impl Fn() -> S) -> Result<Answers, ClientError>
    where
        S: Stream<Item = wire::SubmitFrame> + Send + 'static,
    {
        let answers = self
            .call(Repeat::Safe, |channel| {
                let frames = frames();
                async move { jobs(channel).submit(frames).await }
            })
            .await?;
        Ok(Events::new(self.preferred_url(), answers))
    }

    /// Why a server with volatile queues still waits, and who may run what.
    pub async fn muster_status(&self) -> Result<wire::MusterStatus, ClientError> {
        self.call(Repeat::Safe, |channel| async move {
            let mut muster = MusterClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
            muster.status(wire::MusterStatusRequest {}).await
        })
        .await
    }

    /// One job.
    pub async fn get(&self, request: wire::GetJobRequest) -> Result<wire::Job, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { jobs(channel).get(request).await }
        })
        .await
    }

    /// One page of jobs.
    pub async fn list(&self, request: wire::ListJobsRequest) -> Result<wire::ListJobsResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { jobs(channel).list(request).await }
        })
        .await
    }

    /// Cancels jobs, or asks their holders to stop.
    pub async fn cancel(&self, request: wire::CancelRequest) -> Result<wire::CancelResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { jobs(channel).cancel(request).await }
        })
        .await
    }

    /// Offers ended jobs again. Not repeated by itself: a job that died again in between would be offered twice.
    pub async fn retry(&self, request: wire::RetryRequest) -> Result<wire::RetryResponse, ClientError> {
        self.call(Repeat::Unsafe, |channel| {
            let request = request.clone();
            async move { jobs(channel).retry(request).await }
        })
        .await
    }

    /// Counts of everything.
    pub async fn stats(&self) -> Result<wire::StatsResponse, ClientError> {
        self.call(Repeat::Safe, |channel| async move { jobs(channel).stats(wire::StatsRequest {}).await })
            .await
    }

    /// Every change of the matching jobs' states, from now on. The stream does not fail over: when it ends with an
    /// error, changes may have been missed, and the caller watches again.
    pub async fn watch(&self, request: wire::WatchRequest) -> Result<Watch, ClientError> {
        let events = self
            .call(Repeat::Safe, |channel| {
                let request = request.clone();
                async move { jobs(channel).watch(request).await }
            })
            .await?;
        Ok(Events::new(self.preferred_url(), events))
    }

    /// All queues with their counts.
    pub async fn queues(&self) -> Result<wire::ListQueuesResponse, ClientError> {
        self.call(
            Repeat::Safe,
            |channel| async move { queues(channel).list(wire::ListQueuesRequest {}).await },
        )
        .await
    }

    /// Changes a queue's settings.
    pub async fn set_queue(&self, request: wire::SetQueueRequest) -> Result<wire::Queue, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { queues(channel).set(request).await }
        })
        .await
    }

    /// Claims jobs. Not repeated by itself: jobs of a lost answer come back when their leases end.
    pub async fn claim(&self, request: wire::ClaimRequest) -> Result<wire::ClaimResponse, ClientError> {
        self.call(Repeat::Unsafe, |channel| {
            let request = request.clone();
            async move { work(channel).claim(request).await }
        })
        .await
    }

    /// Renews leases.
    pub async fn renew(&self, request: wire::RenewRequest) -> Result<wire::RenewResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { work(channel).renew(request).await }
        })
        .await
    }

    /// Reports how attempts ended.
    pub async fn finish(&self, request: wire::FinishRequest) -> Result<wire::FinishResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { work(channel).finish(request).await }
        })
        .await
    }

    /// Notes progress and checkpoints.
    pub async fn progress(
        &self,
        request: wire::ProgressRequest,
    ) -> Result<wire::ProgressResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { work(channel).progress(request).await }
        })
        .await
    }

    /// Workers as the server knows them, one page.
    pub async fn workers(
        &self,
        request: wire::ListWorkersRequest,
    ) -> Result<wire::ListWorkersResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).list(request).await }
        })
        .await
    }

    /// One worker.
    pub async fn worker(&self, request: wire::GetWorkerRequest) -> Result<wire::Worker, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).get(request).await }
        })
        .await
    }

    /// Asks a worker to take no more work, finish and leave.
    pub async fn drain_worker(&self, request: wire::DrainWorkerRequest) -> Result<wire::Worker, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).drain(request).await }
        })
        .await
    }

    /// The servers that use the same store as the one that answers.
    pub async fn servers_seen(&self) -> Result<wire::ListServersResponse, ClientError> {
        self.call(Repeat::Safe, |channel| async move {
            ServersClient::new(channel).list(wire::ListServersRequest {}).await
        })
        .await
    }

    /// Declares a worker inactive now.
    pub async fn kick_worker(&self, request: wire::KickWorkerRequest) -> Result<wire::Worker, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).kick(request).await }
        })
        .await
    }

    /// A heartbeat of a worker without a stream. Not repeated by itself: its send stamp would be wrong.
    pub async fn heartbeat(&self, request: wire::Heartbeat) -> Result<wire::HeartbeatAnswer, ClientError> {
        self.call(Repeat::Unsafe, |channel| {
            let request = request.clone();
            async move { workers(channel).heartbeat(request).await }
        })
        .await
    }

    /// Says that a worker without a stream goes.
    pub async fn leave(&self, request: wire::LeaveRequest) -> Result<wire::LeaveResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).leave(request).await }
        })
        .await
    }

    /// The simplest sign of life.
    pub async fn ping(&self, request: wire::PingRequest) -> Result<wire::PingResponse, ClientError> {
        self.call(Repeat::Safe, |channel| {
            let request = request.clone();
            async move { workers(channel).ping(request).await }
        })
        .await
    }

    /// The addresses, in the order they were given.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.shared.servers.iter().map(|server| server.url.as_str())
    }

    /// The server at this address: one of ours, or a stranger.
    pub(crate) fn server(&self, address: &str) -> Result<Server, ClientError> {
        let stranger = Server::new(address, CONNECT_TIMEOUT)?;
        Ok(self.shared.servers.iter().find(|known| known.url == stranger.url).cloned().unwrap_or(stranger))
    }

    /// Calls go to the server at this address first, if it is one of ours.
    pub(crate) fn prefer(&self, url: &str) {
        if let Some(index) = self.servers().position(|known| known == url) {
            self.shared.preferred.store(index, Ordering::Relaxed);
        }
    }

    /// Moves on to the next server, because this one did not answer.
    pub(crate) fn prefer_another(&self) {
        let failed = self.shared.preferred.load(Ordering::Relaxed);
        let next = (failed + 1) % self.shared.servers.len();
        // A unary call may have moved on already; then its choice stands.
        let _ = self.shared.preferred.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn call<T, F>(&self, repeat: Repeat, send: impl Fn(Channel) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let servers = &self.shared.servers;
        let first = self.shared.preferred.load(Ordering::Relaxed);
        let mut reason = String::new();
        // Each server once, then the first one again: a connection that broke is often a server that restarted.
        for turn in 0..=servers.len() {
            let index = (first + turn) % servers.len();
            let status = match send(servers[index].channel.clone()).await {
                Ok(answer) => {
                    self.shared.preferred.store(index, Ordering::Relaxed);
                    return Ok(answer.into_inner());
                }
                Err(status) => status,
            };
            let Some(silence) = silence(&status) else {
                self.shared.preferred.store(index, Ordering::Relaxed);
                return match self.owner_of(&status, &servers[index]) {
                    Some(owner) => self.ask_owner(&owner, repeat, send, status).await,
                    None => Err(ClientError::Api(status.into())),
                };
            };
            match silence {
                Silence::Broke(why) if repeat == Repeat::Unsafe => {
                    return Err(perhaps_done(&servers[index], &why));
                }
                Silence::NeverOpened(why) => {
                    reason = why;
                    if servers.len() == 1 {
                        break;
                    }
                }
                Silence::Broke(why) => reason = why,
            }
        }
        Err(ClientError::Unreachable { server: self.servers().collect::<Vec<_>>().join(", "), why: reason })
    }

    /// Whom this refusal names, if that is someone else.
    fn owner_of(&self, refusal: &Status, refuser: &Server) -> Option<Server> {
        let owner = self.server(owner(refusal)?).ok()?;
        (owner.url != refuser.url).then_some(owner)
    }

    /// Makes the call where it belongs. If nobody is there, the refusal stands.
    async fn ask_owner<T, F>(
        &self,
        owner: &Server,
        repeat: Repeat,
        send: impl Fn(Channel) -> F,
        refusal: Status,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let status = match send(owner.channel.clone()).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        Err(match silence(&status) {
            Some(Silence::Broke(why)) if repeat == Repeat::Unsafe => perhaps_done(owner, &why),
            Some(_) => ClientError::Api(refusal.into()),
            None => ClientError::Api(status.into()),
        })
    }

    fn preferred_url(&self) -> &str {
        &self.shared.servers[self.shared.preferred.load(Ordering::Relaxed)].url
    }
}

/// The error for a call of which nobody knows whether it happened.
fn perhaps_done(server: &Server, why: &str) -> ClientError {
    let why = format!("the connection broke before the answer came, the call may have happened: {why}");
    ClientError::Unreachable { server: server.url.clone(), why }
}

/// A stream of what happens at one server.
#[derive(Debug)]
pub struct Events<T> {
    server: String,
    events: Streaming<T>,
}

/// A stream of job events.
pub type Watch = Events<wire::JobEvent>;
/// What a submitter is told.
pub(crate) type Answers = Events<wire::SubmitAnswer>;

impl<T> Events<T> {
    fn new(server: &str, events: Streaming<T>) -> Self {
        Events { server: server.to_owned(), events }
    }

    /// The next event; `None` when the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<T>, ClientError> {
        self.events.message().await.map_err(|status| client_error(&self.server, status))
    }
}

fn jobs(channel: Channel) -> JobsClient<Channel> {
    JobsClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

fn queues(channel: Channel) -> QueuesClient<Channel> {
    QueuesClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

fn workers(channel: Channel) -> WorkersClient<Channel> {
    WorkersClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub(crate) fn work(channel: Channel) -> WorkClient<Channel> {
    WorkClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}
